"""Integrals of a molecule for coupled cluster, and what PySCF itself makes of them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from cc_equations import CLOSED_SHELL, SPIN_ORBITAL, sized
from numpy.typing import NDArray
from pyscf import gto, lib, scf
from pyscf.cc import dfccsd, gccsd

from einbound.machine.peak import high_water_bytes, reset_high_water

Array = NDArray[np.float64]

#: Changes of the energy and of the amplitudes at which iterations end; PySCF is held to the same.
ENERGY_CHANGE, AMPLITUDE_CHANGE = 1e-11, 1e-8
#: Iterations of PySCF that are timed.
_N_TIMED = 5


@dataclass(frozen=True, slots=True)
class Reference:
    """What PySCF needs and finds.

    Attributes:
        name: Its class.
        energy: Correlation energy in hartree.
        seconds: Median of one iteration; 0 where it was not timed.
        peak_bytes: Growth of the process's high-water mark over the whole calculation.
        iterations: Until it converged.
    """

    name: str
    energy: float
    seconds: float
    peak_bytes: int
    iterations: int


@dataclass(frozen=True)
class Problem:
    """Equations with the integrals of one molecule.

    Attributes:
        text: The equations, with extents.
        tensors: The integrals by name, each in an array of its own.
        occupied: Orbital energies of what is occupied, in hartree.
        virtual: Those of what is not.
        reference: What PySCF finds.
    """

    text: str
    tensors: Mapping[str, Array]
    occupied: Array
    virtual: Array
    reference: Reference


def closed_shell(molecule: str, basis: str, *, timed: bool = True) -> Problem:
    """The density-fitted problem of a molecule with closed shells.

    Args:
        molecule: Path of an xyz file, or atoms as PySCF takes them.
        basis: Name of the orbital basis; the fitting basis is PySCF's choice.
        timed: Whether PySCF's iterations are timed.
    """
    field = scf.RHF(_molecule(molecule, basis)).density_fit().run(conv_tol=1e-12)
    solver = dfccsd.RCCSD(field)
    reference = _solved(solver, timed)
    orbitals = solver.mo_coeff
    n = solver.nocc
    o, v = slice(n), slice(n, None)
    factors = np.concatenate(
        [
            np.einsum("Pmn,mp,nq->Ppq", lib.unpack_tril(block), orbitals, orbitals, optimize=True)
            for block in solver.with_df.loop()
        ]
    )
    fock = solver.ao2mo().fock
    tensors = _owned(
        Boo=factors[:, o, o], Bov=factors[:, o, v], Bvv=factors[:, v, v], **_fock(fock, o, v)
    )
    n_aux, _, n_virtual = tensors["Bov"].shape
    text = sized(CLOSED_SHELL, occ=n, vir=n_virtual, aux=n_aux)
    energies = np.diag(fock).copy()
    return Problem(text, tensors, energies[o], energies[v], reference)


def spin_orbital(molecule: str, basis: str, *, timed: bool = True) -> Problem:
    """The problem in spin orbitals, without density fitting.

    Args:
        molecule: Path of an xyz file, or atoms as PySCF takes them.
        basis: Name of the orbital basis.
        timed: Whether PySCF's iterations are timed.
    """
    field = scf.RHF(_molecule(molecule, basis)).run(conv_tol=1e-12)
    solver = gccsd.GCCSD(field.to_ghf())
    reference = _solved(solver, timed)
    made = solver.ao2mo(solver.mo_coeff)
    n = solver.nocc
    o, v = slice(n), slice(n, None)
    blocks = {"v" + spaces: getattr(made, spaces) for spaces in _BLOCKS}
    tensors = _owned(**blocks, **_fock(made.fock, o, v))
    text = sized(SPIN_ORBITAL, occ=n, vir=len(made.fock) - n)
    energies = np.diag(made.fock).copy()
    return Problem(text, tensors, energies[o], energies[v], reference)


def _molecule(atoms: str, basis: str) -> gto.Mole:
    # Times are compared on one thread. Of BLAS that is said before NumPy is imported.
    lib.num_threads(1)
    return gto.M(atom=atoms, basis=basis, verbose=0)


_BLOCKS = ("oooo", "ooov", "oovv", "ovov", "ovvv", "vvvv")


def _fock(fock: Array, o: slice, v: slice) -> dict[str, Array]:
    return {"foo": fock[o, o], "fov": fock[o, v], "fvv": fock[v, v]}


def _owned(**arrays: Any) -> dict[str, Array]:
    return {name: np.array(array, order="C") for name, array in arrays.items()}


def _solved(solver: Any, timed: bool) -> Reference:
    """PySCF's own calculation."""
    solver.conv_tol, solver.conv_tol_normt = ENERGY_CHANGE, AMPLITUDE_CHANGE
    reset_high_water()
    before = high_water_bytes()
    integrals = solver.ao2mo(solver.mo_coeff)
    energy, t1, t2 = solver.kernel(eris=integrals)
    after = high_water_bytes()
    seconds = [_seconds(solver, t1, t2, integrals) for _ in range(_N_TIMED if timed else 0)]
    grown = 0 if before is None or after is None else after - before
    name = f"PySCF {type(solver).__module__.rpartition('.')[2]}"
    return Reference(name, energy, median(seconds or [0.0]), grown, solver.cycles)


def _seconds(solver: Any, t1: Array, t2: Array, integrals: Any) -> float:
    began = time.perf_counter()
    solver.update_amps(t1, t2, integrals)
    return time.perf_counter() - began
