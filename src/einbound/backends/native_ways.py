"""Which steps of a plan run on a compiled kernel, and why; the others run as NumPy would."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from einbound.backends.backend import Backend
from einbound.backends.native import NativeStep, built
from einbound.backends.sizes import Metered
from einbound.errors import BackendError, BuildError, KernelError
from einbound.kernels.cost import Cost, cost
from einbound.kernels.member import Form
from einbound.kernels.pick import Choose, Pick, pick, untuned
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.task import LINE_BYTES, WORDS
from einbound.machine.limits import HardwareLimits
from einbound.plan.price import Limit
from einbound.step.blocked import Core, Way
from einbound.step.form import Form as MatrixForm
from einbound.step.pair import A, B, C, Group, Pair
from einbound.step.view import View
from einbound.step.way import pair_way
from einbound.tune.build import Toolchain

#: Seconds of a prepared call beside its kernel.
CALL_SECONDS = 1.5e-6
#: What the parts of the model's price take beside NumPy's calls on the machine where those were
#: priced (68 products of float32 and float64, Zen 5, GCC 12): the model's processor runs at its
#: highest clock. On the products that these were fitted to, the choice between the two took NumPy's
#: call 12 times where the kernel was faster, and once the kernel where it was not.
COMPUTE_SLOWDOWN, PACKING_SLOWDOWN, SETUP_SLOWDOWN = 1.3, 1.8, 0.5
#: Of the seconds of NumPy's way, a kernel must be predicted to take less than this share to be
#: chosen in its place: of 130 steps of plans within limits, 8 took over 1.1 times as long without a
#: margin and 6 with it, and all together 0.848 and 0.854 of NumPy's time.
WORTH = 0.9
#: The same of compute where the speeds of tiles were measured here.
MEASURED_SLOWDOWN = 1.1
#: The same of what transfers add: small products are read in the order in which they lie, single
#: rows of B are as far apart as they are.
TRANSFER_SLOWDOWN = {Form.SMALL: 0.5, Form.PACKED: 0.7, Form.IN_PLACE: 1.1, Form.BLOCKTILE: 1.0}
#: A step is shared by threads only if each has so many seconds to do: handing work to them takes
#: 60 to 80 microseconds.
SHARED_FROM_SECONDS = 1e-3


@dataclass(frozen=True, slots=True)
class NativeWays:
    """`pair_way` with kernels where there are any.

    Attributes:
        backend: `NATIVE` or `AUTO`.
        toolchain: Where objects come from.
        limits: The processor that kernels are chosen for.
        n_threads: Threads that may share a step.
        room_bytes: Most bytes that a step's kernel may take as workspace.
        choose: Which kernel a product gets.
    """

    backend: Backend
    toolchain: Toolchain
    limits: HardwareLimits = field(repr=False)
    n_threads: int = 1
    room_bytes: int = 1 << 22
    choose: Choose = untuned

    def __call__(
        self, a: View, b: View, c: View, work: np.dtype, *, accumulate: bool, buffer_bytes: int
    ) -> Way:
        """NumPy's way, or a kernel in its place; arguments are those of `pair_way`."""
        plain = pair_way(a, b, c, work, accumulate=accumulate, buffer_bytes=buffer_bytes)
        return _chosen(self, plain)

    def picked(self, pair: Pair) -> Pick | str:
        """The kernel of a step, or why it has none."""
        if any(not pair.is_ready(side) for side in (A, B, C)):
            formats = ", ".join(str(view.dtype) for view in pair.views if view is not None)
            return f"arrays of {formats} are not all aligned and of {pair.work}"
        try:
            problem = MatmulProblem.from_step(pair).canonical
        except KernelError as error:
            return str(error)
        # Threads are ours to start, so that a kernel is chosen for one core.
        return pick(problem, replace(self.limits, n_cores=1), self.choose)


