"""What tests of compiled kernels share: a toolchain whose objects one run of the tests builds."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from einbound.api.engines import Engine
from einbound.backends.backend import Backend
from einbound.backends.native_ways import NativeWays
from einbound.kernels.kinds import PipelineKind
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.spec import KernelSpec
from einbound.machine.cpu import detected
from einbound.machine.limits import HardwareLimits
from einbound.tune.build import Toolchain, find_compiler
from einbound.tune.compilers import Compiler

FOUND = find_compiler(None)
needs_compiler = pytest.mark.skipif(isinstance(FOUND, str), reason=str(FOUND))

SPEC = KernelSpec(
    gpu=False, pipeline=PipelineKind.TENSORIZED, mma=True, packed=True, bm=24, bn=32, bk=16
)


@cache
def toolchain() -> Toolchain:
    """A compiler with a folder of this run's own."""
    assert isinstance(FOUND, Compiler)
    return Toolchain(FOUND, Path(mkdtemp(prefix="einbound-native-")))


def one_kernel(problem: MatmulProblem, limits: HardwareLimits) -> KernelSpec:
    """The same kernel for every product, so that there is one object for each element type."""
    return SPEC


def few_objects(backend: Backend, n_threads: int, *_: object) -> Engine:
    """The engine whose kernels need one object for each element type."""
    ways = NativeWays(backend, toolchain(), detected().limits, n_threads, choose=one_kernel)
    return Engine(backend, ways)
