"""Every example that is shown is run: docstrings, README, docs.

In Markdown, a `python` block is run; if it has prompts, as a doctest, otherwise as a program whose
output must equal the `text` block that follows it directly, if one does. A `console` block is run
command by command. Blocks of one page share their names and their folder. In any expected output,
`...` stands for what differs from run to run.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from einbound.cli import main

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src"
MODULES = sorted(path for path in SRC.rglob("*.py") if path.stem != "__main__")
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])

FLAGS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
# Commands that a page may show and that are not ours to run.
SHOWN_ONLY = {"make", "pip", "git", "cd"}


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, and the first line of its text."""

    language: str
    text: str
    line: int


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    for match in re.finditer(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        yield Block(match[1], match[2], page.count("\n", 0, match.start()) + 2)


def agrees(expected: str, got: str) -> bool:
    """Whether two outputs are equal, up to blanks at line ends and `...`."""
    expected, got = ("\n".join(map(str.rstrip, t.strip("\n").split("\n"))) for t in (expected, got))
    return doctest.OutputChecker().check_output(expected + "\n", got + "\n", doctest.ELLIPSIS)


def run_doctest(text: str, names: dict[str, Any], where: str) -> None:
    """Run the prompts in `text`; what they define stays in `names`."""
    test = doctest.DocTestParser().get_doctest(text, names, where, where, 0)
    told = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    runner.run(test, out=told.write, clear_globs=False)
    names.update(test.globs)
    assert runner.failures == 0, told.getvalue()


def run_program(block: Block, names: dict[str, Any], where: str) -> str:
    """What a program prints."""
    told = io.StringIO()
    code = compile("\n" * (block.line - 1) + block.text, where, "exec")
    with contextlib.redirect_stdout(told):
        exec(code, names)
    return told.getvalue()


def run_console(text: str, where: str) -> None:
    """Run the `$ einbound ...` commands of a console block and compare what they print."""
    for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
        program, *arguments = shlex.split(command, comments=True)
        if program in SHOWN_ONLY:
            continue
        assert program == "einbound", f"{where}: only einbound can be run here, not {command!r}"
        target = None
        if ">" in arguments:
            arguments, (_, target) = arguments[:-2], arguments[-2:]
        told = io.StringIO()
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            main(arguments)
        if target:
            Path(target).write_text(told.getvalue())
        got = "" if target else told.getvalue()
        assert agrees(expected, got), f"{where}: $ {command}\nexpected:\n{expected}\ngot:\n{got}"


def run_page(text: str, where: str) -> int:
    """Run all blocks of a page; the answer is how many there were."""
    names: dict[str, Any] = {"__name__": where}
    told: str | None = None
    n_run = 0
    for block in blocks(text):
        here = f"{where}:{block.line}"
        before, told = told, None
        if block.language == "python" and ">>>" in block.text:
            run_doctest(block.text, names, here)
        elif block.language == "python":
            told = run_program(block, names, here)
        elif block.language == "console":
            run_console(block.text, here)
        elif block.language == "text" and before is not None:
            assert agrees(block.text, before), f"{here}: expected\n{block.text}\ngot\n{before}"
        else:
            continue
        n_run += 1
    return n_run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def dotted(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def examples(module: str) -> list[doctest.DocTest]:
    found = doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(module))
    return [test for test in found if test.examples]


@pytest.mark.parametrize("module", [dotted(path) for path in MODULES])
@pytest.mark.usefixtures("folder")
def test_docstring_examples_of(module: str) -> None:
    for test in examples(module):
        told = io.StringIO()
        runner = doctest.DocTestRunner(optionflags=FLAGS)
        runner.run(test, out=told.write)
        assert runner.failures == 0, told.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
@pytest.mark.usefixtures("folder")
def test_examples_of_page(page: Path) -> None:
    run_page(page.read_text(), page.relative_to(ROOT).as_posix())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)[^)]*\)", page.read_text())
    assert [name for name in targets if not (page.parent / name).exists()] == []


def test_there_are_docstring_examples() -> None:
    assert sum(len(examples(dotted(path))) for path in MODULES) >= 5


@pytest.mark.parametrize(
    "page",
    [
        "```python\nassert 1 == 2\n```\n",
        "```python\n>>> 1 + 1\n3\n\n```\n",
        "```python\nprint(1)\n```\n\n```text\n2\n```\n",
        "```console\n$ einbound nothing\nfine\n```\n",
        "```console\n$ rm file\n```\n",
        "```python\nx = 1\n```\n```python\n>>> x\n2\n```\n",
    ],
    ids=["program", "prompt", "output", "command", "other command", "shared names"],
)
@pytest.mark.usefixtures("folder")
def test_a_broken_example_fails(page: str) -> None:
    with pytest.raises((AssertionError, SystemExit)):
        run_page(page, "planted")


@pytest.mark.usefixtures("folder")
def test_working_examples_pass() -> None:
    page = (
        "```python\nx = 1\nprint(x, 'then')\n```\n\n```text\n1 ...\n```\n"
        "```python\n>>> x\n1\n\n```\n```console\n$ make demo\n$ einbound doctor\n...numpy...\n```\n"
    )
    assert run_page(page, "planted") == 4
