"""Which object file a kernel needs: all that is fixed when C is compiled, and nothing else.

Block sizes, extents and strides are told when a kernel runs (`kernels.task`), so that few objects
serve all products.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from einbound.errors import KernelError
from einbound.kernels.kinds import PipelineKind
from einbound.kernels.layout import told
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.register_tile import MicroKernel, own_tile
from einbound.kernels.spec import KernelSpec
from einbound.kernels.views import seen_by
from einbound.machine.limits import HardwareLimits
from einbound.machine.precision import Precision

#: Formats that C computes in as they are stored.
FORMATS = frozenset(
    {Precision.FLOAT32, Precision.FLOAT64, Precision.COMPLEX64, Precision.COMPLEX128}
)
#: Rows of a register tile that is read in place: each needs a register of addresses.
MOST_ROWS_IN_PLACE = 8
#: Extents of a product that are compiled in: beyond it panels pay, and code outgrows its cache.
MOST_SMALL_EXTENT = 64
#: Products from which on these extents are worth a compiler's time.
LEAST_SMALL_BATCH = 16


class Form(StrEnum):
    """How the loops of an object are made.

    `PACKED` copies A and B to panels, `IN_PLACE` reads them where they lie, `BLOCKTILE` is packed
    without a register tile, `SMALL` has extents that are known to the compiler.
    """

    PACKED = "packed"
    IN_PLACE = "in_place"
    BLOCKTILE = "blocktile"
    SMALL = "small"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """The key of one object file.

    Attributes:
        form: How its loops are made.
        dtype: Format of A, B and C, and what is computed in.
        rm: Rows of the register tile.
        rn: Vectors in a row of it; of complex numbers, pairs of vectors.
        lanes: Real numbers in a vector.
        extents: m, n and k, where the compiler knows them; else empty.
        steps: Then also elements from row to row of A, along k in A, along k in B, and from row to
            row of C.
    """

    form: Form
    dtype: Precision
    rm: int
    rn: int
    lanes: int
    extents: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()

    @property
    def parts(self) -> int:
        """Real numbers in one number: 2 if complex."""
        return self.dtype.n_parts

    @property
    def columns(self) -> int:
        """Columns of the register tile."""
        return self.rn * self.lanes

    @property
    def name(self) -> str:
        """A word that tells it from all others.

        Example:
            >>> Member(form=Form.PACKED, dtype=Precision.FLOAT64, rm=8, rn=3, lanes=8).name
            'packed_float64_8x3x8'
        """
        sizes = "".join(f"_{each}" for each in (*self.extents, *self.steps))
        return f"{self.form}_{self.dtype}_{self.rm}x{self.rn}x{self.lanes}{sizes}"


def member_of(problem: MatmulProblem, spec: KernelSpec, limits: HardwareLimits) -> Member:
    """The object that a kernel of the family needs on a CPU.

    Args:
        problem: The product that the tree was made for.
        spec: A leaf of its tree.
        limits: The processor.

    Raises:
        KernelError: No emitter writes such a kernel; the message says why.

    Example:
        >>> spec = KernelSpec(gpu=False, pipeline=PipelineKind.TENSORIZED, mma=True, packed=True,
        ...                   bm=64, bn=64, bk=64)
        >>> member_of(MatmulProblem(m=64, n=64, k=64), spec, HardwareLimits(simd_vector_bytes=32))
        ... # doctest: +ELLIPSIS
        Member(form=<Form.PACKED: 'packed'>, dtype=<Precision.FLOAT32: 'float32'>, rm=4, rn=3, ...
    """
    seen = seen_by(told(problem), spec)
    dtype = _dtype(seen)
    _check_emitted(spec)
    vector_bytes = limits.simd_vector_bytes
    if spec.pipeline is PipelineKind.BLOCKTILE:
        return Member(form=Form.BLOCKTILE, dtype=dtype, rm=1, rn=1, lanes=1)
    rm, rn, lanes = _tile(seen, spec, vector_bytes, dtype)
    form = Form.PACKED if spec.packed else Form.IN_PLACE
    member = Member(form=form, dtype=dtype, rm=rm, rn=rn, lanes=lanes)
    is_given = spec.tile is not None and not spec.tile.is_auto
    return member if spec.packed else _in_place(seen, member, is_given)


def _in_place(problem: MatmulProblem, member: Member, is_given: bool) -> Member:
    """The member that packs nothing: with extents compiled in where they are small and many."""
    depth = problem.macs // (problem.m * problem.n * problem.n_batch)
    if is_small(problem):
        groups = told(problem).groups
        assert groups is not None, "strides are told"
        (m,), (k,) = groups.m, groups.k
        extents = (problem.m, problem.n, depth)
        steps = (m.a, k.a, k.b, m.c)
        small = replace(member, form=Form.SMALL, extents=extents, steps=steps)
        if is_given:
            return small
        rm, rn, lanes = small_tile(problem.m, problem.n, (member.rm, member.rn, member.lanes))
        return replace(small, rm=rm, rn=rn, lanes=lanes)
    return replace(member, rm=min(member.rm, MOST_ROWS_IN_PLACE))


def small_tile(m: int, n: int, tile: tuple[int, int, int]) -> tuple[int, int, int]:
    """The model's own tile with as many results in more rows, where products are narrow.

    Example:
        >>> small_tile(16, 8, (4, 3, 8))
        (12, 1, 8)
    """
    rm, rn, lanes = tile
    vectors = min(rn, -(-n // lanes))
    return min(m, max(rm, rm * rn // vectors)), vectors, lanes


def is_small(problem: MatmulProblem) -> bool:
    """Whether there are so many products, and so small ones, that their size is worth a compile.

    Args:
        problem: The product as kernels see it.
    """
    if problem.n_batch < LEAST_SMALL_BATCH or problem.out_dtype.n_parts > 1:
        return False
    try:
        groups = told(problem).groups
    except KernelError:
        return False
    assert groups is not None, "strides are told"
    axes = (*groups.m, *groups.n, *groups.k)
    is_by_rows = len(axes) == 3 and groups.n[0].b == groups.n[0].c == 1
    return is_by_rows and max(axis.extent for axis in axes) <= MOST_SMALL_EXTENT


def _dtype(problem: MatmulProblem) -> Precision:
    stored = (problem.a_dtype, problem.b_dtype, problem.out_dtype)
    if len(set(stored)) == 1 and stored[0] in FORMATS:
        return stored[0]
    raise KernelError(
        f"formats are {', '.join(stored)}; C is emitted for one format of all three arrays, one of "
        f"{', '.join(sorted(FORMATS))}"
    )


def _check_emitted(spec: KernelSpec) -> None:
    reasons = {
        "a grid of a GPU": spec.gpu,
        "panels that are packed when a plan is prepared": spec.hoist,
        "an elementwise tail": spec.epilogue,
    }
    for what, is_asked in reasons.items():
        if is_asked:
            raise KernelError(
                f"the kernel has {what}, for which no C is emitted; take another leaf of the tree"
            )


def _tile(
    problem: MatmulProblem, spec: KernelSpec, vector_bytes: int, dtype: Precision
) -> tuple[int, int, int]:
    """The register tile of the spec; the model's own where that is asked for."""
    if spec.tile is not None and not spec.tile.is_auto:
        return spec.tile.sizes
    n_bytes, rows, columns = dtype.real.n_bytes, spec.bm or problem.m, spec.bn or problem.n
    kernel = MicroKernel(vector_bytes, n_bytes, rows, columns, dtype.n_parts)
    own = own_tile(kernel)
    if own is None:
        raise KernelError(
            f"vectors of {vector_bytes} bytes do not fit {kernel.n} columns of {dtype}; take a "
            "leaf of the blocktile pipeline, or the other operand first"
        )
    return own.sizes
