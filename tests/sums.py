"""Sums of products written briefly, random ones, and their exact values."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from einbound.expr.equations import Declared, Equation, Factor, System, Term
from einbound.forest.build import planted
from einbound.forest.forest import Forest, Kind
from einbound.plan.masks import Terms, order_macs
from einbound.plan.order import first_order

#: A number, einsum text, and the names of the operands.
Written: TypeAlias = tuple[float, str, tuple[str, ...]]

#: Labels of targets.
AXES = "abcdefgh"


def written(
    equations: Mapping[str, Sequence[Written]],
    shapes: Mapping[str, tuple[int, ...]],
    *,
    targets: Sequence[str] = (),
    volatile: Sequence[str] = (),
) -> Forest:
    """The forest of a few equations; all of them are targets if none is named."""
    made = []
    for name, terms in equations.items():
        axes = AXES[: len(terms[0][1].partition("->")[2])]
        made.append(Equation(Factor(name, tuple(axes)), tuple(_term(each) for each in terms)))
    read = {name for terms in equations.values() for _, _, names in terms for name in names}
    declared = tuple(Declared(name, is_volatile=True) for name in volatile if name in read)
    system = System(tuple(made), tuple(targets or equations), declared=declared)
    return planted(system, shapes)


def _term(each: Written) -> Term:
    number, text, names = each
    inputs, _, output = text.partition("->")
    # Each term has its own labels; the target's are its axes.
    label = {x: x.upper() for x in inputs} | dict(zip(output, AXES, strict=False))
    terms = (tuple(label[x] for x in each) for each in inputs.split(","))
    factors = (Factor(name, term) for name, term in zip(names, terms, strict=True))
    return Term(Fraction(number), tuple(factors))


@dataclass(frozen=True)
class Drawn:
    """Random equations, before they are a forest."""

    equations: Mapping[str, Sequence[Written]]
    shapes: Mapping[str, tuple[int, ...]]
    volatile: tuple[str, ...]

    @property
    def forest(self) -> Forest:
        """They as a forest, all of them targets."""
        return written(self.equations, self.shapes, volatile=self.volatile)

    def shuffled(self, rng: random.Random) -> Drawn:
        """The same with terms, and factors within terms, in another order."""
        equations = {}
        for name, terms in self.equations.items():
            mixed = [_mixed(each, rng) for each in terms]
            equations[name] = rng.sample(mixed, len(mixed))
        return replace(self, equations=equations)


def _mixed(each: Written, rng: random.Random) -> Written:
    number, text, names = each
    inputs, _, output = text.partition("->")
    pairs = list(zip(names, inputs.split(","), strict=True))
    rng.shuffle(pairs)
    return number, f"{','.join(x for _, x in pairs)}->{output}", tuple(name for name, _ in pairs)


def random_sums(rng: random.Random) -> Drawn:
    """Several sums over the same few matrices and one tensor, in which much is equal."""
    n = rng.choice([2, 3, 5])
    shapes: dict[str, tuple[int, ...]] = {"A": (n, n), "B": (n, n), "C": (n, n), "D": (n, n, n)}
    names = list(shapes)[: rng.randint(2, 4)]
    readable = {**{name: len(shapes[name]) for name in names}, "s": 0}
    shapes["s"] = ()
    equations: dict[str, list[Written]] = {}
    for target in range(rng.randint(1, 3)):
        output = rng.choice(["", "i", "ij", "ij"])
        terms = [_random_term(rng, output, readable) for _ in range(rng.randint(2, 7))]
        if rng.random() < 0.5 and output == "ij":
            # The same with its axes exchanged, as permutation operators make it.
            terms += [(-c, text.replace("->ij", "->ji"), read) for c, text, read in terms]
        equations[f"R{target}"] = terms
        readable[f"R{target}"] = len(output)
    return Drawn(equations, shapes, tuple(name for name in names if rng.random() < 0.3))


def _random_term(rng: random.Random, output: str, readable: Mapping[str, int]) -> Written:
    operands = [rng.choice(list(readable)) for _ in range(rng.randint(1, 4))]
    inputs = ["".join(rng.choice("ijkl") for _ in range(readable[name])) for name in operands]
    for label in output:
        if not any(label in each for each in inputs):
            operands.append("A")
            inputs.append(label + rng.choice("ijkl"))
    number = rng.choice([1, 1, -1, 2, 0.5])
    return number, f"{','.join(inputs)}->{output}", tuple(operands)


def arrays(forest: Forest, seed: int) -> dict[str, np.ndarray]:
    """Small whole numbers for every tensor that is given."""
    rng = np.random.default_rng(seed)
    return {
        value.name: rng.integers(-2, 3, value.shape).astype(object)
        for value in forest.values
        if value.kind is Kind.LEAF and value.constant is None
    }


def evaluated(forest: Forest, given: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The targets in exact arithmetic, one numpy.einsum after another."""
    made: list[Any] = []
    for value in forest.values:
        if value.kind is not Kind.LEAF:
            made.append(np.full(value.shape, Fraction(0), dtype=object))
        elif value.constant is None:
            made.append(given[value.name])
        else:
            made.append(np.array(value.constant, dtype=object))
    complete: set[int] = set()
    for each in forest.productions:
        complete.update(each.operands)
        assert each.into not in complete, "a value is complete before it is read"
        args: list[Any] = []
        network = each.network
        for operand, access, indices in zip(
            each.operands, network.accesses, network.inputs, strict=True
        ):
            term = [0] * sum(len(axes) for axes in access.axes)
            for index, axes in zip(indices, access.axes, strict=True):
                for axis in axes:
                    term[axis] = index
            args += [made[operand], term]
        product = np.einsum(*args, list(network.output))
        made[each.into] = made[each.into] + each.factor * product
    return [made[number] for number in forest.targets]


def recounted(forest: Forest, iterations: int = 1) -> int:
    """Multiply-adds of all productions, each in its best order."""
    macs = 0
    for each in forest.productions:
        often = iterations if forest.values[each.into].volatile else 1
        macs += often * order_macs(Terms.of(each.network), first_order(each.network))
    return macs
