"""Residuals of spin-orbital coupled cluster with singles and doubles, term by term.

Typed after T. D. Crawford and H. F. Schaefer III, Reviews in Computational Chemistry 14 (2000),
33-136, the algebraic equations without intermediates; these are factored by J. F. Stanton et al.,
J. Chem. Phys. 94 (1991), 4334. Antisymmetric integrals are written by the blocks that a program
stores; p and q stand for the operators that subtract the term with a, b or i, j exchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from einbound.forest.forest import Forest
from sums import Written, written

SINGLES = """
1 fvo[ai]
1 fvv[ac] t[ci]
-1 foo[ki] t[ak]
1 ovvo[kaci] t[ck]
1 fov[kc] T[acik]
1/2 ovvv[kacd] T[cdki]
1/2 ooov[klic] T[cakl]
-1 fov[kc] t[ci] t[ak]
1 ooov[klic] t[ck] t[al]
1 ovvv[kacd] t[ck] t[di]
-1 oovv[klcd] t[ck] t[di] t[al]
1 oovv[klcd] t[ck] T[dali]
-1/2 oovv[klcd] T[cdki] t[al]
-1/2 oovv[klcd] T[cakl] t[di]
"""

DOUBLES = """
1 vvoo[abij]
p 1 fvv[bc] T[acij]
q -1 foo[kj] T[abik]
1/2 oooo[klij] T[abkl]
1/2 vvvv[abcd] T[cdij]
pq 1 ovvo[kbcj] T[acik]
q 1 vvvo[abcj] t[ci]
p -1 ovoo[kbij] t[ak]
pq 1/2 oovv[klcd] T[acik] T[dblj]
1/4 oovv[klcd] T[cdij] T[abkl]
p -1/2 oovv[klcd] T[acij] T[bdkl]
q -1/2 oovv[klcd] T[abik] T[cdjl]
p 1/2 oooo[klij] t[ak] t[bl]
q 1/2 vvvv[abcd] t[ci] t[dj]
pq 1 ovvo[kbci] t[ak] t[cj]
p 1 fov[kc] t[ak] T[bcij]
q 1 fov[kc] t[ci] T[abjk]
q 1 ooov[klic] t[ck] T[ablj]
p 1 ovvv[kacd] t[ck] T[dbij]
pq 1 ovvv[kacd] t[di] T[bcjk]
pq 1 ooov[klic] t[al] T[bcjk]
q 1/2 ooov[klic] t[cj] T[abkl]
p -1/2 ovvv[kbcd] t[ak] T[cdij]
pq -1/2 ovvv[kbcd] t[ak] t[ci] t[dj]
pq -1/2 ooov[kljc] t[ci] t[ak] t[bl]
q -1 oovv[klcd] t[ck] t[di] T[ablj]
p -1 oovv[klcd] t[ck] t[al] T[dbij]
q 1/4 oovv[klcd] t[ci] t[dj] T[abkl]
p 1/4 oovv[klcd] t[ak] t[bl] T[cdij]
pq 1 oovv[klcd] t[ci] t[bl] T[adkj]
pq 1/4 oovv[klcd] t[ci] t[ak] t[dj] t[bl]
"""


def ccsd(n_occupied: int, n_virtual: int) -> Forest:
    """Both residuals with their permutations written out; amplitudes are volatile."""
    equations = {"r": list(_terms(SINGLES, "ai")), "R": list(_terms(DOUBLES, "abij"))}
    extent = {"o": n_occupied, "v": n_virtual}
    names = {name for terms in equations.values() for _, _, read in terms for name in read}
    spaces = {name: {"t": "vo", "T": "vvoo"}.get(name, name.removeprefix("f")) for name in names}
    shapes = {name: tuple(extent[x] for x in space) for name, space in spaces.items()}
    return written(equations, shapes, volatile=["t", "T"])


def _terms(text: str, output: str) -> Iterator[Written]:
    for line in text.strip().splitlines():
        words = line.split()
        permuted = words.pop(0) if words[0] in ("p", "q", "pq") else ""
        number = float(Fraction(words.pop(0)))
        names = tuple(word.partition("[")[0] for word in words)
        inputs = ",".join(word.partition("[")[2].rstrip("]") for word in words)
        for sign, exchanged in _exchanged(output, permuted):
            yield sign * number, f"{inputs}->{exchanged}", names


def _exchanged(output: str, permuted: str) -> Iterator[tuple[int, str]]:
    found = [(1, output)]
    for name, exchange in (("p", str.maketrans("ab", "ba")), ("q", str.maketrans("ij", "ji"))):
        if name in permuted:
            found += [(-sign, text.translate(exchange)) for sign, text in found]
    yield from found
