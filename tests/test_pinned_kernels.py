"""Kernels pinned to a file of winners, in place of records of this machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import einbound as eb
from einbound.api.engines import engine_of
from einbound.errors import BackendError, KernelError
from einbound.kernels.family import family_tree
from einbound.kernels.problem import MatmulProblem
from einbound.space.traversal import enumerate_leaves
from einbound.tune.exchange import exported
from einbound.tune.records import Record, decisions_text
from einbound.tune.workshop import context_of
from native_tools import needs_compiler


@needs_compiler
def test_winners_in_a_file_are_those_that_count(tmp_path: Path) -> None:
    product = MatmulProblem(m=48, n=48, k=48)
    with eb.options(cache=tmp_path):
        plain = engine_of("native").ways
        assert plain is not None
        limits = replace(plain.limits, n_cores=1)
        usual = plain.choose(product, limits)
        found = enumerate_leaves(family_tree(product, limits))
        path, spec = next(each for each in found if each[1] != usual)
        context = context_of(plain.toolchain)
        record = Record(
            problem=product.key,
            decisions=decisions_text(path),
            label="another",
            context=context,
            seconds=1e-3,
        )
        file = tmp_path / "kernels.json"
        file.write_text(exported([record]))
        for given in (file, str(file)):
            with eb.options(tuned=given):
                pinned = engine_of("native").ways
            assert pinned is not None
            assert pinned.choose(product, limits) == spec
            assert pinned.limits == plain.limits


@pytest.mark.parametrize("backend", ["auto", "native"])
def test_a_file_of_winners_that_is_none_is_refused(backend: str, tmp_path: Path) -> None:
    file = tmp_path / "kernels.json"
    with eb.options(tuned=file), pytest.raises(BackendError, match=r"kernels.json.* be read"):
        eb.plan("ij,jk->ik", (2, 2), (2, 2), backend=backend)
    file.write_text("{}")
    with eb.options(tuned=file), pytest.raises(KernelError, match="tuned kernels is None"):
        eb.plan("ij,jk->ik", (2, 2), (2, 2), backend=backend)


def test_numpy_reads_no_file_of_winners(tmp_path: Path) -> None:
    with eb.options(tuned=tmp_path / "absent"):
        assert eb.plan("ij,jk->ik", (2, 2), (2, 2)).macs == 8
