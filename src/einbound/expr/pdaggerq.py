"""Terms as the p-dagger-q generator lists them: a number and factors, all as text.

Conventions of its output, from its documentation: `P(i,j)` is antisymmetric, `PP2(i,a;j,b)`,
`PP3(i,a;j,b;k,c)` and `PP6(i,a;j,b;k,c)` add up exchanged pairs: all of two, the first with each
other of three, all of three. Brackets with two bars are antisymmetrised integrals.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from einbound.errors import EquationsError
from einbound.expr.equation_spaces import spaces_of
from einbound.expr.equation_sums import Permutation, Sum, number, renamed
from einbound.expr.equation_terms import system_of
from einbound.expr.equation_text import tensor
from einbound.expr.equations import Coefficient, Equation, Factor, Space, System, Term

#: What tensors are called; all others keep their names. "{space}" is the spaces of the indices.
NAMES = {
    "<||>": "eri_{space}",
    "<|>": "int_{space}",
    "f": "f_{space}",
    "h": "h_{space}",
    "d": "d_{space}",
}
SPACES = {"o": "i j k l m n o I J K L M N O", "v": "a b c d e f v A B C D E F V"}

_LIST = r"[^\W\d_](?:_?\d+)?(?:,[^\W\d_](?:_?\d+)?)*"
_INTEGRAL = re.compile(rf"<(?P<bra>{_LIST})(?P<bars>\|\|?)(?P<ket>{_LIST})>(?:_(?P<spin>\w+))?")
_TENSOR = re.compile(rf"(?P<name>[^\W\d]\w*)(?:\((?P<labels>{_LIST})\))?")
_PAIRS = re.compile(rf"(?P<name>PP[236])\((?P<groups>{_LIST}(?:;{_LIST})+)\)")
#: Groups of each operator on pairs, and how many of them stand before the slash.
_PAIR_OPERATORS: dict[str, tuple[int, int | None]] = {
    "PP2": (2, None),
    "PP3": (3, 1),
    "PP6": (3, None),
}


def read_pdaggerq(
    terms: Mapping[str, Any],
    *,
    names: Mapping[str, str] | None = None,
    spaces: Mapping[str, Any] | None = None,
    sizes: Mapping[str, Any] | None = None,
    tiles: Mapping[str, Any] | None = None,
    targets: Iterable[str] = (),
    volatile: Iterable[str] = (),
) -> System:
    """The system of lists of terms, one list for each target.

    Args:
        terms: For each target, such as "R2[a,b,i,j]", its terms.
        names: What tensors are called, beside `NAMES`.
        spaces: The indices of each space; `SPACES` if left out.
        sizes: Extents by space or index.
        tiles: Tiles by space or index.
        targets: What is returned besides what no equation reads.
        volatile: Tensors that change with every evaluation.

    Raises:
        EquationsError: A term makes no sense; the error points into it.
        TypeError: A term is no list of texts.
    """
    known = spaces_of((), spaces=SPACES if spaces is None else spaces, sizes=sizes, tiles=tiles)
    called = {**NAMES, **(names or {})}
    equations = []
    for written, each in terms.items():
        if not isinstance(written, str):
            raise TypeError(f"target {written!r} is no text; expected one such as 'R2[a,b,i,j]'")
        # No text holds all of these equations, which places could be in.
        target = replace(tensor(written), span=None)
        made: Sum = ()
        if isinstance(each, str) or not isinstance(each, Sequence):
            raise TypeError(f"the terms of {written!r} are {each!r}; expected a list of terms")
        for n, words in enumerate(each):
            made += _Words(target, called, known, f"term {n} of {target.name!r}").sum(words)
        equations.append(Equation(target, made))
    return system_of(equations, spaces=known, targets=targets, volatile=volatile)


@dataclass(frozen=True, slots=True)
class _Words:
    """One term of one target."""

    target: Factor
    names: Mapping[str, str]
    spaces: tuple[Space, ...]
    where: str

    def sum(self, words: Any) -> Sum:
        """The term, written out."""
        if (
            isinstance(words, str)
            or not isinstance(words, Sequence)
            or not words
            or not all(isinstance(word, str) for word in words)
        ):
            raise TypeError(f"{self.where} is {words!r}; expected a list of texts, a number first")
        operators: list[Permutation] = []
        factors: list[Factor] = []
        for word in words[1:]:
            made = self.word(word)
            if isinstance(made, Permutation):
                operators.append(made)
            else:
                factors.append(made)
        term = self.without_deltas(Term(self.number(words[0]), tuple(factors)))
        what: Sum = (term,)
        for operator in operators:
            what = operator(what)
        return what

    def number(self, word: str) -> Coefficient:
        try:
            made = number(Fraction(word))
        except (ValueError, ZeroDivisionError):
            made = None
        if made is None:
            raise self.fault(word, f"{word!r} is no number; expected one such as '+0.25' first")
        return made

    def word(self, word: str) -> Factor | Permutation:
        """A tensor or an operator."""
        if found := _PAIRS.fullmatch(word):
            return self.pairs(word, found)
        if found := _INTEGRAL.fullmatch(word):
            kind = f"<{found['bars']}>"
            labels = (*found["bra"].split(","), *found["ket"].split(","))
            return Factor(self.called(kind, found["spin"], labels), labels)
        found = _TENSOR.fullmatch(word)
        if found is None:
            raise self.fault(
                word,
                f"{word!r} is no tensor and no permutation operator; expected factors such as "
                "'t2(a,b,i,j)', '<i,j||a,b>' or 'P(i,j)', as the generator lists fully contracted "
                "terms",
            )
        labels = tuple((found["labels"] or "").split(",")) if found["labels"] else ()
        if found["name"] == "P":
            return self.operator(word, tuple((label,) for label in labels), None)
        return Factor(self.called(found["name"], None, labels), labels)

    def pairs(self, word: str, found: re.Match[str]) -> Permutation:
        n_groups, first = _PAIR_OPERATORS[found["name"]]
        groups = tuple(tuple(each.split(",")) for each in found["groups"].split(";"))
        if len(groups) != n_groups:
            raise self.fault(word, f"{word!r} has {len(groups)} groups; expected {n_groups}")
        return self.operator(word, groups, first)

    def operator(
        self, word: str, groups: tuple[tuple[str, ...], ...], first: int | None
    ) -> Permutation:
        labels = [label for group in groups for label in group]
        outside = [label for label in labels if label not in self.target.indices]
        if outside:
            raise self.fault(
                word,
                f"{word!r} permutes {outside[0]!r}, which is no index of {self.target}; expected "
                "indices of the target",
            )
        if len(groups) < 2 or len({*labels}) < len(labels) or len({*map(len, groups)}) > 1:
            raise self.fault(
                word, f"{word!r} exchanges nothing; expected different indices, such as 'P(i,j)'"
            )
        return Permutation(groups, first, antisymmetric=word.startswith("P("))

    def called(self, kind: str, spin: str | None, labels: tuple[str, ...]) -> str:
        """What a tensor is called; spins stand before spaces."""
        plain, _, spins = kind.partition("_")
        template = self.names.get(kind) or self.names.get(plain)
        if template is None or not labels:
            return kind
        spin = spin or (spins if kind not in self.names else "") or None
        name = template.partition("{space}")
        block = "".join(self.space(label) for label in labels)
        middle = f"{spin}_" if spin and name[1] else f"_{spin}" if spin else ""
        return f"{name[0]}{middle}{block if name[1] else ''}{name[2]}"

    def space(self, label: str) -> str:
        for space in self.spaces:
            if label in space.labels or label[0] in space.labels:
                return space.name
        raise EquationsError(
            f"{self.where}: index {label!r} is in no space, and the name of a tensor has a "
            "'{space}' for it; give spaces=, or names= without '{space}'"
        )

    def without_deltas(self, term: Term) -> Term:
        """The term with summed indices in place of the deltas that identify them."""
        for n, factor in enumerate(term.factors):
            if not self.is_delta(factor):
                continue
            left, right = factor.indices
            gone = left if left not in self.target.indices else right
            if left == right or gone in self.target.indices:
                continue
            rest = Term(term.coefficient, term.factors[:n] + term.factors[n + 1 :])
            kept = right if gone == left else left
            if kept in rest.indices or gone in rest.indices:
                return self.without_deltas(renamed(rest, {gone: kept}))
        return term

    def is_delta(self, factor: Factor) -> bool:
        delta = self.called("d", None, factor.indices) if len(factor.indices) == 2 else None
        return factor.name == delta

    def fault(self, word: str, message: str) -> EquationsError:
        return EquationsError(f"{self.where}: {message}", word, ((0, len(word)),))
