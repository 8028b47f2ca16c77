"""Makes a virtual environment hold this project with one of its extras; standard library only.

    python3 .ci/environment.py .venv dev

Does nothing while the environment is current. Safe to run twice, also at the same time.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OLDEST = (3, 11)


def main(folder: str, extra: str) -> int:
    """Exit status: 0 once the environment at `folder` holds the project with `extra`."""
    if sys.version_info < OLDEST:
        return refuse(
            f"python3 is {sys.version.split()[0]}; Python 3.11 or newer is needed; "
            "name one with: make PYTHON=python3.12 ..."
        )
    venv = (ROOT / folder).resolve()
    stamp = venv / f"einbound-{extra}.stamp"
    wanted = fingerprint(venv)
    venv.mkdir(exist_ok=True)
    with (venv / "einbound.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text() == wanted and works(venv):
            return 0
        if not works(venv):
            status = create(venv)
            if status:
                return status
        status = install(venv, extra)
        if not status:
            stamp.write_text(wanted)
        return status


def fingerprint(venv: Path) -> str:
    """What the installation depends on: the project's own file and where both live."""
    text = (ROOT / "pyproject.toml").read_text() + f"\n{ROOT}\n{venv}\n"
    return hashlib.sha256(text.encode()).hexdigest()


def works(venv: Path) -> bool:
    """Whether the environment's interpreter starts, is new enough and has pip."""
    python = venv / "bin" / "python"
    probe = f"import sys, pip; sys.exit(sys.version_info < {OLDEST})"
    try:
        return subprocess.run([python, "-c", probe], capture_output=True).returncode == 0
    except OSError:
        return False


def create(venv: Path) -> int:
    """Exit status of making the environment."""
    if not importlib.util.find_spec("venv") or not importlib.util.find_spec("ensurepip"):
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        return refuse(
            f"{sys.executable} has no venv with pip; install it, for example with: "
            f"apt install python{version}-venv"
        )
    print(f"making {venv.name} with {sys.executable}", flush=True)
    return subprocess.run([sys.executable, "-m", "venv", str(venv)]).returncode


def install(venv: Path, extra: str) -> int:
    """Exit status of installing the project, in place, with `extra`."""
    print(f"installing einbound[{extra}] into {venv.name}", flush=True)
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    pip += ["--disable-pip-version-check", "--editable", f"{ROOT}[{extra}]"]
    return subprocess.run(pip).returncode


def refuse(message: str) -> int:
    """Exit status 1, with the reason on stderr."""
    print(message, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
