"""Networks of 14 to 60 operands: lattices, regular graphs, hypergraphs, circuits, chains of MPOs.

Drawn from fixed seeds when they are asked for; nothing is stored. Equal names mean equal
networks.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations, count, pairwise, product
from math import prod
from pathlib import Path

from networks import Network

#: Where labels begin: from here on every character is a letter for a long stretch.
_FIRST_LABEL = 192
Bond = tuple[int, ...]


def drawn() -> dict[str, Callable[[], Network]]:
    """What draws each network, by its name."""
    return {
        "lattice_4x5": lambda: _lattice("lattice_4x5", (4, 5), (4, 8, 12)),
        "lattice_6x6": lambda: _lattice("lattice_6x6", (6, 6), (4, 6, 8)),
        "lattice_3x3x3": lambda: _lattice("lattice_3x3x3", (3, 3, 3), (2, 3, 4)),
        "lattice_4x4_open": lambda: _lattice("lattice_4x4_open", (4, 4), (8, 12, 16), n_open=3),
        "regular3_n30": lambda: _regular("regular3_n30", 30, 3, (4, 6, 8)),
        "regular3_n50": lambda: _regular("regular3_n50", 50, 3, (3, 4, 5)),
        "regular4_n20": lambda: _regular("regular4_n20", 20, 4, (3, 4, 6)),
        "regular4_n28": lambda: _regular("regular4_n28", 28, 4, (2, 3, 4)),
        "regular4_n18_open": lambda: _regular("regular4_n18_open", 18, 4, (3, 4, 5), n_open=3),
        "hyper_n24": lambda: _hypergraph("hyper_n24", 24, 30, (3, 4, 6, 8)),
        "hyper_n40": lambda: _hypergraph("hyper_n40", 40, 50, (2, 3, 4)),
        "circuit_q16": lambda: _circuit("circuit_q16", 16, 6),
        "circuit_q20": lambda: _circuit("circuit_q20", 20, 5),
        "mpo_chain_12": lambda: _chain("mpo_chain_12", 12, (24, 8, 8, 24), 4),
        "mpo_ring_10": lambda: _chain("mpo_ring_10", 10, (10, 5, 10), 4, is_ring=True),
    }


def stored(path: Path) -> Network:
    """The network in one JSON file, labelled anew: it may have more indices than ASCII letters."""
    data = json.loads(path.read_text(encoding="utf-8"))
    number = {label: i for i, label in enumerate(data["sizes"])}
    holders: dict[str, list[int]] = {label: [] for label in number}
    for operand, term in enumerate(data["inputs"]):
        for label in term:
            holders[label].append(operand)
    opened = [number[label] for label in data["output"]]
    bonds = [tuple(held) for held in holders.values()]
    named = _named(path.stem, len(data["inputs"]), bonds, list(data["sizes"].values()), opened)
    return replace(named, dtype=data["dtype"])


def _named(
    name: str, n_operands: int, bonds: Sequence[Bond], extents: Sequence[int], opened: Sequence[int]
) -> Network:
    """The network of hyperedges over operands.

    Args:
        name: What it is called.
        n_operands: Number of operands.
        bonds: The operands that share each index.
        extents: The extent of each index.
        opened: The indices that are on the result.
    """
    terms: list[list[int]] = [[] for _ in range(n_operands)]
    for index, bond in enumerate(bonds):
        for operand in bond:
            terms[operand].append(index)
    text = ",".join("".join(chr(_FIRST_LABEL + i) for i in term) for term in terms)
    output = "".join(chr(_FIRST_LABEL + i) for i in opened)
    return Network(
        name,
        f"{text}->{output}",
        tuple(tuple(extents[i] for i in term) for term in terms),
        tuple(extents[i] for i in opened),
        "float64",
        {},
    )


def _drawn(
    source: random.Random, name: str, n_operands: int, bonds: list[Bond], extents: Sequence[int],
    n_open: int,
) -> Network:  # fmt: skip
    """The network of such bonds with extents at random, and some open indices more."""
    opened = list(range(len(bonds), len(bonds) + n_open))
    bonds = bonds + [(k,) for k in source.sample(range(n_operands), n_open)]
    return _named(name, n_operands, bonds, [source.choice(extents) for _ in bonds], opened)


def _lattice(name: str, shape: tuple[int, ...], extents: Sequence[int], n_open: int = 0) -> Network:
    sites = list(product(*map(range, shape)))
    number = {site: k for k, site in enumerate(sites)}
    near = [
        (number[one], number[other])
        for one, other in combinations(sites, 2)
        if sum(abs(a - b) for a, b in zip(one, other, strict=True)) == 1
    ]
    return _drawn(random.Random(name), name, prod(shape), list(near), extents, n_open)


def _regular(
    name: str, n_operands: int, degree: int, extents: Sequence[int], n_open: int = 0
) -> Network:
    """A graph in which every operand has as many neighbours, no two bonds alike."""
    source = random.Random(name)
    while True:
        ends = [k for k in range(n_operands) for _ in range(degree)]
        source.shuffle(ends)
        bonds = {tuple(sorted(pair)) for pair in zip(ends[::2], ends[1::2], strict=True)}
        is_simple = all(left != right for left, right in bonds)
        if is_simple and len(bonds) == len(ends) // 2:
            return _drawn(source, name, n_operands, sorted(bonds), extents, n_open)


def _hypergraph(name: str, n_operands: int, n_bonds: int, extents: Sequence[int]) -> Network:
    """Indices shared by two to four operands, along a random tree first."""
    source = random.Random(name)
    bonds: list[Bond] = [(source.randrange(max(k - 4, 0), k), k) for k in range(1, n_operands)]
    while len(bonds) < n_bonds:
        wide = source.choices((2, 3, 4), (4, 2, 1))[0]
        bonds.append(tuple(sorted(source.sample(range(n_operands), wide))))
    return _drawn(source, name, n_operands, bonds, extents, 0)


def _circuit(name: str, n_qubits: int, depth: int) -> Network:
    """One amplitude of gates on two neighbouring qubits each, pairs drawn anew in every layer."""
    source, numbers = random.Random(name), count()
    last = [next(numbers) for _ in range(n_qubits)]
    bonds: list[Bond] = []
    for _ in range(depth):
        qubits = list(range(n_qubits))
        source.shuffle(qubits)
        for left, right in zip(qubits[::2], qubits[1::2], strict=True):
            gate = next(numbers)
            bonds += [(last[left], gate), (last[right], gate)]
            last[left] = last[right] = gate
    bonds += [(last[k], next(numbers)) for k in range(n_qubits)]
    return _absorbed(name, bonds, next(numbers), n_qubits)


def _absorbed(name: str, bonds: list[Bond], n: int, n_qubits: int) -> Network:
    """The circuit with the vectors at both ends multiplied into their gates."""
    ends = {*range(n_qubits), *range(n - n_qubits, n)}
    kept = [bond for bond in bonds if not ends & {*bond}]
    bonds = [tuple(k - n_qubits for k in bond) for bond in kept]
    return _named(name, n - 2 * n_qubits, bonds, [2] * len(bonds), ())


def _chain(
    name: str, length: int, widths: Sequence[int], physical: int, *, is_ring: bool = False
) -> Network:
    """Layers of matrix product operators on one another, states at both ends."""
    bonds: list[Bond] = []
    extents: list[int] = []
    for layer, width in enumerate(widths):
        here = [layer * length + k for k in range(length)]
        along = list(pairwise(here))
        along += [(here[0], here[-1])] * is_ring
        bonds += along + [(k, k + length) for k in here] * (layer + 1 < len(widths))
        extents += [width] * len(along) + [physical] * length * (layer + 1 < len(widths))
    return _named(name, length * len(widths), bonds, extents, ())
