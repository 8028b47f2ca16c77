"""Limits of processors: checked when made, kept as text, found out, cited."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from einbound.errors import MachineError
from einbound.machine.cores import arm_core, x86_core
from einbound.machine.cpu import FALLBACK_CACHES, detected
from einbound.machine.doctor import diagnosis
from einbound.machine.gpu import A100, GPUS, H100, H200, gpu
from einbound.machine.limits import CacheLevel, HardwareLimits, MmaLimits, Scope, StagedLayout
from einbound.machine.peak import output_of
from einbound.machine.precision import Precision
from einbound.machine.roofline import Peaks
from einbound.machine.target import target_limits

FOREIGN = np.dtype("float32").newbyteorder()
F16, BF16, F32 = Precision.FLOAT16, Precision.BFLOAT16, Precision.FLOAT32
#: As callers may write it: mappings, lists and short names.
made_mma: Any = MmaLimits
MMA: MmaLimits = made_mma(
    32,
    (8, 8, 8),
    {("f32", "f32", "f32"): (8, 8, 8), ("f16", "f16", "f32"): [16, 8, 16]},
    wide_scopes={"bf16": ["per_statement"], "f16": "persistent_fragment"},
    layouts={("f16", "f16", "f32"): "swizzle_16_bytes"},
    depths=[2],
)

# number formats -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_as", "meant"),
    [
        ("f32", F32),
        ("Float32", F32),
        (F32, F32),
        (np.dtype("float32"), F32),
        (np.float32, F32),
        ("tf32", Precision.TFLOAT32),
        ("fp8_e5m2", Precision.FLOAT8_E5M2),
        (np.dtype("complex128"), Precision.COMPLEX128),
        ("f16", F16),
        ("f4", F32),
        (np.dtype("float64").str, Precision.FLOAT64),
        ("d", Precision.FLOAT64),
        ("half", F16),
        (float, Precision.FLOAT64),
        (complex, Precision.COMPLEX128),
    ],
)
def test_a_format_is_known_by_its_names_and_dtypes(given_as: object, meant: Precision) -> None:
    assert Precision.of(given_as) is meant


@pytest.mark.parametrize("given_as", ["f33", "", np.dtype("int64"), int, "i4", 32, None])
def test_what_is_no_format_is_refused_with_the_known_ones(given_as: object) -> None:
    with pytest.raises(MachineError, match=r"is no number format of kernels; expected one of flo"):
        Precision.of(given_as)


@pytest.mark.parametrize("given_as", [FOREIGN, FOREIGN.str])
def test_a_format_in_foreign_byte_order_is_refused(given_as: object) -> None:
    with pytest.raises(MachineError, match=r"foreign order; kernels expect native order, so conv"):
        Precision.of(given_as)


def test_the_parts_of_a_complex_number_are_half_as_wide() -> None:
    for each in Precision:
        factor = 2 if each.value.startswith("complex") else 1
        assert each.real.n_bytes * factor == each.n_bytes


# records ------------------------------------------------------------------------------------


def test_mappings_and_short_names_become_sorted_tuples_of_members() -> None:
    assert MMA.tiles == (((F16, F16, F32), (16, 8, 16)), ((F32, F32, F32), (8, 8, 8)))
    assert MMA.wide_scopes == (
        (BF16, (Scope.PER_STATEMENT,)),
        (F16, (Scope.PERSISTENT_FRAGMENT,)),
    )
    assert MMA.layouts == (((F16, F16, F32), StagedLayout.SWIZZLE_16_BYTES),)
    assert MMA.depths == (2,)


def test_the_order_in_which_formats_are_given_does_not_matter() -> None:
    tiles = {("f16", "f16", "f32"): (16, 8, 16), ("f32", "f32", "f32"): (8, 8, 8)}
    one = made_mma(32, (8, 8, 8), tiles)
    other = made_mma(32, (8, 8, 8), dict(reversed(tiles.items())))
    assert one == other
    assert hash(one) == hash(other)


def test_of_one_triple_the_tile_that_stands_first_is_preferred() -> None:
    triple = ("f16", "f16", "f32")
    mma = made_mma(32, (8, 8, 8), [(triple, (16, 8, 16)), (triple, (8, 8, 4))])
    assert mma.tile_of(*triple) == (16, 8, 16)


def test_the_accumulator_is_part_of_the_key_of_a_tile() -> None:
    assert MMA.tile_of("f16", "f16", "f32") == (16, 8, 16)
    assert MMA.tile_of("f16", "f16", "f16") is None


@pytest.mark.parametrize("limits", [*GPUS.values(), HardwareLimits(), HardwareLimits(mma=MMA)])
def test_limits_come_back_from_text_equal_and_hashable(limits: HardwareLimits) -> None:
    again = HardwareLimits.from_json(limits.to_json())
    assert again == limits
    assert hash(again) == hash(limits)


@given(
    st.builds(
        HardwareLimits,
        simd_vector_bytes=st.sampled_from([0, 16, 32, 64]),
        levels=st.lists(
            st.builds(
                CacheLevel,
                st.integers(1, 2**40),
                st.integers(1, 64),
                st.integers(1, 256),
                st.floats(1.0, 1e15),
            ),
            max_size=3,
        ),
        peak_flops=st.none() | st.floats(1.0, 1e18),
        format_flops=st.dictionaries(st.sampled_from(Precision), st.floats(1.0, 1e18)),
        n_cores=st.none() | st.integers(1, 512),
    )
)
def test_any_limits_come_back_from_text(limits: HardwareLimits) -> None:
    assert HardwareLimits.from_json(limits.to_json()) == limits


def test_numbers_of_numpy_become_those_of_python() -> None:
    level = CacheLevel(np.int64(2**15), 8, 64, np.float32(1e11))  # type: ignore[arg-type]
    limits = HardwareLimits(
        n_sm=np.int64(3),  # type: ignore[arg-type]
        simd_vector_bytes=np.int32(32),  # type: ignore[arg-type]
        peak_flops=np.float32(2.0),  # type: ignore[arg-type]
        levels=(level,),
    )
    assert HardwareLimits.from_json(limits.to_json()) == limits
    given_as = (limits.n_sm, limits.peak_flops, level.bytes)
    assert [type(each) for each in given_as] == [int, float, int]
    assert Peaks(np.float64(1e9)).flops_per_second == 1e9


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"n_sm": 0}, "n_sm is 0; expected a whole number of at least 1"),
        ({"max_grid_yz": True}, "max_grid_yz is True; expected a whole number"),
        ({"max_grid_yz": 1.5}, "max_grid_yz is 1.5; expected a whole number"),
        ({"peak_flops": -1.0}, r"peak_flops is -1.0; expected a finite number above 0"),
        ({"clock_hz": float("nan")}, "clock_hz is nan; expected a finite number"),
        ({"simd_vector_bytes": 24}, "simd_vector_bytes is 24; expected a power of two, or 0"),
        ({"max_workgroup_dims": (1024, 1024)}, "max_workgroup_dims .* expected 3 whole numbers"),
        ({"levels": ({"bytes": 1},)}, "CacheLevel needs ways; given were bytes"),
        ({"levels": ({"size": 1},)}, "CacheLevel has no field 'size'; expected one of bytes"),
        ({"mma": 32}, "32 is no MmaLimits; expected a mapping of its fields"),
        ({"levels": 5}, "levels is 5; expected a list"),
        ({"format_flops": [5]}, "format_flops has 5; expected a mapping, or pairs"),
        ({"format_flops": "f32"}, "format_flops is 'f32'; expected a list"),
        ({"native_fp16_arithmetic": "no"}, "native_fp16_arithmetic is 'no'; expected True or Fal"),
        ({"codegen_tag": 5}, "codegen_tag is 5; expected text"),
        ({"format_flops": {"f32": 0.0}}, "format_flops of float32 is 0.0; expected a finite"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(MachineError, match=message):
        HardwareLimits(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"width": 0}, "width of matrix instructions is 0"),
        ({"tile": 8}, "the tile is 8; expected 3 whole numbers"),
        ({"tiles": {("f16", "f16"): (8, 8, 8)}}, "are no formats of A, B and the accumulator"),
        ({"tiles": {("f16", "f16", "f1"): (8, 8, 8)}}, "'f1' is no number format"),
        ({"wide_scopes": {"f16": "block"}}, "'block' is no Scope; expected one of 'per_statement'"),
        ({"layouts": {("f16", "f16", "f16"): "x"}}, "'x' is no StagedLayout; expected one of"),
        ({"tiles": 5}, "tiles is 5; expected a list"),
        ({"tiles": {5: (8, 8, 8)}}, "5 are no formats of A, B and the accumulator"),
        ({"wide_scopes": {"f16": 5}}, "5 is no Scope; expected one of 'per_statement'"),
        ({"depths": 2}, "depths is 2; expected a list of whole numbers"),
    ],
)
def test_matrix_limits_that_make_no_sense_are_refused(
    fields: dict[str, object], message: str
) -> None:
    given_as = {"width": 32, "tile": (8, 8, 8), "tiles": (), **fields}
    with pytest.raises(MachineError, match=message):
        made_mma(**given_as)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "limits are no JSON"),
        ("[]", "is no HardwareLimits; expected a mapping"),
        (None, "limits are no JSON"),
        ("[" * 100_000, "limits are no JSON"),
        ('{"cores": 2}', "HardwareLimits has no field 'cores'"),
    ],
)
def test_text_that_is_no_limits_is_refused(text: Any, message: str) -> None:
    with pytest.raises(MachineError, match=message):
        HardwareLimits.from_json(text)


# this processor -----------------------------------------------------------------------------


def test_this_processor_has_vectors_caches_and_peaks() -> None:
    limits = HardwareLimits.detect()
    assert not limits.is_gpu
    assert limits.peak_flops
    assert [level.bytes for level in limits.levels] == sorted(lev.bytes for lev in limits.levels)
    assert HardwareLimits.from_json(limits.to_json()) == limits


def test_doctor_tells_what_kernels_are_chosen_by() -> None:
    told = {finding.topic: finding.found for finding in diagnosis()}
    assert told["kernels"] == detected().summary


X86 = (
    "processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n"
    "cpu MHz\t\t: 2500.000\nflags\t\t: fpu sse2 {flags}\n\nprocessor\t: 1\n"
)


def cache(root: Path, index: int, level: str, kind: str, size: str, ways: str | None) -> None:
    folder = root / f"sys/devices/system/cpu/cpu0/cache/index{index}"
    folder.mkdir(parents=True)
    (folder / "level").write_text(f"{level}\n")
    (folder / "type").write_text(f"{kind}\n")
    (folder / "size").write_text(f"{size}\n")
    (folder / "coherency_line_size").write_text("64\n")
    if ways is not None:
        (folder / "ways_of_associativity").write_text(f"{ways}\n")


def linux(root: Path, cpuinfo: str) -> None:
    (root / "proc").mkdir()
    (root / "proc/cpuinfo").write_text(cpuinfo)


def test_an_x86_server_is_read_from_its_files(tmp_path: Path) -> None:
    cpuinfo = X86.format(vendor="GenuineIntel", family=6, model=0x55, flags="avx2 fma avx512f")
    linux(tmp_path, cpuinfo)
    cache(tmp_path, 0, "1", "Data", "32K", "8")
    cache(tmp_path, 1, "1", "Instruction", "64K", "8")
    cache(tmp_path, 2, "2", "Unified", "1M", "16")
    found = detected(tmp_path, "Linux", "x86_64")
    limits = found.limits
    assert found.core == "Skylake server"
    assert found.guessed == ()
    assert (limits.simd_vector_bytes, limits.vector_registers, limits.fma_per_cycle) == (64, 32, 2)
    assert [(c.bytes, c.ways, c.line_bytes) for c in limits.levels] == [
        (32 * 2**10, 8, 64),
        (2**20, 16, 64),
    ]
    assert not limits.native_fp16_arithmetic


def test_peaks_are_of_the_highest_clock_and_not_of_the_nominal_one(tmp_path: Path) -> None:
    linux(tmp_path, X86.format(vendor="AuthenticAMD", family=25, model=1, flags="avx2 fma"))
    limits = detected(tmp_path, "Linux", "x86_64").limits
    assert limits.clock_hz == 5.0e9
    assert limits.n_cores is not None
    assert limits.peak_flops == 2 * 2 * 8 * 5.0e9 * limits.n_cores
    frequency = tmp_path / "sys/devices/system/cpu/cpu0/cpufreq"
    frequency.mkdir(parents=True)
    (frequency / "cpuinfo_max_freq").write_text("3450000\n")
    assert detected(tmp_path, "Linux", "x86_64").limits.clock_hz == 3.45e9


def test_a_double_width_takes_half_the_rate_where_the_units_are_narrow(tmp_path: Path) -> None:
    linux(tmp_path, X86.format(vendor="AuthenticAMD", family=25, model=0x11, flags="avx2 avx512f"))
    zen_4 = detected(tmp_path, "Linux", "x86_64").limits
    assert (zen_4.simd_vector_bytes, zen_4.fma_per_cycle) == (64, 1)


def test_an_arm_server_has_32_registers_of_16_bytes(tmp_path: Path) -> None:
    cpuinfo = (
        "processor\t: 0\nFeatures\t: fp asimd asimdhp\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"
    )
    linux(tmp_path, cpuinfo)
    cache(tmp_path, 0, "1", "Data", "64K", None)
    found = detected(tmp_path, "Linux", "aarch64")
    limits = found.limits
    assert found.core == "Neoverse N1"
    assert (limits.simd_vector_bytes, limits.vector_registers) == (16, 32)
    assert limits.native_fp16_arithmetic
    assert limits.flops_of(F16) == 2 * (limits.flops_of(F32) or 0)
    assert found.guessed == ("clock_hz", "ways of L1")


def test_a_container_that_tells_nothing_gets_values_that_are_said_to_be_filled_in(
    tmp_path: Path,
) -> None:
    found = detected(tmp_path, "Linux", "riscv64")
    assert found.guessed == ("core", "simd_vector_bytes", "clock_hz", "levels")
    sizes = tuple((c.bytes, c.ways, c.line_bytes) for c in found.limits.levels)
    assert sizes == FALLBACK_CACHES


@pytest.mark.parametrize("clock", ["nan", "inf", "-2000", "fast"])
def test_a_clock_that_makes_no_sense_is_filled_in(clock: str, tmp_path: Path) -> None:
    linux(tmp_path, f"flags: avx2\ncpu MHz: {clock}\n")
    found = detected(tmp_path, "Linux", "x86_64")
    assert found.limits.clock_hz == 6.2e9
    assert "clock_hz" in found.guessed


def test_files_of_bytes_and_sizes_in_gibibytes_are_read(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_bytes(b"flags: avx \xff\n")
    cache(tmp_path, 0, "1", "Data", "32K", "8")
    cache(tmp_path, 1, "4", "Unified", "1G", "16")
    found = detected(tmp_path, "Linux", "x86_64").limits
    assert [level.bytes for level in found.levels] == [2**15, 2**30]
    assert found.simd_vector_bytes == 32


def test_an_unknown_core_is_held_to_be_as_fast_as_any_known_one(tmp_path: Path) -> None:
    linux(tmp_path, X86.format(vendor="Other", family=9, model=9, flags="avx2 fma"))
    unknown = detected(tmp_path, "Linux", "x86_64").limits
    known = tmp_path / "known"
    known.mkdir()
    linux(known, X86.format(vendor="AuthenticAMD", family=25, model=1, flags="avx2 fma"))
    assert (unknown.peak_flops or 0) >= (detected(known, "Linux", "x86_64").limits.peak_flops or 0)


def test_a_mac_is_asked_by_name() -> None:
    told = {
        "hw.perflevel0.l1dcachesize": "131072\n",
        "hw.perflevel0.l2cachesize": "12582912\n",
        "hw.cachelinesize": "128\n",
        "hw.physicalcpu": "8\n",
    }
    found = detected(system="Darwin", machine="arm64", sysctl=lambda name: told.get(name, ""))
    assert found.core == "Apple M series"
    assert [(c.bytes, c.line_bytes) for c in found.limits.levels] == [(2**17, 128), (12 << 20, 128)]
    assert found.limits.n_cores == 8
    assert "ways of L1" in found.guessed


def test_an_intel_mac_is_known_by_its_model() -> None:
    told = {
        "hw.l1dcachesize": "32768",
        "machdep.cpu.leaf7_features": "AVX2 BMI2",
        "machdep.cpu.model": "158",
        "hw.cpufrequency_max": "2600000000",
    }
    found = detected(system="Darwin", machine="x86_64", sysctl=lambda name: told.get(name, ""))
    assert (found.core, found.limits.simd_vector_bytes) == ("Skylake", 32)
    assert found.limits.clock_hz == 2.6e9


def test_a_program_that_is_not_there_says_nothing() -> None:
    assert output_of(["einbound-no-such-program"]) == ""
    assert output_of(["false"]) == ""


def test_cores_that_are_not_in_the_table_are_not_guessed() -> None:
    assert x86_core("GenuineIntel", 6, 0x01) is None
    assert x86_core("Other", 6, 0x55) is None
    assert arm_core(0x42, 0xD0C) is None


# GPUs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [A100, H100, H200])
def test_the_cap_along_z_is_far_below_the_cap_of_all_threads(limits: HardwareLimits) -> None:
    assert limits.is_gpu
    assert limits.max_workgroup_dims == (1024, 1024, 64)
    assert limits.max_threads_per_workgroup == 1024
    assert limits.max_grid_yz == 65535


@pytest.mark.parametrize("limits", [A100, H100])
def test_a_gpu_has_no_matrix_instruction_of_float32(limits: HardwareLimits) -> None:
    assert limits.mma is not None
    assert limits.mma.tile_of("f32", "f32", "f32") is None
    assert limits.mma.tile_of("tf32", "tf32", "f32") == (16, 8, 8)
    assert limits.mma.tile_of("bf16", "bf16", "bf16") is None


def test_hopper_prefers_the_taller_shape_of_float64() -> None:
    assert A100.mma is not None
    assert H100.mma is not None
    assert A100.mma.tile_of("f64", "f64", "f64") == (8, 8, 4)
    assert H100.mma.tile_of("f64", "f64", "f64") == (16, 8, 16)
    assert A100.mma.tile_of("fp8_e5m2", "fp8_e5m2", "f32") is None


@pytest.mark.parametrize("limits", [A100, H100])
def test_published_float32_peaks_are_cores_times_clock(limits: HardwareLimits) -> None:
    assert limits.n_sm is not None
    assert limits.clock_hz is not None
    per_cycle = {108: 64, 132: 128}[limits.n_sm]  # float32 lanes of a multiprocessor
    assert limits.peak_flops == pytest.approx(2 * per_cycle * limits.n_sm * limits.clock_hz, 0.01)


def test_a_workgroup_gets_all_shared_memory_but_a_kibibyte() -> None:
    for limits in (A100, H100):
        assert limits.shared_bytes_per_sm is not None
        assert limits.max_workgroup_memory_bytes == limits.shared_bytes_per_sm - 1024


def test_a_rate_that_is_not_told_is_that_of_float32() -> None:
    assert A100.flops_of(F16) == 312e12
    assert A100.flops_of(Precision.COMPLEX64) == A100.peak_flops
    assert HardwareLimits(peak_flops=1e9).flops_of(F16) == 1e9


def test_a_gpu_is_known_by_target_and_by_product() -> None:
    assert gpu("sm_90") is gpu("H100")
    with pytest.raises(MachineError, match="no limits are known of GPU 'sm_70'; known are sm_80"):
        gpu("sm_70")


def test_a_target_is_this_processor_or_a_gpu() -> None:
    assert target_limits("cpu") == HardwareLimits.detect()
    assert target_limits("sm_80") is A100
    with pytest.raises(MachineError, match="target is 'gpu'; expected cpu for this processor, or"):
        target_limits("gpu")
