"""The machine that a table was measured on, as one line.

Run as a script it prints the line's parts as JSON, for a child with another environment.
"""

from __future__ import annotations

import json
import os
import platform
import time
from pathlib import Path

import numpy as np


def parts() -> dict[str, str]:
    """CPU, cores, versions, BLAS kernel and date, by name."""
    return {
        "cpu": _cpu_name(),
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": _blas(),
        "kernel": platform.release(),
        "date": time.strftime("%Y-%m-%d"),
    }


def line(machine: dict[str, str]) -> str:
    """The parts as one sentence of a table's head."""
    return (
        f"{machine['cpu']}, {machine['cores']} cores; Python {machine['python']}, "
        f"NumPy {machine['numpy']}, {machine['blas']}; Linux {machine['kernel']}; "
        f"{machine['date']}"
    )


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return platform.machine()
    found = {}
    for row in info.read_text(encoding="utf-8").splitlines():
        name, _, value = row.partition(":")
        found.setdefault(name.strip(), value.strip())
    family = f"family {found.get('cpu family', '?')}, model {found.get('model', '?')}"
    return f"{found.get('model name', platform.machine())} ({family})"


def _blas() -> str:
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return "BLAS kernel not known (threadpoolctl is not installed)"
    np.matmul(np.ones((2, 2)), np.ones((2, 2)))
    for library in threadpool_info():
        if library["user_api"] == "blas":
            return (
                f"{library['internal_api']} {library['version']} kernel "
                f"{library.get('architecture', '?')}, {library['num_threads']} threads"
            )
    return "BLAS not recognised"


if __name__ == "__main__":
    print(json.dumps(parts()))
