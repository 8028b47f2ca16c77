"""Speeds of register tiles: measured, kept, and what the model makes of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from einbound.errors import MachineError
from einbound.kernels.cost import cost
from einbound.kernels.cpu_blocking import ports_of, register_tiles
from einbound.kernels.kinds import PipelineKind
from einbound.kernels.microkernel import step_cycles
from einbound.kernels.pick import untuned
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.spec import KernelSpec
from einbound.machine.limits import CacheLevel, HardwareLimits, TileSpeed
from einbound.machine.precision import Precision
from einbound.tune.measure import Rounds
from einbound.tune.profile import NUMBERS, ROWS, store_profile, stored_profile, tile_speeds
from einbound.tune.records import Outcome
from einbound.tune.tuner import Built, Failure
from test_tune_measure import FakeTime

F64 = Precision.FLOAT64
CPU = HardwareLimits(
    simd_vector_bytes=64,
    vector_registers=32,
    fma_per_cycle=2,
    fma_latency_cycles=4,
    clock_hz=4e9,
    n_cores=1,
    levels=(CacheLevel(2**15, 8, 64, 1e11), CacheLevel(2**20, 8, 64, 1e11)),
)
PROBLEM = MatmulProblem(m=192, n=192, k=192, a_dtype=F64, b_dtype=F64, out_dtype=F64)
QUICK = Rounds(warmup=0, rounds=3, sample_seconds=0.0)


def known(**shares: float) -> HardwareLimits:
    """The processor with measured tiles, by "r8x3"."""
    speeds = []
    for name, share in shares.items():
        rm, rn = map(int, name[1:].split("x"))
        speeds.append(TileSpeed(F64, rm, rn, share))
    return replace(CPU, tile_speeds=tuple(speeds))


def test_a_measured_tile_has_its_own_speed_and_others_that_of_the_median() -> None:
    ports = ports_of(known(r8x3=0.5, r4x4=0.5), F64)
    assert ports is not None
    plain = ports_of(CPU, F64)
    assert plain is not None
    assert step_cycles(8, 3, ports) == 24.0
    assert step_cycles(6, 4, ports) == 2 * step_cycles(6, 4, plain)


def test_measured_tiles_of_another_format_say_nothing() -> None:
    assert ports_of(known(r8x3=0.5), Precision.FLOAT32) == ports_of(CPU)


def test_no_tile_is_faster_than_the_ports_allow() -> None:
    ports = ports_of(known(r8x3=1.0), F64)
    assert ports is not None
    assert step_cycles(8, 3, ports) == 8 * 3 / 2
    with pytest.raises(MachineError, match=r"share of a tile is 1\.5; expected at most 1"):
        TileSpeed(F64, 8, 3, 1.5)


def test_the_fastest_measured_tile_is_proposed_first_and_chosen() -> None:
    shares = {f"r{rm}x{rn}": 0.5 for rn, rows in ROWS.items() for rm in rows}
    limits = known(**shares | {"r4x3": 0.9})
    (first, *_) = register_tiles(PROBLEM, limits, F64)
    assert first.sizes == (4, 3, 8)
    tile = untuned(PROBLEM, limits).tile
    assert tile is not None
    assert tile.sizes == (4, 3, 8)


def test_a_slower_tile_costs_more() -> None:
    spec = KernelSpec(
        gpu=False, pipeline=PipelineKind.TENSORIZED, mma=True, packed=True, bm=96, bn=0, bk=192
    )
    (tile, *_) = register_tiles(PROBLEM, CPU, F64)
    spec = replace(spec, tile=tile)
    rm, rn, _ = tile.sizes
    slow = replace(CPU, tile_speeds=(TileSpeed(F64, rm, rn, 0.25),))
    before, after = cost(spec, PROBLEM, CPU), cost(spec, PROBLEM, slow)
    assert before is not None
    assert after is not None
    assert after.compute_seconds > 2 * before.compute_seconds


def test_speeds_are_those_that_the_clock_shows() -> None:
    time = FakeTime()

    def bench_of(problem: MatmulProblem) -> object:
        def build(problem: MatmulProblem, spec: KernelSpec) -> Built | Failure:
            assert spec.tile is not None
            rm, rn, lanes = spec.tile.sizes
            assert problem.m % rm == problem.n % (rn * lanes) == 0
            if (rm, rn) == (8, 3):
                return Failure(Outcome.CRASHED, "signal 11")
            share = 0.5 if rn == 3 else 0.25
            seconds = problem.macs / (share * 2 * lanes * 4e9)
            return Built(time.kernel([seconds]), lambda: None, "", (rm, rn))

        return build

    speeds = tile_speeds(CPU, bench_of, QUICK, time.clock)  # type: ignore[arg-type]
    found = {(each.number, each.rm, each.rn): each.share for each in speeds}
    assert {number for number, _, _ in found} == set(NUMBERS)
    assert found[F64, 6, 3] == pytest.approx(0.5)
    assert found[F64, 12, 2] == pytest.approx(0.25)
    assert (F64, 8, 3) not in found


def test_an_unknown_clock_is_refused() -> None:
    with pytest.raises(MachineError, match="clock_hz and the multiply-adds per cycle are not"):
        tile_speeds(HardwareLimits(simd_vector_bytes=32), lambda problem: None)  # type: ignore[arg-type,return-value]


def test_a_profile_is_read_as_it_was_kept(tmp_path: Path) -> None:
    limits = known(r8x3=0.5, r4x4=0.625)
    store_profile(tmp_path / "cache", limits)
    assert stored_profile(tmp_path / "cache", CPU) == limits


def test_no_profile_or_a_damaged_one_leaves_limits_as_they_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert stored_profile(tmp_path, CPU) == CPU
    assert caplog.text == ""
    path = store_profile(tmp_path, CPU)
    for text in ("", "{", '{"simd_vector_bytes": "wide"}', '{"what": 1}'):
        path.write_text(text)
        assert stored_profile(tmp_path, CPU) == CPU
    assert caplog.text.count("cannot be used") == 4


def test_a_profile_of_another_processor_does_not_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store_profile(tmp_path, known(r8x3=0.5))
    other = replace(CPU, clock_hz=3e9)
    assert stored_profile(tmp_path, other) == other
    assert "is of another processor" in caplog.text
