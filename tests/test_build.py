"""Objects are built once, kept safely, and tried where they can do no harm."""

from __future__ import annotations

import os
import pickle
import sys
import threading
from pathlib import Path

import pytest

from einbound.errors import BackendError, BuildError
from einbound.kernels.emit_c import c_source
from einbound.kernels.kinds import PipelineKind
from einbound.kernels.member import Member, member_of
from einbound.kernels.nest import nest_of
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.spec import KernelSpec
from einbound.kernels.task import Task, task_of
from einbound.machine.cpu import detected
from einbound.machine.identity import cpu_identity
from einbound.machine.precision import Precision
from einbound.tune.build import Toolchain, find_compiler, load, run_child
from einbound.tune.compilers import Compiler, commands
from einbound.tune.objects import Objects, digest
from einbound.tune.trial import trial

FOUND = find_compiler(None)
needs_compiler = pytest.mark.skipif(isinstance(FOUND, str), reason=str(FOUND))

ENTRIES = "void einbound_run(void) {{ {body} }}\nvoid einbound_call(void) {{ {body} }}\n"
F64 = Precision.FLOAT64
PROBLEM = MatmulProblem(m=30, n=20, k=10, batch=(2,), a_dtype=F64, b_dtype=F64, out_dtype=F64)


@pytest.fixture
def tools(tmp_path: Path) -> Toolchain:
    assert isinstance(FOUND, Compiler)
    return Toolchain(FOUND, tmp_path / "objects")


def packed(accumulate: bool = False) -> tuple[Member, Task]:
    spec = KernelSpec(
        gpu=False, pipeline=PipelineKind.TENSORIZED, mma=True, packed=True, bm=16, bn=16, bk=8
    )
    member = member_of(PROBLEM, spec, detected().limits)
    return member, task_of(PROBLEM, spec, member, accumulate=accumulate)


def source(body: str) -> str:
    return ENTRIES.format(body=body)


def test_the_compiler_that_is_named_is_the_only_one_tried() -> None:
    assert commands("ccache gcc -m64") == (("ccache", "gcc", "-m64"),)
    found = find_compiler("/nowhere/cc -x")
    assert isinstance(found, str)
    assert "/nowhere/cc -x --version ended with status 127" in found
    assert "install gcc or clang" in found


def test_compilers_are_tried_in_order_and_the_wheel_comes_last() -> None:
    there = {"gcc": "/a/gcc", "clang": "/a/clang"}
    tried = commands(None, lambda name: there.get(name), has_zig=True)
    assert tried[:2] == (("/a/gcc",), ("/a/clang",))
    assert tried[2][1:] == ("-m", "ziglang", "cc")
    assert commands(" ", lambda name: None, has_zig=False) == ()


def test_zig_is_told_not_to_instrument() -> None:
    zig = Compiler(("python", "-m", "ziglang", "cc"), "clang 20")
    assert "-fno-sanitize=undefined" in zig.flags
    assert "-fno-sanitize=undefined" not in Compiler(("gcc",), "gcc 12").flags
    assert not any("fast-math" in flag for flag in zig.flags)


@needs_compiler
def test_an_object_is_compiled_once(tools: Toolchain, monkeypatch: pytest.MonkeyPatch) -> None:
    built = tools.build(source(";"))
    monkeypatch.setattr(sys.modules[Toolchain.__module__], "run_child", None)
    assert tools.build(source(";")) == built
    assert os.stat(built.parent).st_mode & 0o777 == 0o700
    assert list(built.parent.iterdir()) == [built]


@needs_compiler
def test_the_key_tells_sources_and_compilers_apart(tools: Toolchain) -> None:
    other = Toolchain(Compiler(("gcc",), "another version"), tools.folder)
    keys = {tools.key("a"), tools.key("b"), other.key("a")}
    assert len(keys) == 3
    assert tools.key("a") == tools.key("a")


