"""Table 1b: does the operating system kill a run whose control group ends at the limit?

The rows of limits.py again, each in a process that lives in a control group of its own. Once
NumPy is imported and BLAS is warm, and before operands exist, the group's limit is set to what it
holds then + memory_limit + 8 MiB (swap included). Works with control groups of version 1 and 2;
where the machine does not allow it, the table says why and the exit status is 0.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import limits
import machine
import tables
from children import HERE, TIMEOUT_SECONDS, answer, environment, run_task
from measure import ALLOWANCE_BYTES
from networks import LAYOUTS, load
from trial import Task, is_wrong, task_line

MOUNT = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Files:
    """File names of one version of the memory controller."""

    version: int
    limit: str
    swap: str
    usage: str
    peak: str
    kills: str


V1 = Files(
    1, "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.usage_in_bytes",
    "memory.max_usage_in_bytes", "memory.oom_control",
)  # fmt: skip
V2 = Files(2, "memory.max", "memory.swap.max", "memory.current", "memory.peak", "memory.events")


@dataclass(frozen=True, slots=True)
class Group:
    """One control group.

    Attributes:
        path: Its folder.
        files: Names of its files.
    """

    path: Path
    files: Files

    def usage_bytes(self) -> int:
        """Bytes charged to the group now."""
        return int((self.path / self.files.usage).read_text(encoding="ascii"))

    def peak_bytes(self) -> int | None:
        """Most bytes charged so far, where the kernel tells."""
        file = self.path / self.files.peak
        return int(file.read_text(encoding="ascii")) if file.exists() else None

    def kills(self) -> int:
        """How many processes of the group the kernel has killed for memory."""
        text = (self.path / self.files.kills).read_text(encoding="ascii")
        counts = dict(line.split() for line in text.splitlines())
        return int(counts.get("oom_kill", 0))

    def limit(self, n_bytes: int) -> None:
        """Sets the limit of memory, and with it that of swap."""
        (self.path / self.files.limit).write_text(str(n_bytes), encoding="ascii")
        swap = self.path / self.files.swap
        if swap.exists():
            total = n_bytes if self.files.version == 1 else 0
            swap.write_text(str(total), encoding="ascii")


def parent_group() -> tuple[Path, Files]:
    """The folder in which groups are made: below the group that this process is in.

    Raises:
        OSError: There is none that can be used; the text says why.
    """
    for row in Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
        _, controllers, place = row.split(":", 2)
        if "memory" in controllers.split(","):
            own = MOUNT / "memory" / place.lstrip("/")
            # In a container the path may name a folder that is mounted elsewhere.
            return (own if own.is_dir() else MOUNT / "memory"), V1
    if not (MOUNT / "cgroup.controllers").exists():
        raise OSError(f"no memory controller of version 1 or 2 is mounted at {MOUNT}")
    place = next(
        row.split("::", 1)[1]
        for row in Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines()
        if "::" in row
    )
    own = MOUNT / place.lstrip("/")
    candidates = [own, own.parent, MOUNT] if own.is_dir() else [MOUNT]
    for folder in candidates:
        control = folder / "cgroup.subtree_control"
        if control.exists() and "memory" in control.read_text(encoding="ascii").split():
            return folder, V2
    raise OSError("no group above this process hands the memory controller to its children")


@contextlib.contextmanager
def group() -> Iterator[Group]:
    """A fresh control group, removed at the end with whatever still runs in it."""
    folder, files = parent_group()
    made = Group(folder / f"einbound-bench-{os.getpid()}", files)
    made.path.mkdir()
    try:
        if not (made.path / files.limit).exists():
            raise OSError(f"{made.path} has no {files.limit}")
        yield made
    finally:
        _remove(made)


def _remove(made: Group) -> None:
    for _ in range(50):
        for pid in (made.path / "cgroup.procs").read_text(encoding="ascii").split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        with contextlib.suppress(OSError):
            made.path.rmdir()
            return
        time.sleep(0.1)  # a process that is going still holds the group
    print(f"cgroup: could not remove {made.path}", file=sys.stderr)


def run_limited(task: Task, limit_bytes: int, *, one_thread: bool = True) -> dict[str, Any]:
    """What a child answers that may grow by `limit_bytes` + 8 MiB after its warm-up."""
    with group() as made:
        # The shell moves itself before Python starts, so that every page is charged here.
        enter = 'echo $$ > "$0" && exec "$@"'
        procs = str(made.path / "cgroup.procs")
        child = subprocess.Popen(
            ["sh", "-c", enter, procs, sys.executable, str(HERE / "trial.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(one_thread=one_thread),
        )
        assert child.stdin is not None, "opened as a pipe"
        assert child.stdout is not None, "opened as a pipe"
        try:
            child.stdin.write(task_line(task))
            child.stdin.flush()
            ready = child.stdout.readline()
            baseline = made.usage_bytes()
            if ready.strip() == "ready":
                made.limit(baseline + limit_bytes + ALLOWANCE_BYTES)
            out, err = child.communicate("go\n", timeout=TIMEOUT_SECONDS)
        except (subprocess.TimeoutExpired, BrokenPipeError) as error:
            child.kill()
            child.communicate()
            return {"died": f"{type(error).__name__}"}
        found = answer(child.returncode, out, err)
        return {
            **found,
            "baseline_bytes": baseline,
            "group_peak_bytes": made.peak_bytes(),
            "killed": made.kills() > 0 or child.returncode == -signal.SIGKILL,
        }


def main() -> int:
    """Runs every row in a group of its own, stores them and writes the table."""
    asked = _arguments()
    if not asked.table_only:
        _measure(asked)
    data = tables.stored("cgroup", asked.results)
    tables.write("cgroup", table(data), asked.results)
    if "reason" in data:
        print(f"cgroup: not measured: {data['reason']}")
        return 0
    failed = [row for row in data["rows"] if row["verdict"] != "lived"]
    print(f"cgroup: {len(data['rows'])} rows, {len(failed)} failed")
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--also", type=Path, action="append", default=[], metavar="DIR")
    parser.add_argument("--only", action="append", default=[], metavar="NETWORK")
    parser.add_argument("--layouts", nargs="+", default=list(LAYOUTS), choices=LAYOUTS)
    parser.add_argument("--shares", nargs="+", type=int, default=[1, 2, 4, 16], metavar="K")
    parser.add_argument("--results", type=Path, default=tables.RESULTS, metavar="DIR")
    parser.add_argument("--all-threads", action="store_true", help="BLAS with all its threads")
    parser.add_argument("--resume", action="store_true", help="keep the cases already stored")
    parser.add_argument("--table-only", action="store_true")
    return parser.parse_args()


def _measure(asked: argparse.Namespace) -> None:
    head: dict[str, Any] = {"machine": limits.host(asked)}
    try:
        _, files = parent_group()
        control = _control()
    except OSError as error:
        tables.store("cgroup", {**head, "reason": str(error), "rows": []}, asked.results)
        return
    if not control["killed"]:
        reason = "the control, which passes its limit, lived"
        tables.store("cgroup", {**head, "reason": reason, "rows": []}, asked.results)
        return
    limits.gather("cgroup", {**head, "version": files.version, "control": control}, _case, asked)


def _control() -> dict[str, Any]:
    """A run that takes 16 MiB more than it may: it must be killed."""
    path = limits.files(limits.WINDOWED)[0]
    too_much = {"array_bytes": (64 << 20) + 2 * ALLOWANCE_BYTES}
    task = Task(network=str(path), engine="stand-in", handshake=True, options=too_much)
    return run_limited(task, 64 << 20)


def _case(
    path: Path, layout: str, scratch: Path, asked: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    network, shares = load(path), asked.shares
    head = {"network": network.name, "layout": limits.layout_name(path, layout)}
    priced = run_task(Task("price", str(path), layout=layout))
    if "died" in priced:
        yield from ({**head, "k": k, "verdict": f"no plan: {priced['died']}"} for k in shares)
        return
    reference = str(limits.reference_file(path, scratch))
    for k in shares:
        limit = limits.memory_limit(priced, k)
        task = Task(
            "run", str(path), layout=layout, memory_limit=limit, trace=False, handshake=True,
            reference=reference,
        )  # fmt: skip
        row = {
            **head,
            "k": k,
            "limit_bytes": limit,
            **run_limited(task, limit, one_thread=not asked.all_threads),
        }
        row["verdict"] = _verdict(row)
        print(f"{network.name:16} {head['layout']:11} k={k:2} {row['verdict']}", flush=True)
        yield row


def _verdict(row: dict[str, Any]) -> str:
    if row.get("killed"):
        return "KILLED"
    if "died" in row:
        return f"died: {row['died']}"
    if row["refused"]:
        proven = row["lower_bound_bytes"] > row["limit_bytes"]
        return "lived" if proven else "refused without proof"
    if is_wrong(row):
        return f"wrong result (relative error {row['relative_error']:.1e})"
    return "lived"


def table(data: dict[str, Any]) -> str:
    """The Markdown page of the stored rows."""
    title = "# Table 1b: limits held by a control group"
    if "reason" in data:
        return f"{title}\n\n{machine.line(data['machine'])}\n\nNot measured: {data['reason']}."
    rows = data["rows"]
    lived = sum(row["verdict"] == "lived" for row in rows)
    head = ("network", "layout", "k", "memory_limit MiB", "group's limit MiB",
            "group's peak MiB", "verdict")  # fmt: skip
    return "\n\n".join(
        (
            title,
            machine.line(data["machine"]),
            f"Control groups of version {data['version']}. Group's limit = what it holds after "
            "imports and BLAS warm-up, before operands exist, + memory_limit + 8 MiB, swap "
            "included. The group's peak counts page cache too, which the kernel drops at the "
            "limit. A control that takes 16 MiB too much was killed, as it must be.",
            f"**{lived} of {len(rows)} rows lived.**",
            tables.markdown(head, (_cells(row) for row in rows)),
        )
    )


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    limit, baseline = row.get("limit_bytes"), row.get("baseline_bytes")
    whole = None if limit is None or baseline is None else baseline + limit + ALLOWANCE_BYTES
    return (
        row["network"], row["layout"], row["k"], tables.mebibytes(limit), tables.mebibytes(whole),
        tables.mebibytes(row.get("group_peak_bytes")), row["verdict"],
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
