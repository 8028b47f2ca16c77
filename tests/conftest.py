"""Fixtures of the whole suite: golden files and the networks it contracts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

TESTS = Path(__file__).parent
GOLDEN = TESTS / "golden"

# Deadlines are timing assertions; the machine that runs the tests may be busy. A commit passes or
# fails the same way everywhere; new examples are looked for with --hypothesis-profile=explore.
settings.register_profile("einbound", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile("einbound")


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compiled objects of a run of the tests are not those of the user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EINBOUND_CACHE", str(tmp_path_factory.mktemp("cache") / "objects"))
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Compares text with tests/golden/<test file>/<test name><suffix>."""

    def check(text: str, suffix: str = ".txt") -> None:
        name = request.node.name
        path = GOLDEN / request.path.stem / f"{name}{suffix}"
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        how = f"pytest --update-golden -k {name}"
        assert path.exists(), f"no golden file {path}; create it with: {how}"
        assert path.read_text() == text, f"{path} differs; if the change is meant: {how}"

    return check


@pytest.fixture
def network_file() -> Callable[[str], dict[str, Any]]:
    """The record of one network in tests/data/networks, by name."""

    def load(name: str) -> dict[str, Any]:
        text = (TESTS / "data" / "networks" / f"{name}.json").read_text()
        return dict(json.loads(text))

    return load
