"""The command line: plans, runs and explanations of contractions of stored arrays.

Reads files, calls the public functions and prints; decides nothing about contractions.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

import einbound as eb
from einbound.api import tuning
from einbound.api.kernels import kernel_choices
from einbound.demo import Example, demonstrate
from einbound.errors import EinboundError
from einbound.expr.subscripts import read
from einbound.machine.doctor import diagnosis
from einbound.machine.target import THIS_CPU
from einbound.report.figures import columns
from einbound.report.kernel import explain_all
from einbound.report.tuning import tuned_table
from einbound.tune.exchange import exported, imported

Array = NDArray[Any]

USER_ERROR = 2
INTERRUPTED = 130  # what shells report for a program that Ctrl-C ended


class InputError(Exception):
    """Arguments or files are wrong; the text is shown as it is."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of one command.

    Args:
        arguments: What follows the program's name; None: those of this process.
    """
    chosen = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = chosen.command
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _warn  # type: ignore[assignment]  # takes all that it is given
            status = command(chosen)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _refuse("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # The reader has seen enough. What is buffered goes nowhere, quietly.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MemoryError as error:
        return _refuse(str(error) or "not enough memory", USER_ERROR)
    except (EinboundError, InputError, OSError) as error:
        return _refuse(str(error), USER_ERROR)
    return status


def _refuse(message: str, status: int) -> int:
    print(f"einbound: {message}", file=sys.stderr)
    return status


def _warn(message: Warning | str, *_: object) -> None:
    print(f"einbound: warning: {message}", file=sys.stderr)


def plan(chosen: argparse.Namespace) -> int:
    """Print the plan of an expression at given sizes."""
    made = _expressed(chosen.expression, chosen)
    print(made.to_json() if chosen.json else made)
    return 0


def run(chosen: argparse.Namespace) -> int:
    """Contract stored arrays; the result is printed or stored."""
    # A file that is named twice is one array, whose bytes count once.
    arrays = {name: _load(name) for name in dict.fromkeys(chosen.operands)}
    result = eb.einsum(
        chosen.expression,
        *[arrays[name] for name in chosen.operands],
        memory_limit=chosen.memory,
        workspace_limit=chosen.workspace,
        dtype=chosen.dtype,
        progress=chosen.progress,
    )
    if chosen.out is None:
        print(np.array2string(np.asarray(result)))
    else:
        store(Path(chosen.out), np.asarray(result))
    return 0


def explain(chosen: argparse.Namespace) -> int:
    """Print why a plan is as it is, or which kernels its steps would take and why."""
    is_stored = not (chosen.size or chosen.target)
    made = _stored(chosen.plan) if is_stored else _expressed(chosen.plan, chosen)
    if chosen.target is None:
        print(made.explain())
        return 0
    choices = kernel_choices(made, chosen.target, reference=chosen.reference, lifted=chosen.lattice)
    print(explain_all(choices))
    found = tuning.winners_of(made) if chosen.target == THIS_CPU else ()
    if found:
        print(f"\ntuned on this machine\n\n{tuned_table(found)}")
    return 0


def _expressed(expression: str, chosen: argparse.Namespace) -> eb.Plan:
    """The plan of an expression at given sizes."""
    return eb.plan(
        expression,
        *_shapes(expression, _sizes(chosen.size)),
        memory_limit=chosen.memory,
        workspace_limit=chosen.workspace,
        dtype=chosen.dtype,
    )


def _stored(name: str) -> eb.Plan:
    """The plan in a file."""
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text("utf-8")
    except UnicodeDecodeError:
        raise InputError(
            f"{name} is no text; expected JSON that einbound plan --json wrote"
        ) from None
    except FileNotFoundError:
        if "->" not in name and "," not in name:
            raise
        raise InputError(
            f"there is no file {name!r}; to explain an expression, give the extent of each label: "
            "--size i=64 j=64"
        ) from None
    return eb.Plan.from_json(text)


def tune(chosen: argparse.Namespace) -> int:
    """Measure kernels of an expression's steps, and keep the best for this machine."""
    report = tuning.tune(_expressed(chosen.expression, chosen), **_allowed(chosen))
    print(report.to_json() if chosen.json else report)
    return 0


