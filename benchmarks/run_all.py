"""All figures, one after the other, and the tables made again from what each kept."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import tables
from children import HERE, environment

SCRIPTS = ("small", "handbatch", "time_limited", "limits", "cgroup")


def main() -> int:
    """Runs every script and writes the index of the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables-only", action="store_true", help="measure nothing")
    asked = parser.parse_args()
    status = {}
    for name in SCRIPTS:
        started = time.monotonic()
        extra = ["--table-only"] if asked.tables_only else []
        command = [sys.executable, str(HERE / f"{name}.py"), *extra]
        status[name] = subprocess.run(command, env=environment(), check=False).returncode
        print(f"== {name}: {time.monotonic() - started:.0f} s, exit {status[name]}", flush=True)
    tables.write("README", _index(status))
    return max(status.values())


def _index(status: dict[str, int]) -> str:
    rows = []
    for name in SCRIPTS:
        page = tables.RESULTS / f"{name}.md"
        title = page.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
        state = "all bars met" if status[name] == 0 else "MISSED, see the page"
        rows.append((f"[{title}]({name}.md)", f"[raw]({name}.json)", state))
    return "# Results\n\n" + tables.markdown(("table", "numbers", "state"), rows)


if __name__ == "__main__":
    sys.exit(main())
