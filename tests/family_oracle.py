"""Every kernel that a menu can name and whether it is legal, without a tree and without laziness.

Written from the published rules alone: it shares records with the package, and no judgment.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from einbound.kernels.decisions import (
    Batch,
    CpuBlocktile,
    CpuPacked,
    Decision,
    Fusion,
    Geometry,
    GpuBlocktile,
    GpuMma,
    Lattice,
    LatticeBox,
    Packing,
    PackingShape,
    Pipeline,
    RegisterTile,
    RowBlock,
    TensorizedForm,
    Twin,
)
from einbound.kernels.menu import Menu
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.register_tile import MicroKernel, alternatives, own_tile
from einbound.machine.limits import HardwareLimits, MmaLimits, MmaTile

Decisions = tuple[Decision, ...]

SHAPES = (
    "serial",
    "hoisted",
    "hoisted_grid",
    "hoisted_grid_pack_rest",
    "grid_pack_rest",
    "grid",
)


class Oracle:
    """One product on one processor under one menu."""

    def __init__(self, problem: MatmulProblem, limits: HardwareLimits, menu: Menu) -> None:
        self.problem, self.limits, self.menu = problem, limits, menu

    def legal(self) -> set[Decisions]:
        """All legal kernels, by their decisions; boxes of more than one size left out."""
        if self.zeroes_columns():
            return set()
        flavours = ["unfused"] if self.problem.epilogue is None else ["unfused", "fused"]
        bodies = list(self.on_gpu() if self.limits.simd_vector_bytes == 0 else self.on_cpu())
        return {(Fusion(flavour), *body) for flavour in flavours for body in bodies}

    def zeroes_columns(self) -> bool:
        p = self.problem
        strides = p.c_strides or (p.n, 1)
        return p.zeroed and p.m > 1 and p.n > 1 and strides[0] < strides[1]

    # -- GPU ---------------------------------------------------------------------------------

    def on_gpu(self) -> Iterator[Decisions]:
        batches: list[tuple[Decision, ...]] = [()]
        if prod(self.problem.batch) >= 2:
            batches = [(Batch("serial"),), (Batch("grid"),)]
        for batch in batches:
            for tile in self.menu.blocktiles:
                if self.blocktile_runs(tile, batch):
                    yield (Pipeline("blocktile"), *batch, Geometry(tile))
            for rest in self.mma_kernels(batch):
                yield (Pipeline("tensorized"), *batch, *rest)

    def blocktile_runs(self, tile: GpuBlocktile, batch: Decisions) -> bool:
        threads = (tile.bm // tile.tm) * (tile.bn // tile.tn)
        return (
            tile.bm % tile.tm == 0
            and tile.bn % tile.tn == 0
            and within(threads, self.limits.max_threads_per_workgroup)
            and self.stages(tile.bm, tile.bn, tile.bk, 1)
            and self.launches(tile.bm, tile.bn, [tile.bm // tile.tm, tile.bn // tile.tn], batch)
        )

    def mma_kernels(self, batch: Decisions) -> Iterator[Decisions]:
        mma, tile = self.limits.mma, self.format_tile()
        if mma is None or tile is None:
            return
        if not within(mma.width, self.limits.max_threads_per_workgroup):
            return
        for bm, bk in self.menu.mma_blocks:
            if self.block_runs(mma, tile, bm, bk, batch):
                yield from self.twins(mma, bm, bk)
        if self.menu.mma_lattice and mma.width % tile[1] == 0:
            yield from self.lattice(mma, tile, batch)

    def block_runs(self, mma: MmaLimits, tile: MmaTile, bm: int, bk: int, batch: Decisions) -> bool:
        p, w = self.problem, mma.width
        multiple = bm % tile[0] == 0 and w % tile[1] == 0
        if bk:
            fits = bk % tile[2] == 0 and self.stages(bm, w, bk, 1)
        else:
            fits = p.m % bm == 0 and p.n % w == 0 and p.k % tile[2] == 0
        return multiple and fits and self.widens(mma, bk) and self.launches(bm, w, [w], batch)

    def twins(self, mma: MmaLimits, bm: int, bk: int) -> Iterator[Decisions]:
        block, p = Geometry(GpuMma(bm, mma.width, bk)), self.problem
        yield (block, Twin("plain"))
        if not bk:
            return
        formats = [triple for triple, _ in mma.layouts]
        rows = [bk * p.a_dtype.n_bytes, mma.width * p.b_dtype.n_bytes]
        if self.menu.swizzle and self.triple() in formats and all(map(is_swizzled, rows)):
            yield (block, Twin("swizzled"))
        for depth in mma.depths:
            if depth in self.menu.depths and self.stages(bm, mma.width, bk, depth):
                yield (block, Twin(depth))

    def lattice(self, mma: MmaLimits, tile: MmaTile, batch: Decisions) -> Iterator[Decisions]:
        p = self.problem
        for bm in range(tile[0], p.m + 1, tile[0]):
            for bk in range(tile[2], p.k + 1, tile[2]):
                if (
                    self.stages(bm, mma.width, bk, 1)
                    and self.widens(mma, bk)
                    and self.launches(bm, mma.width, [mma.width], batch)
                ):
                    yield (Geometry(Lattice()), LatticeBox("bm", bm, bm), LatticeBox("bk", bk, bk))

    def triple(self) -> tuple[object, object, object] | None:
        mma, p = self.limits.mma, self.problem
        tf32 = ["tfloat32", "float32"] if self.menu.numerics.tf32 else ["float32"]
        known = {triple for triple, _ in mma.tiles} if mma else set()
        for a in tf32 if p.a_dtype == "float32" else [p.a_dtype]:
            for b in tf32 if p.b_dtype == "float32" else [p.b_dtype]:
                if (a, b, p.out_dtype) in known:
                    return (a, b, p.out_dtype)
        return None

    def format_tile(self) -> MmaTile | None:
        mma, wanted = self.limits.mma, self.triple()
        tiles = mma.tiles if mma else ()
        return next((tile for triple, tile in tiles if triple == wanted), None)

    def widens(self, mma: MmaLimits, bk: int) -> bool:
        p = self.problem
        if p.out_dtype != "float16" or self.menu.numerics.half != "wide":
            return True
        persists = any(n > 1 for n in p.outer_k) or (bk > 0 and -(-p.k // bk) > 1)
        wanted = "persistent_fragment" if persists else "per_statement"
        return any(wanted in scopes for each, scopes in mma.wide_scopes if each == p.out_dtype)

    def stages(self, bm: int, bn: int, bk: int, depth: int) -> bool:
        p = self.problem
        n_bytes = bm * bk * p.a_dtype.n_bytes + bk * bn * p.b_dtype.n_bytes
        return within(n_bytes * depth, self.limits.max_workgroup_memory_bytes)

    def launches(self, bm: int, bn: int, threads: list[int], batch: Decisions) -> bool:
        p = self.problem
        grid = [-(-p.m // bm), -(-p.n // bn)]
        if Batch("grid") in batch:
            grid = [*p.batch, *grid]
        x, y, z = folded(threads)
        caps = self.limits.max_workgroup_dims or (None, None, None)
        cap = self.limits.max_grid_yz or 65535
        _, grid_y, grid_z = folded(grid)
        workgroup = all(within(n, most) for n, most in zip((x, y, z), caps, strict=True))
        return workgroup and grid_y <= cap and grid_z <= cap

    # -- CPU ---------------------------------------------------------------------------------

    def on_cpu(self) -> Iterator[Decisions]:
        p = self.problem
        for kind in ["in_kernel", "hoisted"] if p.hoistable else ["in_kernel"]:
            for b in self.menu.cpu_blocks:
                if p.m % b == p.n % b == p.k % b == 0:
                    yield (Pipeline("blocktile"), Packing(kind), Geometry(CpuBlocktile(b)))
        if self.computes():
            for rest in [*self.whole(), *self.packed()]:
                yield (Pipeline("tensorized"), *rest)

    def element_bytes(self) -> int:
        return {"float64": 8, "float32": 4, "float16": 2}[self.compute(self.problem.out_dtype)]

    def compute(self, stored: str) -> str:
        numerics = self.menu.numerics
        if stored not in ("float16", "bfloat16", "float8_e5m2"):
            return str(stored)
        native = self.limits.native_fp16_arithmetic and numerics.half == "narrow"
        keeps = not numerics.narrow_in_float32 or (stored == "float16" and native)
        return str(stored) if keeps else "float32"

    def computes(self) -> bool:
        p, numerics = self.problem, self.menu.numerics
        formats = {self.compute(each) for each in (p.a_dtype, p.b_dtype, p.out_dtype)}
        if p.out_dtype == "float16" and numerics.half == "wide":
            formats.add("float32")
        known = {"float32", "float64"}
        if self.limits.native_fp16_arithmetic:
            known.add("float16")
        if len(formats) != 1 or not formats <= known:
            return False
        return self.limits.simd_vector_bytes >= max(8, 2 * self.element_bytes())

    def fewest_lanes(self) -> int:
        # 16-byte registers are used whole, wider ones down to 32 bytes.
        return max(2, min(self.limits.simd_vector_bytes, 32) // self.element_bytes())

    def tiled(self, bm: int, bn: int) -> list[Decisions]:
        p = self.problem
        vectors = (self.limits.simd_vector_bytes, self.element_bytes())
        kernel = MicroKernel(*vectors, bm or p.m, bn or p.n)
        given = self.menu.register_tiles
        others = [
            tile
            for tile in (alternatives(kernel) if given is None else given)
            if tile != own_tile(kernel)
        ]
        runs = [(tile,) for tile in others if self.is_held(tile, kernel.m, kernel.n)]
        return [(RegisterTile(),), *runs] if others else [()]

    def is_held(self, tile: RegisterTile, m: int, n: int) -> bool:
        rm, rn, lanes = tile.sizes
        width, least = self.limits.simd_vector_bytes, min(self.limits.simd_vector_bytes, 32)
        widths = {width >> power for power in range(8)}
        wide = lanes * self.element_bytes() in widths and lanes * self.element_bytes() >= least
        return wide and rm <= m and rn * lanes <= n

    def may_lie_in_rows(self) -> bool:
        unknown = self.menu.unknown_layouts and self.problem.b_layout == "unknown"
        return self.problem.b_layout == "plain" or unknown

    def whole(self) -> Iterator[Decisions]:
        p = self.problem
        if not self.may_lie_in_rows() or p.n < self.fewest_lanes():
            return
        for bm in self.menu.row_blocks:
            if bm == 0 or (p.m % bm == 0 and p.m // bm >= 2 and self.menu.grid_rendering):
                for tile in self.tiled(bm, 0):
                    yield (TensorizedForm("whole_triple"), RowBlock(bm), *tile)

    def packed(self) -> Iterator[Decisions]:
        for shape in SHAPES:
            start = (TensorizedForm("packed"), PackingShape(shape))
            for panels in self.menu.packed:
                if self.packs(shape, panels):
                    for tile in self.tiled(panels.bm, panels.bn):
                        yield (*start, Geometry(panels), *tile)
            for panels, boxes in self.packed_lattice():
                if self.packs(shape, panels):
                    for tile in self.tiled(panels.bm, panels.bn):
                        yield (*start, Geometry(Lattice()), *boxes, *tile)

    def packed_lattice(self) -> Iterator[tuple[CpuPacked, Decisions]]:
        steps, p = self.menu.packed_lattice, self.problem
        if steps is None:
            return
        for bm in range(steps.bm, p.m + 1, steps.bm):
            for bk in range(steps.bk, p.k + 1, steps.bk):
                boxes = (LatticeBox("bm", bm, bm), LatticeBox("bk", bk, bk))
                yield CpuPacked(bm, steps.bn, bk), boxes

    def packs(self, shape: str, panels: CpuPacked) -> bool:
        p, width = self.problem, panels.bn or self.problem.n
        if width < self.fewest_lanes():
            return False
        if shape.startswith("hoisted") and not p.hoistable:
            return False
        if shape == "hoisted_grid" and not self.reads_in_place(panels, width):
            return False
        if "grid" not in shape:
            return True
        a = panels.bm * panels.bk * self.element_bytes()
        b = panels.bk * width * self.element_bytes()
        rest = (0 if "A" in p.hoistable else a) + (0 if "B" in p.hoistable else b)
        chunk = {"grid": a, "hoisted_grid": 0}.get(shape, rest)
        blocks = -(-p.m // panels.bm)
        return self.menu.grid_rendering and blocks >= 2 and within(chunk, self.menu.chunk_cap_bytes)

    def reads_in_place(self, panels: CpuPacked, width: int) -> bool:
        p = self.problem
        if "B" not in p.hoistable and not self.may_lie_in_rows():
            return False
        divides = p.m % panels.bm == p.n % width == p.k % panels.bk == 0
        return divides or len(p.hoistable) == 2


def within(number: int, cap: int | None) -> bool:
    return cap is None or number <= cap


def folded(nest: list[int]) -> tuple[int, int, int]:
    inner = [*reversed(nest), 1]
    return inner[0], inner[1], prod(inner[2:])


def is_swizzled(row_bytes: int) -> bool:
    return row_bytes in {16 << power for power in range(1, 30)}
