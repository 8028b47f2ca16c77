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

import einbound
from einbound.cli import main
from einbound.tune.build import find_compiler

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src"
MODULES = sorted(path for path in SRC.rglob("*.py") if path.stem != "__main__")
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])

FLAGS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
# Commands that a page may show and that are not ours to run.
SHOWN_ONLY = {"make", "pip", "git", "cd"}
# Pages whose programs compile kernels.
COMPILED = ("tuning.md",)
# Other distributions that a page shows; `make test` has them all.
NEEDS = {"integrations.md": ("opt_einsum", "cotengra", "quimb", "xarray", "pyscf")}


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, where that lies in the page, its first line."""

    language: str
    text: str
    span: tuple[int, int]
    line: int


@dataclass(frozen=True)
class Replay:
    """What came of running a page.

    Attributes:
        n_run: Blocks that were run or compared.
        faults: What is wrong, in words.
        text: The page with the outputs as they really are.
    """

    n_run: int
    faults: tuple[str, ...]
    text: str


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    for match in re.finditer(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        line = page.count("\n", 0, match.start()) + 2
        yield Block(match[1], match[2], match.span(2), line)


def agrees(expected: str, got: str) -> bool:
    """Whether two outputs are equal, up to blanks at line ends and `...`."""
    expected, got = trimmed(expected), trimmed(got)
    return doctest.OutputChecker().check_output(expected, got, doctest.ELLIPSIS)


def trimmed(text: str) -> str:
    return "\n".join(map(str.rstrip, text.strip("\n").split("\n"))) + "\n"


def prompts(text: str, names: dict[str, Any], where: str) -> str:
    """What a doctest has to complain about; what it defines stays in `names`."""
    test = doctest.DocTestParser().get_doctest(text, names, where, where, 0)
    told = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    runner.run(test, out=told.write, clear_globs=False)
    names.update(test.globs)
    return told.getvalue() if runner.failures else ""


def program(block: Block, names: dict[str, Any], where: str) -> str:
    """What a program prints."""
    told = io.StringIO()
    code = compile("\n" * (block.line - 1) + block.text, where, "exec")
    with contextlib.redirect_stdout(told):
        exec(code, names)
    return told.getvalue()


def console(text: str) -> Iterator[tuple[str, str, str]]:
    """The commands of a console block, each with its expected and its real output."""
    for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
        name, *arguments = shlex.split(command, comments=True)
        if name in SHOWN_ONLY:
            yield command, expected, expected
            continue
        assert name == "einbound", f"only einbound can be run here, not {command!r}"
        target = None
        if ">" in arguments:
            arguments, (_, target) = arguments[:-2], arguments[-2:]
        told = io.StringIO()
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            main(arguments)
        if target:
            Path(target).write_text(told.getvalue())
        yield command, expected, "" if target else told.getvalue()


def replay(page: str, where: str) -> Replay:
    """Run all blocks of a page in order; those that are only shown are left as they are."""
    names: dict[str, Any] = {"__name__": where}
    faults: list[str] = []
    pieces: list[str] = []
    printed: str | None = None
    at = n_run = 0

    def compared(expected: str, got: str, what: str) -> str:
        if agrees(expected, got):
            return expected
        faults.append(f"{what}\nexpected:\n{expected}\ngot:\n{got}")
        return trimmed(got) if got.strip() else ""

    for block in blocks(page):
        here = f"{where}:{block.line}"
        before, printed, shown = printed, None, block.text
        if block.language == "python" and ">>>" in block.text:
            faults += filter(None, [prompts(block.text, names, here)])
        elif block.language == "python":
            printed = program(block, names, here)
        elif block.language == "console":
            shown = "".join(
                f"$ {command}\n{compared(expected, got, f'{here}: $ {command}')}"
                for command, expected, got in console(block.text)
            )
        elif block.language == "text" and before is not None:
            shown = compared(block.text, before, here)
        else:
            continue
        n_run += 1
        pieces += [page[at : block.span[0]], shown]
        at = block.span[1]
    return Replay(n_run, tuple(faults), "".join([*pieces, page[at:]]))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, in whose child processes the package can be imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(SRC))
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
def test_examples_of_page(page: Path, request: pytest.FixtureRequest) -> None:
    for name in NEEDS.get(page.name, ()):
        pytest.importorskip(name)
    if page.name in COMPILED and isinstance(found := find_compiler(None), str):
        pytest.skip(found)
    seen = replay(page.read_text(), page.relative_to(ROOT).as_posix())
    if request.config.getoption("--update-golden"):
        page.write_text(seen.text)
        seen = replay(seen.text, page.name)
    assert not seen.faults, "\n\n".join([*seen.faults, "if the change is meant: make golden"])


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
def test_a_broken_example_is_a_fault(page: str) -> None:
    try:
        faults = replay(page, "planted").faults
    except (AssertionError, SystemExit) as error:
        faults = (str(error),)
    assert len(faults) == 1


GOOD = (
    "```python\nx = 1\nprint(x, 'then')\n```\n\n```text\n1 ...\n```\n"
    "```python\n>>> x\n1\n\n```\n```console\n$ make demo\n$ einbound doctor\n...numpy...\n```\n"
)


@pytest.mark.usefixtures("folder")
def test_working_examples_pass_and_stay_as_they_are() -> None:
    assert replay(GOOD, "planted") == Replay(4, (), GOOD)


@pytest.mark.usefixtures("folder")
def test_outdated_output_is_replaced_on_request() -> None:
    outdated = GOOD.replace("1 ...\n", "2 then\nand more\n")
    assert replay(outdated, "planted").text == GOOD.replace("1 ...\n", "1 then\n")


def test_every_public_name_is_on_the_page_of_public_names() -> None:
    words = set(re.findall(r"\w+", (ROOT / "docs" / "api.md").read_text()))
    assert {name for name in einbound.__all__ if name != "__version__"} - words == set()


def test_every_module_is_on_the_page_of_the_architecture() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    modules = {path.relative_to(SRC / "einbound").as_posix() for path in SRC.rglob("*.py")}
    shown = set(re.findall(r"^- `(\S+\.py)`", page, re.MULTILINE))
    assert shown == {name for name in modules if not name.endswith("/__init__.py")}


def test_every_decision_is_linked_from_the_architecture() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    decisions = {path.name for path in (ROOT / "docs" / "decisions").glob("*.md")}
    assert decisions == set(re.findall(r"\(decisions/(\S+\.md)\)", page))
