"""GPU kernels in which every thread computes a small tile of results with scalar arithmetic.

Both operands are staged with zeros past their ends, so that every extent may be padded.
"""

from __future__ import annotations

from einbound.kernels.decisions import Geometry
from einbound.kernels.geometry import GpuBlocktile
from einbound.kernels.launch import exceeded
from einbound.kernels.rules import divides, fits_workgroup, pads_little
from einbound.kernels.site import Site
from einbound.kernels.spec import KernelSpec
from einbound.kernels.verdicts import Verdict, choice, legal, proposed
from einbound.space.tree import Child, Leaf, Unknown
from einbound.space.witness import Witness

# Addresses, loop counters and bounds of a generated kernel, beside results and operands.
_OTHER_REGISTERS = 24


def blocktile(site: Site) -> Verdict:
    """The geometries of the pipeline."""
    return Child(
        lambda: choice((Geometry(tile), _geometry(site, tile)) for tile in site.menu.blocktiles)
    )


def _geometry(site: Site, tile: GpuBlocktile) -> Verdict:
    spec = site.spec(bm=tile.bm, bn=tile.bn, bk=tile.bk, tm=tile.tm, tn=tile.tn, packed=True)
    rules = [
        divides("tm", tile.tm, "bm", tile.bm),
        divides("tn", tile.tn, "bn", tile.bn),
        _few_threads(site, tile),
        fits_workgroup(site, tile.bm, tile.bn, tile.bk),
    ]
    return legal(rules, lambda: _launchable(site, tile, spec))


def _launchable(site: Site, tile: GpuBlocktile, spec: KernelSpec) -> Verdict:
    policies = [pads_little(site, tile.bm, tile.bn, tile.bk)]
    return legal(
        [exceeded(site.problem, site.limits, spec)],
        lambda: proposed(policies, lambda: _built(site, tile, spec)),
    )


def _built(site: Site, tile: GpuBlocktile, spec: KernelSpec) -> Verdict:
    """Whether registers suffice is known for certain only once the kernel is built."""
    spill = _spills(site, tile) if site.menu.predict_spills else None
    return Child(Leaf(spec)) if spill is None else Unknown(spill, Leaf(spec))


def _few_threads(site: Site, tile: GpuBlocktile) -> Witness | None:
    cap = site.limits.max_threads_per_workgroup
    threads = n_threads(tile)
    if cap is None or threads <= cap:
        return None
    rule = "threads of a workgroup, (bm / tm) (bn / tn), must stay within the cap"
    return Witness.of(rule, cap, threads=threads)


def _spills(site: Site, tile: GpuBlocktile) -> Witness | None:
    limits = site.limits
    needed = registers_per_thread(tile)
    caps = [limits.max_registers_per_thread, limits.registers_per_sm]
    if limits.registers_per_sm is not None:
        caps[1] = limits.registers_per_sm // n_threads(tile)
    cap = min((cap for cap in caps if cap is not None), default=needed)
    if needed <= cap:
        return None
    return Witness.of("registers of a thread are predicted to spill", cap, registers=needed)


def n_threads(tile: GpuBlocktile) -> int:
    """Threads of one workgroup."""
    return (tile.bm // tile.tm) * (tile.bn // tile.tn)


def registers_per_thread(tile: GpuBlocktile) -> int:
    """32-bit registers that one thread is predicted to need, for numbers of 32 bits."""
    return tile.tm * tile.tn + tile.tm + tile.tn + _OTHER_REGISTERS
