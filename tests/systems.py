"""Small random systems of equations, and their values by one numpy.einsum for each term."""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

import einbound as eb

Array = np.ndarray[Any, Any]
#: A number, an einsum text, and the names of the operands.
Term: TypeAlias = tuple[Fraction, str, tuple[str, ...]]

LABELS = "abcdef"
NUMBERS = [Fraction(n) for n in (1, -1, 2)] + [Fraction(1, 2), Fraction(-1, 4)]


@dataclass(frozen=True)
class RandomSystem:
    """Terms by target, with the shapes of tensors and those that change."""

    terms: dict[str, list[Term]]
    shapes: dict[str, tuple[int, ...]]
    volatile: frozenset[str]

    @property
    def equations(self) -> eb.Equations:
        return eb.Equations.from_terms(self.terms, volatile=self.volatile)

    def arrays(self, seed: int) -> dict[str, Array]:
        """Small whole numbers; those that never change do not depend on the seed."""
        made = {}
        for number, (name, shape) in enumerate(self.shapes.items()):
            rng = np.random.default_rng([number, seed if name in self.volatile else 0])
            made[name] = rng.integers(-2, 3, shape).astype(float)
        return made

    def values(self, arrays: dict[str, Array]) -> dict[str, Array]:
        """Every target, as numpy.einsum has it."""
        values = dict(arrays)
        for name, terms in self.terms.items():
            parts = [float(n) * np.einsum(eq, *(values[x] for x in read)) for n, eq, read in terms]
            values[name] = np.asarray(sum(parts))
        return values


def random_system(seed: int, longest: int = 4) -> RandomSystem:
    """One to three equations of one to three terms; they read tensors and equations before them."""
    rng = random.Random(seed)
    extents = {label: rng.randint(1, longest) for label in LABELS}
    for label in LABELS[3:]:
        extents[label] = extents[rng.choice(LABELS[:3])]
    tensors = {f"A{n}": tuple(rng.sample(LABELS, rng.randint(1, 3))) for n in range(3)}
    carried = sorted({label for labels in tensors.values() for label in labels})
    known, terms = dict(tensors), dict[str, list[Term]]()
    for n in range(rng.randint(1, 3)):
        output = tuple(rng.sample(carried, rng.randint(0, min(2, len(carried)))))
        made = [_term(rng, output, known, extents) for _ in range(rng.randint(1, 3))]
        terms[f"V{n}"], known[f"V{n}"] = made, output
    read = {name for total in terms.values() for _, _, names in total for name in names}
    shapes = {
        name: tuple(extents[label] for label in labels)
        for name, labels in tensors.items()
        if name in read
    }
    return RandomSystem(terms, shapes, frozenset(x for x in shapes if rng.random() < 0.5))


def _term(
    rng: random.Random,
    output: tuple[str, ...],
    known: dict[str, tuple[str, ...]],
    extents: dict[str, int],
) -> Term:
    """A product whose tensors stand under other labels now and then; what lacks is left out."""
    while True:
        names = tuple(rng.choice(list(known)) for _ in range(rng.randint(1, 3)))
        read = [
            "".join(
                rng.choice([label, *(x for x in LABELS if extents[x] == extents[label])])
                for label in known[name]
            )
            for name in names
        ]
        if set(output) <= set("".join(read)):
            return rng.choice(NUMBERS), f"{','.join(read)}->{''.join(output)}", names
