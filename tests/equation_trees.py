"""Random equations as trees: their text, and their values without any symbolic step."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from typing import TypeAlias

import numpy as np

LABELS = "ijkab"
EXTENT = 2
#: For each set of labels, a sum of products that carry exactly these, one axis per label of
#: LABELS, of length 1 for those that it lacks.
Parts: TypeAlias = dict[frozenset[str], np.ndarray]


@dataclass
class Case:
    """A text with the arrays that it reads and the value of its target."""

    rng: random.Random
    target: tuple[str, ...] = ()
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    text: str = ""
    value: np.ndarray = field(default_factory=lambda: np.zeros(()))


def random_case(seed: int) -> Case:
    """Sums, products, parentheses, permutations, diagonals, scalars; numbers of every kind."""
    case = Case(random.Random(seed))
    rng = case.rng
    case.target = tuple(rng.sample(LABELS, rng.randint(0, 3)))
    texts, parts = [], []
    for n in range(rng.randint(1, 3)):
        text, made = _covering(case)
        sign = rng.choice("+-")
        texts.append(text if n == 0 and sign == "+" else f"{sign} {text}")
        parts.append(made if sign == "+" else {key: -value for key, value in made.items()})
    name = f"R[{''.join(case.target)}]" if case.target else "R"
    case.text = f"{name} = {' '.join(texts)}"
    case.value = _summed(case, reduce(_added, parts))
    return case


def _covering(case: Case) -> tuple[str, Parts]:
    """A product that carries every label of the target, whatever else it is."""
    rng = case.rng
    tensor = _tensor(case, list(case.target) + rng.sample(LABELS, rng.randint(0, 1)))
    inner_text, inner = tensor
    if rng.random() < 0.7:
        text, made = _item(case, 2)
        inner_text, inner = f"{inner_text} {text}", _times(inner, made)
    if len(case.target) >= 2 and rng.random() < 0.6:
        inner_text, inner = _permuted(case, inner_text, inner)
    if rng.random() < 0.5:
        text, number = _number(rng)
        inner_text = f"{text}{rng.choice([' ', '*', ' * '])}{inner_text}"
        inner = {key: number * value for key, value in inner.items()}
    return inner_text, inner


def _permuted(case: Case, text: str, what: Parts) -> tuple[str, Parts]:
    rng = case.rng
    letter = rng.choice("PS")
    sign = -1 if letter == "P" else 1
    if len(case.target) == 3 and rng.random() < 0.5:
        i, j, k = case.target
        swapped = [_swapped(what, i, j), _swapped(what, i, k)]
        made = reduce(_added, [_scaled(each, sign) for each in swapped], what)
        return f"{letter}({i}/{j}{k}) {text}", made
    i, j = case.target[:2]
    made = _added(what, _scaled(_swapped(what, i, j), sign))
    return f"{letter}({i}{rng.choice([',', ', ', ''])}{j}) {text}", made


def _item(case: Case, depth: int) -> tuple[str, Parts]:
    rng = case.rng
    kind = rng.choice(["tensor", "scalar", "number", "sum"])
    if kind == "sum" and depth:
        left, ours = _item(case, depth - 1)
        right, theirs = _item(case, depth - 1)
        sign = rng.choice("+-")
        theirs = theirs if sign == "+" else _scaled(theirs, -1)
        return f"({left} {sign} {right})", _added(ours, theirs)
    if kind == "number":
        text, number = _number(rng)
        return text, {frozenset(): np.full((1,) * len(LABELS), number)}
    return _tensor(case, [] if kind == "scalar" else rng.choices(LABELS, k=rng.randint(1, 3)))


def _tensor(case: Case, labels: list[str]) -> tuple[str, Parts]:
    """A tensor of small whole numbers; a label that occurs twice is a diagonal."""
    name = f"T{len(case.arrays)}"
    rng = np.random.default_rng(case.rng.randrange(2**32))
    array = rng.integers(-2, 3, (EXTENT,) * len(labels)).astype(float)
    case.arrays[name] = array
    grid = np.zeros([EXTENT if label in labels else 1 for label in LABELS])
    for at in np.ndindex(grid.shape):
        grid[at] = array[tuple(at[LABELS.index(label)] for label in labels)]
    text = f"{name}[{case.rng.choice([',', ' ', '']).join(labels)}]" if labels else name
    return text, {frozenset(labels): grid}


def _number(rng: random.Random) -> tuple[str, complex]:
    whole, over = rng.randint(1, 4), rng.choice([2, 4])
    return rng.choice(
        [
            (f"{whole}", whole),
            (f"{whole}/{over}", float(Fraction(whole, over))),
            (f"{whole}.5", whole + 0.5),
            ("25e-2", 0.25),
            (f"({whole} - 2j)", whole - 2j),
        ]
    )


def _times(left: Parts, right: Parts) -> Parts:
    made: Parts = {}
    for ours, a in left.items():
        for theirs, b in right.items():
            made = _added(made, {ours | theirs: a * b})
    return made


def _added(left: Parts, right: Parts) -> Parts:
    made = dict(left)
    for key, value in right.items():
        made[key] = made[key] + value if key in made else value
    return made


def _scaled(what: Parts, by: float) -> Parts:
    return {key: by * value for key, value in what.items()}


def _swapped(what: Parts, i: str, j: str) -> Parts:
    names = {i: j, j: i}
    return {
        frozenset(names.get(label, label) for label in key): value.swapaxes(
            LABELS.index(i), LABELS.index(j)
        )
        for key, value in what.items()
    }


def _summed(case: Case, what: Parts) -> np.ndarray:
    """The sum over every label that the target lacks, its axes in the target's order."""
    total = np.zeros((EXTENT,) * len(case.target), complex)
    for value in what.values():
        away = tuple(n for n, label in enumerate(LABELS) if label not in case.target)
        left = [label for label in LABELS if label in case.target]
        total += value.sum(axis=away).transpose([left.index(label) for label in case.target])
    return total
