"""What a program prints in fresh processes that hash differently."""

from __future__ import annotations

import subprocess
import sys


def printed_under_hash_seeds(code: str) -> set[str]:
    """The distinct outputs of `code` under several values of PYTHONHASHSEED."""
    path = ":".join(p for p in sys.path if p)
    return {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
