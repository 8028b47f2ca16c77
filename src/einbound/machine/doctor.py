"""What matters for einbound about the machine and the installation, as findings.

Nothing is loaded to find out: optional packages are looked up, not imported.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from einbound.machine.cpu import detected
from einbound.machine.memory import UNKNOWN_BYTES, available_bytes
from einbound.machine.peak import high_water_bytes

#: Optional packages, and what each is for.
OPTIONAL = {
    "rich": "the bar of progress=True",
    "opt_einsum": "paths to compare with",
    "cotengra": "paths to compare with",
    "scipy": "benchmarks",
    "threadpoolctl": "benchmarks",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a diagnosis: what was looked at, what was found, what it means."""

    topic: str
    found: str
    meaning: str = ""


def diagnosis() -> tuple[Finding, ...]:
    """Findings about versions, BLAS, processor, memory and optional packages."""
    return (
        Finding("einbound", _version("einbound") or "not installed, run from source"),
        Finding("python", f"{platform.python_version()} ({platform.python_implementation()})"),
        Finding("numpy", np.__version__),
        Finding("blas", _blas(), "matrix products run in it"),
        Finding("system", f"{platform.system()} {platform.release()} {platform.machine()}"),
        Finding("processor", _processor(), f"{_usable_cores()} usable cores"),
        _kernel_limits(),
        _memory(),
        _high_water(),
        *(
            Finding(name, _version(name) or "not installed", f"optional: {purpose}")
            for name, purpose in OPTIONAL.items()
        ),
    )


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _blas() -> str:
    config: Any = np.show_config(mode="dicts")
    blas = (config or {}).get("Build Dependencies", {}).get("blas", {})
    return f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _kernel_limits() -> Finding:
    found = detected()
    meaning = "what kernels are chosen by"
    if found.guessed:
        meaning += f"; not told here, so filled in: {', '.join(found.guessed)}"
    return Finding("kernels", found.summary, meaning)


def _memory() -> Finding:
    available = available_bytes()
    if available == UNKNOWN_BYTES:
        return Finding("memory", "not told here", "limits in percent cannot be used")
    meaning = "available now, control groups included; what limits in percent refer to"
    return Finding("memory", f"{available:,} bytes", meaning)


def _high_water() -> Finding:
    seen = high_water_bytes() is not None
    return Finding("process peak", "measurable" if seen else "not measurable here")