def _allowed(chosen: argparse.Namespace) -> dict[str, Any]:
    """How much tuning may spend, as far as that is said."""
    asked = {"budget": chosen.budget, "seconds": chosen.seconds}
    return {name: value for name, value in asked.items() if value is not None}


def calibrate(_: argparse.Namespace) -> int:
    """Measure the register tiles of this processor, and keep their speeds as its profile."""
    print(tuning.calibrate())
    return 0


def cache(chosen: argparse.Namespace) -> int:
    """List, write out, read in or clear the tuned kernels of this machine, or tell their file."""
    action: Callable[[argparse.Namespace], None] = chosen.action
    action(chosen)
    return 0


def _cache_path(_: argparse.Namespace) -> None:
    print(tuning.records_file())


def _cache_list(_: argparse.Namespace) -> None:
    print(tuned_table(tuning.kept().winners()))


def _cache_export(chosen: argparse.Namespace) -> None:
    text = exported(tuning.kept().winners())
    if chosen.file is None:
        sys.stdout.write(text)
    else:
        Path(chosen.file).write_text(text, "utf-8")


def _cache_import(chosen: argparse.Namespace) -> None:
    winners = imported(Path(chosen.file).read_text("utf-8"))
    tuning.kept().crown(winners)
    print(f"{len(winners)} winners were read from {chosen.file}")


def _cache_clear(_: argparse.Namespace) -> None:
    print(f"{tuning.kept().clear()} rows were removed from {tuning.records_file()}")


def demo(chosen: argparse.Namespace) -> int:
    """Contract the example within its limit, and measure it."""
    sizes = _sizes(chosen.size)
    labels = list(Example.load({}).sizes)
    unused = [label for label in sizes if label not in labels]
    if unused:
        raise InputError(
            f"sizes are given for {', '.join(unused)}; the labels of the example are "
            f"{', '.join(labels)}"
        )
    return 0 if demonstrate(sizes) else 1


def doctor(chosen: argparse.Namespace) -> int:
    """Print what matters about machine and installation."""
    rows = [(each.topic, each.found, each.meaning) for each in diagnosis()]
    print("\n".join(columns(rows, "<<<")))
    return 0


def store(path: Path, array: Array) -> None:
    """Write `array` to an .npy file that appears under its name only once it is complete."""
    if not path.parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no folder {path.parent}")
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.save(file, array, allow_pickle=False)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _load(name: str) -> Array:
    """The array in a file: "a.npy", mapped, or "b.npz:member", read."""
    path, mark, member = name.partition(".npz:")
    try:
        if mark or name.endswith(".npz"):
            return _member(path + ".npz" if mark else name, member)
        array: Array = np.load(name, mmap_mode="r", allow_pickle=False)
    except (EOFError, ValueError, BadZipFile):
        # NumPy takes any other file for a pickle and suggests to trust it.
        raise InputError(
            f"{name} is no array file; expected an .npy or .npz file that numpy.save or "
            "numpy.savez wrote, without objects"
        ) from None
    return array


def _member(path: str, member: str) -> Array:
    with np.load(path, allow_pickle=False) as archive:
        names = list(archive.files)
        if not member and len(names) == 1:
            member = names[0]
        if member not in names:
            what = f"has no array {member!r}" if member else "holds more than one array or none"
            raise InputError(
                f"{path} {what}; it has {', '.join(names) or 'none'}; name one as {path}:NAME"
            )
        array: Array = archive[member]
    return array


def _sizes(words: Iterable[str]) -> dict[str, int]:
    """Extents by label, from words such as "P=450" or "i=8,j=9"."""
    sizes: dict[str, int] = {}
    for item in (item for word in words for item in word.split(",") if item):
        label, mark, number = item.partition("=")
        if not (mark and len(label) == 1 and number.isdecimal()):
            raise InputError(f"the size {item!r} is not LABEL=NUMBER, for example P=450")
        if sizes.setdefault(label, int(number)) != int(number):
            raise InputError(f"label {label!r} is given two sizes, {sizes[label]} and {number}")
    return sizes


