"""The 48 contractions of the TCCG benchmark, in C order, as einsum texts with sizes.

P. Springer and P. Bientinesi, "Design of a high-performance GEMM-like tensor-tensor
multiplication", ACM TOMS 44(3), 2018. The published texts name the fastest index first, so they
are reversed here. Sizes give about 200 MiB for the largest tensor of a case; compute-bound cases
take half of every extent, because they run for many seconds otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

#: Family, result-first-second with the fastest index first, extents in float32 and in float64.
_PUBLISHED = """
intensli abj-bka-kj a384 b384 j24 k384 | a312 b312 j24 k312
intensli ajb-kba-jk a384 b376 j24 k384 | a312 b296 j24 k312
intensli abjc-cbka-kj a96 b84 c96 j24 k96 | a72 b72 c72 j24 k72
intensli ajbc-ckba-jk a96 b84 c96 j24 k84 | a72 b72 c72 j24 k72
intensli abjc-kbac-jk a96 b84 c84 j24 k96 | a72 b72 c72 j24 k72
intensli abjcd-dkbac-jk a48 b36 c36 d48 j24 k36 | a48 b32 c32 d48 j24 k32
intensli adbjc-cbdka-kj a48 b36 c48 d36 j24 k48 | a48 b32 c48 d32 j24 k48
intensli ajbdc-ckbad-jk a48 b36 c48 d36 j24 k36 | a48 b32 c48 d32 j24 k32
ao2mo aqrs-pa-pqrs a96 p96 q84 r84 s84 | a72 p72 q72 r72 s72
ao2mo abrs-qb-aqrs a96 b84 q96 r84 s84 | a72 b72 q72 r72 s72
ao2mo abcs-rc-abrs a96 b84 c84 r96 s84 | a72 b72 c72 r72 s72
ccsd ij-ik-kj i7248 j7240 k7248 | i5136 j5120 k5136
ccsd ij-ikl-ljk i384 j376 k376 l384 | i312 j296 k296 l312
ccsd ij-kil-lkj i384 j376 k384 l384 | i312 j296 k312 l312
ccsd ijk-ikl-lj i384 j376 k376 l384 | i312 j296 k296 l312
ccsd ijk-il-jlk i384 j384 k376 l376 | i312 j312 k296 l296
ccsd ijk-ilk-jl i384 j384 k376 l376 | i312 j312 k296 l296
ccsd ijk-ilk-lj i384 j376 k376 l384 | i312 j296 k296 l312
ccsd ijk-ilmk-mjl i96 j84 k84 l84 m96 | i72 j72 k72 l72 m72
ccsd ijkl-imjn-lnkm i96 j84 k84 l96 m84 n84 | i72 j72 k72 l72 m72 n72
ccsd ijkl-imjn-nlmk i96 j84 k84 l84 m84 n96 | i72 j72 k72 l72 m72 n72
ccsd ijkl-imkn-jnlm i96 j96 k84 l84 m84 n84 | i72 j72 k72 l72 m72 n72
ccsd ijkl-imkn-njml i96 j84 k84 l84 m84 n96 | i72 j72 k72 l72 m72 n72
ccsd ijkl-imln-jnkm i96 j96 k84 l84 m84 n84 | i72 j72 k72 l72 m72 n72
ccsd ijkl-imln-njmk i96 j84 k84 l84 m84 n96 | i72 j72 k72 l72 m72 n72
ccsd ijkl-imnj-nlkm i96 j84 k84 l84 m84 n96 | i72 j72 k72 l72 m72 n72
ccsd ijkl-imnk-njml i96 j84 k84 l84 m84 n96 | i72 j72 k72 l72 m72 n72
ccsd ijkl-minj-nlmk i96 j84 k84 l84 m96 n96 | i72 j72 k72 l72 m72 n72
ccsd ijkl-mink-jnlm i96 j96 k84 l84 m96 n84 | i72 j72 k72 l72 m72 n72
ccsd ijkl-minl-njmk i96 j84 k84 l84 m96 n96 | i72 j72 k72 l72 m72 n72
"""
#: The triples: a group of texts shares its sizes.
_TRIPLES = (
    ("ijma-mkbc ijmb-mkac ijmc-mkab ikma-mjbc ikmb-mjac ikmc-mjab", "ijkm", "i"),
    ("jkma-mibc jkmb-miac jkmc-miab", "ijkm", "j"),
    ("eiab-jkec eiac-jkeb eibc-jkea", "ijke", "j"),
    ("ejab-ikec ejac-ikeb ejbc-ikea", "ijke", "i"),
    ("ekab-ijec ekac-ijeb ekbc-ijea", "ijke", "i"),
)


@dataclass(frozen=True, slots=True)
class Case:
    """One contraction of two tensors.

    Attributes:
        number: Its place in the published list, from 1.
        family: The application it was taken from.
        equation: Einsum text for arrays in C order.
        sizes: Extent of each index, by element type.
    """

    number: int
    family: str
    equation: str
    sizes: dict[str, dict[str, int]]

    def macs(self, dtype: str) -> int:
        """Multiply-adds."""
        return prod(self.sizes[dtype].values())

    @property
    def is_compute_bound(self) -> bool:
        """One of the 12 cases whose extents are halved."""
        return self.number == 12 or 20 <= self.number <= 30

    def shapes(self, dtype: str) -> list[tuple[int, ...]]:
        """Shapes of both operands."""
        sizes = self.sizes[dtype]
        return [tuple(sizes[i] for i in term) for term in self.equation.split("->")[0].split(",")]


def cases() -> Iterator[Case]:
    """The 48 contractions, compute-bound ones with half of every extent."""
    for number, line in enumerate(filter(None, _PUBLISHED.splitlines()), 1):
        family, text, *sizes = line.split()
        bar = sizes.index("|")
        given = {"float32": _sizes(sizes[:bar]), "float64": _sizes(sizes[bar + 1 :])}
        case = Case(number, family, _reversed(text), given)
        yield _halved(case) if case.is_compute_bound else case
    number = 31
    for texts, inner, long in _TRIPLES:
        for text in texts.split():
            sizes64 = dict.fromkeys("abc" + inner, 16) | {"a": 24, inner[-1]: 24, long: 24}
            sizes32 = {i: 20 if n == 16 else n for i, n in sizes64.items()}
            given = {"float32": sizes32, "float64": sizes64}
            yield Case(number, "ccsd_t", _reversed(f"abcijk-{text}"), given)
            number += 1


def _sizes(words: list[str]) -> dict[str, int]:
    return {word[0]: int(word[1:]) for word in words}


def _reversed(text: str) -> str:
    result, first, second = (term[::-1] for term in text.split("-"))
    return f"{first},{second}->{result}"


def _halved(case: Case) -> Case:
    sizes = {
        dtype: {i: n // 2 for i, n in extents.items()} for dtype, extents in case.sizes.items()
    }
    return Case(case.number, case.family, case.equation, sizes)
