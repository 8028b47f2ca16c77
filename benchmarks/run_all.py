"""All figures, one after the other, and the tables made again from what each kept."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import tables
from children import HERE, environment

SCRIPTS = (
    "small",
    "handbatch",
    "time_limited",
    "limits",
    "cgroup",
    "planner_limits",
    "random_nets",
    "peer_orders",
    "exactness",
    "planner",
    "space",
    "kernel_regret",
    "kernels",
    "contractions",
    "native_limits",
    "rewriting",
    "forests",
)
#: File with the exit status of each script's last run.
STATES = "states"


def main() -> int:
    """Runs every script and writes the index of the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables-only", action="store_true", help="measure nothing")
    parser.add_argument("--only", nargs="+", default=list(SCRIPTS), choices=SCRIPTS)
    asked = parser.parse_args()
    status = _states()
    for name in asked.only:
        started = time.monotonic()
        extra = ["--table-only"] if asked.tables_only else []
        command = [sys.executable, str(HERE / f"{name}.py"), *extra]
        status[name] = subprocess.run(command, env=environment(), check=False).returncode
        print(f"== {name}: {time.monotonic() - started:.0f} s, exit {status[name]}", flush=True)
        tables.store(STATES, status)
    tables.write("README", _index(status))
    return max(status[name] for name in asked.only)


def _states() -> dict[str, int]:
    """Exit status of each script's last run."""
    return tables.stored(STATES) if (tables.RESULTS / f"{STATES}.json").exists() else {}


def _index(status: dict[str, int]) -> str:
    rows = []
    for name in (name for name in SCRIPTS if name in status):
        page = tables.RESULTS / f"{name}.md"
        title = page.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
        state = "all bars met" if status[name] == 0 else "MISSED, see the page"
        rows.append((f"[{title}]({name}.md)", f"[raw]({name}.json)", state))
    return "# Results\n\n" + tables.markdown(("table", "numbers", "state"), rows)


if __name__ == "__main__":
    sys.exit(main())
