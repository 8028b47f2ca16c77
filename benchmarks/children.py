"""Fresh Python processes: the only place of the benchmarks that starts any."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from networks import ROOT
from trial import Task, task_line

HERE = Path(__file__).resolve().parent
#: Longest life of one child, seconds; one that runs longer counts as failed.
TIMEOUT_SECONDS = 300.0
#: Variables that pin the BLAS kernel; timed children run without them.
PINS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


def environment(
    *, one_thread: bool = False, unpinned: bool = False, hash_seed: int | None = None
) -> dict[str, str]:
    """Environment of a child: the package's source first on its path."""
    made = dict(os.environ)
    made["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT / "src"), *filter(None, [made.get("PYTHONPATH")])]
    )
    if unpinned:
        for name in PINS:
            made.pop(name, None)
    if hash_seed is not None:
        made["PYTHONHASHSEED"] = str(hash_seed)
    if one_thread:
        made.update(dict.fromkeys(THREADS, "1"))
    return made


def run_task(task: Task, **kind: bool) -> dict[str, Any]:
    """What a child answers to `task`; one that dies answers with `died`."""
    found: dict[str, Any] = run_script("trial.py", [], task_line(task), **kind)
    return found


def seconds_of(arguments: Sequence[str]) -> float:
    """Elapsed seconds of a whole Python process."""
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], env=environment(), check=False)
    return time.perf_counter() - started


def run_script(name: str, arguments: Sequence[str], text: str = "", **kind: Any) -> Any:
    """The JSON that the last line of a script in a child holds; `name` "-c" runs a text."""
    command = [sys.executable, name if name == "-c" else str(HERE / name), *arguments]
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            env=environment(**kind),
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"died": f"still running after {TIMEOUT_SECONDS:.0f} s"}
    return answer(done.returncode, done.stdout, done.stderr)


def ask(name: str, action: str, task: Mapping[str, Any], **kind: Any) -> dict[str, Any]:
    """What a script's child answers when asked to do something; see `serve`."""
    text = json.dumps(task) + "\n"
    found: dict[str, Any] = run_script(name, ["--child", action], text, **kind)
    return found


def serve(action: Callable[[dict[str, Any]], Any]) -> int:
    """Does the task on standard input, in a child, and prints the answer; the exit status."""
    warnings.simplefilter("ignore")
    print(json.dumps(action(json.loads(sys.stdin.readline()))))
    return 0


def answer(status: int, out: str, err: str) -> Any:
    """What a child that has ended said."""
    lines = out.strip().splitlines()
    if status == 0 and lines:
        return json.loads(lines[-1])
    last = err.strip().splitlines()[-1:] or ["no message"]
    return {"died": f"exit status {status}: {last[0]}"}