@needs_compiler
def test_a_damaged_object_is_built_again(
    tools: Toolchain, caplog: pytest.LogCaptureFixture
) -> None:
    built = tools.build(source(";"))
    whole = built.read_bytes()
    built.write_bytes(whole[: len(whole) // 2])
    with caplog.at_level("WARNING"):
        again = tools.build(source(";"))
    assert "is not what was put there" in caplog.text
    assert digest(again.read_bytes()) == again.stem.rpartition("-")[2]
    load(again)


@needs_compiler
def test_many_builders_at_once_leave_whole_objects(tools: Toolchain) -> None:
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(tools.build(source(";")))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(digest(path.read_bytes()) == path.stem.rpartition("-")[2] for path in found)
    assert not list(tools.folder.glob("build-*"))


def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(BackendError, match=r"can be written to by others \(mode 777\)"):
        Objects.opened(folder)


def test_a_link_is_refused_as_a_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(BackendError, match="is no folder, or a link to one"):
        Objects.opened(tmp_path / "link")


def test_a_folder_of_somebody_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    with pytest.raises(BackendError, match=f"belongs to user {owner}"):
        Objects.opened(tmp_path / "mine")


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BackendError, match=r"cannot be used: .*EINBOUND_CACHE"):
        Objects.opened(tmp_path / "file" / "objects")


@needs_compiler
def test_what_the_compiler_says_is_in_the_error(tools: Toolchain) -> None:
    with pytest.raises(BuildError, match=r"ended with status 1 .* error:") as caught:
        tools.build("nonsense")
    assert "kernel.c" in caught.value.command
    assert "error" in caught.value.output
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.command == caught.value.command


@needs_compiler
def test_a_compiler_that_hangs_is_ended(tmp_path: Path) -> None:
    script = tmp_path / "cc"
    script.write_text("#!/bin/sh\nsleep 100\n")
    script.chmod(0o700)
    tools = Toolchain(Compiler((str(script),), "slow"), tmp_path / "objects")
    with pytest.raises(BuildError, match="ran out of time"):
        tools.build("", seconds=0.2)


@needs_compiler
def test_what_is_no_object_is_not_loaded(tmp_path: Path) -> None:
    (tmp_path / "a.so").write_bytes(b"no object")
    with pytest.raises(BuildError, match="cannot be loaded"):
        load(tmp_path / "a.so")


@needs_compiler
@pytest.mark.parametrize("accumulate", [False, True])
def test_a_right_kernel_passes_its_trial(tools: Toolchain, accumulate: bool) -> None:
    member, task = packed(accumulate)
    built = tools.build(c_source(nest_of(member)))
    found = trial(built, PROBLEM, member, task, accumulate=accumulate)
    assert found.passed, found.reason


@needs_compiler
@pytest.mark.parametrize(
    ("body", "seconds", "reason"),
    [
        ("*(volatile int *)0 = 1;", 60, "signal 11 SIGSEGV"),
        ("for (;;) {}", 1.0, "ran out of time"),
        (";", 60, "elements of the result are wrong"),
    ],
    ids=["crashes", "hangs", "does nothing"],
)
def test_a_kernel_that_fails_costs_one_candidate(
    tools: Toolchain, body: str, seconds: float, reason: str
) -> None:
    member, task = packed()
    found = trial(tools.build(source(body)), PROBLEM, member, task, seconds=seconds)
    assert not found.passed
    assert reason in found.reason


def test_the_fate_of_a_child_is_told() -> None:
    ended = (sys.executable, "-c", "raise SystemExit(3)")
    assert run_child(ended, 10).fate == "ended with status 3"
    killed = (sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    assert run_child(killed, 10).fate == "was ended by signal 9 SIGKILL"


def test_processors_are_told_apart(tmp_path: Path) -> None:
    found = set()
    for flags in ("avx2", "avx512f"):
        root = tmp_path / flags
        (root / "proc").mkdir(parents=True)
        (root / "proc" / "cpuinfo").write_text(f"vendor_id : A\nflags : {flags}\n")
        found.add(cpu_identity(root))
    assert len({*found, cpu_identity()}) == 3
