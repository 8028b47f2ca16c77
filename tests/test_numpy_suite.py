"""numpy's own tests of einsum, run on a copy in which np.einsum is einbound.einsum."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from numpy._core.tests import test_einsum as numpy_tests

STAND_IN = Path(__file__).parent / "numpy_suite"
SOURCE = Path(__file__).parent.parent / "src"

#: The tests of numpy that must fail here, each with the reason.
DEVIATING = frozenset(
    {
        # Asks for errors for the labels 52 and -1; here any hashable value is a label.
        "TestEinsum::test_subscript_range",
    }
)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bool]:
    """Of each test of numpy's suite, whether it passed."""
    folder = tmp_path_factory.mktemp("numpy_suite")
    text = Path(str(numpy_tests.__file__)).read_text()
    replaced = text.replace("\nimport numpy as np\n", "\nfrom replaced import np\n")
    assert replaced != text, "numpy's test module imports numpy in another way than expected"
    (folder / "test_einsum_replaced.py").write_text(replaced)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow: as in numpy\n")
    report = folder / "report.xml"
    path = os.pathsep.join([str(STAND_IN), str(SOURCE)])
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--tb=short", f"--junitxml={report}", str(folder)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert report.exists(), run.stdout + run.stderr
    cases = ElementTree.parse(report).iter("testcase")
    return {_name(case): all(part.tag != "failure" for part in case) for case in cases}


def test_numpys_suite_passes_but_for_the_stated_tests(outcomes: dict[str, bool]) -> None:
    failed = {name for name, passed in outcomes.items() if not passed}
    assert failed == DEVIATING


def test_numpys_suite_is_run_in_full(outcomes: dict[str, bool]) -> None:
    # numpy 2.1 has 61 tests in this module and each later version at least as many.
    assert len(outcomes) >= 61


def _name(case: ElementTree.Element) -> str:
    owner = case.get("classname", "").rpartition(".")[2]
    return f"{owner}::{case.get('name')}"