def ways_by_step(ways: NativeWays, metered: Metered, allowed: Limit) -> dict[int, NativeWays]:
    """What chooses for each step of a plan, each with the room that NumPy's ways leave it.

    Args:
        ways: What chooses where there is any room.
        metered: What a run takes with NumPy's ways.
        allowed: Bytes that may be alive beside the operands.

    Law: with these ways a run takes no more than is allowed, if it did not before
    (tests/test_native_plans.py).
    """
    found = {}
    for step, count in metered.steps.items():
        beside_workspace, beside_space = count.beside_bytes
        rooms = [ways.room_bytes]
        if allowed.workspace_bytes is not None:
            rooms.append(allowed.workspace_bytes - beside_workspace)
        if allowed.peak_bytes is not None:
            rooms.append(allowed.peak_bytes - beside_space)
        found[step] = replace(ways, room_bytes=max(min(rooms), 0))
    return found


@lru_cache(maxsize=4096)
def _chosen(ways: NativeWays, plain: Way) -> Way:
    picked = ways.picked(plain.pair)
    if isinstance(picked, str):
        return replace(plain, why=picked)
    way = _native(ways, plain, picked)
    if isinstance(way, str):
        return replace(plain, why=way)
    if ways.backend is Backend.AUTO and way.seconds >= WORTH * plain.seconds:
        told = f"{plain.core.value} is predicted to take {_seconds(plain.seconds)}"
        return replace(plain, why=f"{told}, {picked} {_seconds(way.seconds)}")
    try:
        built(ways.toolchain, picked.member)
    except (BuildError, BackendError) as error:
        if ways.backend is Backend.NATIVE:
            raise
        return replace(plain, why=str(error))
    return way


def _native(ways: NativeWays, plain: Way, picked: Pick) -> Way | str:
    """The way of a kernel, or why it cannot be taken."""
    seconds = _kernel_seconds(ways, picked, picked.cost, plain)
    n_workers = max(1, min(ways.n_threads, int(seconds / SHARED_FROM_SECONDS)))
    each = max((ways.room_bytes - LINE_BYTES) // n_workers // LINE_BYTES * LINE_BYTES, 0)
    step = NativeStep(picked, ways.toolchain, plain.accumulate, each, n_workers)
    try:
        task = step.task(plain.accumulate)
    except KernelError as error:
        return str(error)
    if task.n_chunks < n_workers:
        step = replace(step, n_workers=max(task.n_chunks, 1))
    if step.is_cut(task):
        sizes = dict(zip(WORDS, task.words, strict=False))
        cut = replace(picked.spec, bm=sizes["BM"], bn=sizes["BN"], bk=sizes["BK"])
        found = cost(cut, picked.problem, replace(ways.limits, n_cores=1))
        seconds = max(seconds, _kernel_seconds(ways, picked, found, plain))
    pair = plain.pair
    groups = (pair.groups[each] for each in (Group.BATCH, Group.ROW, Group.COLUMN, Group.SUM))
    return Way(
        pair,
        Core.NATIVE,
        MatrixForm(*groups),
        accumulate=plain.accumulate,
        workspace_bytes=step.workspace_bytes(task),
        seconds=seconds,
        native=step,
        why=f"predicted {_seconds(seconds)}; {plain.core.value} {_seconds(plain.seconds)}",
    )


def _kernel_seconds(ways: NativeWays, picked: Pick, found: Cost | None, plain: Way) -> float:
    """Seconds of a call of a kernel in one thread; without a price, those of NumPy's way."""
    if found is None:
        return plain.seconds
    compute = MEASURED_SLOWDOWN if ways.limits.tile_speeds else COMPUTE_SLOWDOWN
    known = found.compute_seconds + found.packing_seconds + found.overhead_seconds
    return (
        CALL_SECONDS
        + compute * found.compute_seconds
        + PACKING_SLOWDOWN * found.packing_seconds
        + SETUP_SLOWDOWN * found.overhead_seconds
        + TRANSFER_SLOWDOWN[picked.member.form] * (found.seconds - known)
    )


def _seconds(seconds: float) -> str:
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds * 1e6:.3g} us"