def _shapes(expression: str, sizes: Mapping[str, int]) -> list[tuple[int, ...]]:
    """The shape of each operand of `expression`."""
    terms, _ = read(expression)
    if any(term.ellipsis is not None for term in terms):
        raise InputError(
            f"{expression!r} has an ellipsis, which no size belongs to; write its indices out"
        )
    labels = list(dict.fromkeys(str(label) for term in terms for label in term.labels))
    missing = [label for label in labels if label not in sizes]
    unused = [label for label in sizes if label not in labels]
    if missing or unused:
        what = "no size is given for" if missing else "sizes are given for labels not in"
        rest = ", ".join(missing) if missing else f"{expression!r}: {', '.join(unused)}"
        raise InputError(f"{what} {rest}; the labels of the expression are {', '.join(labels)}")
    return [tuple(sizes[str(label)] for label in term.labels) for term in terms]


def _dtype(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:
        raise argparse.ArgumentTypeError(
            f"{name!r} is no dtype of NumPy; expected for example float32 or complex128"
        ) from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="einbound", description="Tensor contractions that stay within a byte limit."
    )
    parser.add_argument("--version", action="version", version=f"einbound {eb.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = _command(commands, "plan", plan)
    _add_expression(command)
    _add_sizes(command, "extent of each label: P=450 a=80")
    command.add_argument("--json", action="store_true", help="print the plan as JSON")

    command = _command(commands, "run", run)
    _add_expression(command)
    command.add_argument(
        "operands",
        nargs="+",
        metavar="FILE",
        help="a.npy, or b.npz:NAME for an array of an archive",
    )
    command.add_argument("--out", metavar="FILE", help="store the result as .npy here")
    command.add_argument("--progress", action="store_true", help="show a bar (needs rich)")

    command = _command(commands, "explain", explain)
    command.add_argument(
        "plan",
        metavar="PLAN",
        help='a stored plan (- for standard input), or einsum text with --size: "ik,kj->ij"',
    )
    _add_limits(command)
    _add_sizes(command, "extent of each label: i=512 k=512 j=512")
    command.add_argument(
        "--target", metavar="NAME", help="choose kernels for cpu (this one), sm_80 or sm_90"
    )
    command.add_argument(
        "--reference", action="store_true", help="propose the published menus of kernels"
    )
    command.add_argument(
        "--lattice", action="store_true", help="propose all tile sizes, not the menus alone"
    )

    _add_tuning(commands)

    command = _command(commands, "demo", demo)
    _add_sizes(command, "extents that replace the example's own")

    _command(commands, "doctor", doctor)
    return parser


def _add_tuning(commands: Any) -> None:
    command = _command(commands, "tune", tune)
    _add_expression(command)
    _add_sizes(command, "extent of each label: i=512 k=512 j=512")
    command.add_argument("--budget", type=int, metavar="N", help="kernels measured a product")
    command.add_argument("--seconds", type=float, metavar="S", help="begin none after these")
    command.add_argument("--json", action="store_true", help="print the report as JSON")

    _command(commands, "calibrate", calibrate)

    actions = _command(commands, "cache", cache).add_subparsers(required=True, metavar="ACTION")
    for name, action, summary in (
        ("list", _cache_list, "winners by product"),
        ("export", _cache_export, "winners as text that can be checked into source"),
        ("import", _cache_import, "take over winners from such a text"),
        ("clear", _cache_clear, "forget all that was measured"),
        ("path", _cache_path, "the file in which records are"),
    ):
        one = actions.add_parser(name, help=summary, description=summary)
        one.set_defaults(action=action)
        if name in ("export", "import"):
            n_files = "?" if name == "export" else None
            one.add_argument("file", nargs=n_files, metavar="FILE", help="a file of text")


def _command(
    commands: Any, name: str, function: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    summary = (function.__doc__ or "").rstrip(".")
    command: argparse.ArgumentParser = commands.add_parser(name, help=summary, description=summary)
    command.set_defaults(command=function)
    return command


def _add_expression(command: argparse.ArgumentParser) -> None:
    command.add_argument("expression", metavar="EQ", help='einsum text: "ij,jk->ik"')
    _add_limits(command)


def _add_limits(command: argparse.ArgumentParser) -> None:
    command.add_argument("--memory", metavar="LIMIT", help="bound of all bytes: 2GiB, 80%%")
    command.add_argument(
        "--workspace", metavar="LIMIT", help="bound of what is neither operand nor result"
    )
    command.add_argument("--dtype", type=_dtype, help="element type, for example float32")


def _add_sizes(command: argparse.ArgumentParser, summary: str) -> None:
    command.add_argument(
        "--size", nargs="+", action="extend", default=[], metavar="LABEL=N", help=summary
    )
