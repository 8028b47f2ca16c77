"""How a compiled kernel runs on NumPy arrays: one closure per step, its numbers made once."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise

import numpy as np

from einbound.backends.looks import Array
from einbound.backends.numpy_ import Bytes, Give, Kernel, Take
from einbound.backends.pool import shared_pool
from einbound.kernels.emit_c import c_source
from einbound.kernels.member import Member
from einbound.kernels.nest import nest_of
from einbound.kernels.pick import Pick
from einbound.kernels.task import DATA_BYTES, LINE_BYTES, Task, task_of
from einbound.tune.build import Library, Toolchain, load

#: An object is called with addresses; NumPy tells them in ten times as long.
_address_at = ctypes.c_void_p.from_address


@dataclass(frozen=True, slots=True)
class NativeStep:
    """A kernel for one step of a plan.

    Attributes:
        pick: The kernel, and the product that it was chosen for.
        toolchain: Where its object comes from.
        accumulate: Whether the step may add to its destination.
        room_bytes: Bytes that the workspace of one worker may have; its blocks are cut to fit.
        n_workers: Threads that share the step.
    """

    pick: Pick
    toolchain: Toolchain
    accumulate: bool
    room_bytes: int
    n_workers: int = 1

    def __str__(self) -> str:
        return str(self.pick)

    def task(self, accumulate: bool = False, factor: complex = 1) -> Task:
        """What the object is told.

        Raises:
            KernelError: Not even the smallest blocks fit the room.
        """
        pick = self.pick
        return task_of(
            pick.problem,
            pick.spec,
            pick.member,
            accumulate=accumulate,
            alpha=factor,
            workspace_limit=self.room_bytes,
            n_workers=self.n_workers,
        )

    def is_cut(self, task: Task) -> bool:
        """Whether its blocks were made smaller to fit the room."""
        pick = self.pick
        problem, spec, member = pick.problem, pick.spec, pick.member
        ample = task_of(problem, spec, member, accumulate=False, n_workers=self.n_workers)
        return ample.workspace_bytes > task.workspace_bytes

    def workspace_bytes(self, task: Task) -> int:
        """Bytes of the workspaces of all workers, and what starting them at lines takes.

        Law: it is what a run takes (tests/test_native.py).
        """
        each = _rounded(task.workspace_bytes)
        return self.n_workers * each + LINE_BYTES if each else 0

    def kernel(self, factor: complex = 1) -> Kernel:
        """The function that runs the step; its object is built and loaded now.

        Raises:
            BuildError: The compiler fails.
        """
        tasks = [self.task(False, factor)]
        tasks.append(self.task(True, factor) if self.accumulate else tasks[0])
        words = [np.array(task.words, np.int64) for task in tasks]
        library, task = built(self.toolchain, self.pick.member), tasks[0]
        run = _in_this_thread(library, words)
        if self.n_workers > 1:
            run = _in_threads(library, words, task)
        if task.swapped:
            run = partial(_turned, run)
        return _with_room(run, self.workspace_bytes(task))


#: Runs a step: whether it adds, a, b, c, and an array that starts where the workspace does.
Run = Callable[[bool, Array, Array, Array, Array], None]


@lru_cache(maxsize=1024)
def built(toolchain: Toolchain, member: Member) -> Library:
    """The object of a member, built if need be, and loaded.

    Raises:
        BuildError: The compiler fails, or what it made cannot be loaded.
    """
    return load(toolchain.build(c_source(nest_of(member))))


def _rounded(n_bytes: int) -> int:
    return -(-n_bytes // LINE_BYTES) * LINE_BYTES


def _data_address(array: Array) -> int:
    return _address_at(id(array) + DATA_BYTES).value or 0


def _turned(run: Run, add: bool, a: Array, b: Array, c: Array, room: Array) -> None:
    run(add, b, a, c, room)


def _in_this_thread(library: Library, words: list[Array]) -> Run:
    call, told = library.call, [each.ctypes.data for each in words]

    def run(add: bool, a: Array, b: Array, c: Array, room: Array, _: object = words) -> None:
        call(told[add], a, b, c, room)

    return run


def _in_threads(library: Library, words: list[Array], task: Task) -> Run:
    """Parts of a step in several threads; each element is computed as it would be in one."""
    told, start, each = [one.ctypes.data for one in words], library.run, task.workspace_bytes
    cuts = task.cuts
    shared_pool().prepare(len(cuts) - 2)

    def run(add: bool, a: Array, b: Array, c: Array, room: Array, _: object = words) -> None:
        given = (told[add], _data_address(a), _data_address(b), _data_address(c))
        space = _data_address(room)
        shared_pool().run(
            [
                partial(start, *given, space + worker * _rounded(each), first, stop)
                for worker, (first, stop) in enumerate(pairwise(cuts))
            ]
        )

    return run


def _with_room(run: Run, n_bytes: int) -> Kernel:
    """A kernel that takes its workspace, if it needs any, and gives it back."""
    if not n_bytes:

        def without(
            a: Array, b: Array | None, c: Array, accumulate: bool, take: Take, give: Give
        ) -> None:
            run(accumulate, a, b, c, c)  # type: ignore[arg-type]  # products have two operands

        return without

    def kernel(
        a: Array, b: Array | None, c: Array, accumulate: bool, take: Take, give: Give
    ) -> None:
        room: Bytes = take(n_bytes)
        try:
            # Vectors that cross lines of the cache take twice as long to load.
            run(accumulate, a, b, c, room[-_data_address(room) % LINE_BYTES :])  # type: ignore[arg-type]
        finally:
            give(room)

    return kernel
