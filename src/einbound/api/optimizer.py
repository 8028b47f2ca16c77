"""`Optimizer`: orders for opt_einsum, cotengra and quimb that keep a byte limit there."""

from __future__ import annotations

import sys
from collections.abc import Collection, Hashable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from einbound.api.limits import Limits
from einbound.api.peer import cotengra
from einbound.errors import BudgetError, PlanError
from einbound.expr.network import Network
from einbound.plan.effort import Effort
from einbound.plan.foreign import Candidate, Hunt, Room
from einbound.plan.held import Held
from einbound.plan.masks import bits, carried_masks
from einbound.plan.tree import Tree

Labels = Collection[Hashable]
Path = list[tuple[int, ...]]

#: What opt_einsum passes where its own limit, in elements of one intermediate, is not set.
_NO_ELEMENT_LIMIT = (None, -1, float("inf"))
_DEFAULT_EFFORT = Effort()


class Optimizer:
    """An `optimize=` for opt_einsum, cotengra and quimb.

    A path says nothing of loops, so it cannot keep a limit that needs them. Called, an optimizer
    returns the path of the fewest multiply-adds whose products fit one after another, or
    refuses; `search` may cut indices around the whole contraction, which cotengra can run.

    What is counted is what these libraries hold with NumPy arrays: all operands, products until
    their reader is done, the result, and for a product that sums packed copies of both parts
    unless they are matrices as they are. Operands are counted by their labels, once each label.

    Args:
        memory_limit: Bound of everything alive at once, operands and result included: bytes,
            "512MiB", "1.5GB", or "80%" of what is available now.
        workspace_limit: Bound of what is neither operand nor result.
        dtype: Element type of all operands.
        effort: How hard orders are looked for; of it `states`, `trials` and `seed` count here.

    Law: what is measured never passes the limit (tests/test_optimizer.py).

    Example:
        >>> planner = Optimizer("20 kB")
        >>> sizes = {"a": 10, "b": 20, "c": 20, "d": 5}
        >>> planner([{"a", "b"}, {"b", "c"}, {"c", "d"}], {"a", "d"}, sizes)
        [(1, 2), (0, 1)]
    """

    __slots__ = ("dtype", "effort", "limits")

    def __init__(
        self,
        memory_limit: int | str | None = None,
        workspace_limit: int | str | None = None,
        dtype: DTypeLike = "float64",
        *,
        effort: Effort = _DEFAULT_EFFORT,
    ) -> None:
        self.limits = Limits.parse(memory_limit, workspace_limit)
        self.dtype = np.dtype(dtype)
        self.effort = effort
        if not isinstance(effort, Effort):
            raise TypeError(
                f"effort is {effort!r} of type {type(effort).__name__}; expected an "
                "einbound.Effort, such as Effort(trials=2)"
            )
        if self.dtype.hasobject:
            raise PlanError(
                f"Optimizer was given dtype {self.dtype}, whose elements take memory that no shape "
                "tells; expected a numeric dtype"
            )

    @property  # type: ignore[misc]  # isinstance only reads it
    def __class__(self) -> type:
        """This class; once opt_einsum is there, one that it takes for a path optimizer too.

        opt_einsum asks isinstance, which reads this, and takes anything else for a path.
        """
        module = sys.modules.get("opt_einsum.paths")
        return Optimizer if module is None else _registered(module.PathOptimizer)

    def __repr__(self) -> str:
        memory, workspace = self.limits.memory_bytes, self.limits.workspace_bytes
        return f"Optimizer({memory}, {workspace}, {self.dtype.name!r}, effort={self.effort})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.limits, self.dtype, self.effort)

    def __call__(
        self,
        inputs: Sequence[Labels],
        output: Labels,
        size_dict: Mapping[Any, int],
        memory_limit: int | float | None = None,
    ) -> Path:
        """The path of the fewest multiply-adds that fits without loops.

        Args:
            inputs: The labels of each operand.
            output: The labels of the result.
            size_dict: The size of each label.
            memory_limit: opt_einsum's own limit, which is not supported.

        Raises:
            BudgetError: No path fits.
            PlanError: `memory_limit` is set.
        """
        if memory_limit not in _NO_ELEMENT_LIMIT:
            raise PlanError(
                f"memory_limit={memory_limit!r} was given beside an Optimizer; it counts elements "
                "of one intermediate; give einbound.Optimizer(memory_limit=...) in bytes instead"
            )
        network = network_of(inputs, output, size_dict)
        if len(network.inputs) == 1:
            return [(0,)]
        found = _found(network, self.dtype.itemsize, self._room, self.effort, "path")
        return list(Tree.plain(network, self._checked(network, found, "path").steps).path)

    def search(self, inputs: Sequence[Labels], output: Labels, size_dict: Mapping[Any, int]) -> Any:
        """A cotengra tree, cut into slices if only that fits.

        Args:
            inputs: The labels of each operand.
            output: The labels of the result.
            size_dict: The size of each label.

        Returns:
            A `cotengra.ContractionTree`.

        Raises:
            BackendError: cotengra is not installed.
            BudgetError: No such tree fits.
        """
        network = network_of(inputs, output, size_dict)
        package = cotengra("Optimizer.search makes cotengra trees")
        tree = package.ContractionTree(inputs, output, size_dict)
        nodes = list(tree.gen_leaves())
        if len(nodes) == 1:
            return tree
        found = _found(network, self.dtype.itemsize, self._room, self.effort, "tree")
        for left, right in self._checked(network, found, "tree").steps:
            product = tree.contract_nodes_pair(nodes[left], nodes[right])
            # What runs first is not what cotengra would put first.
            tree.children[product] = (nodes[left], nodes[right])
            nodes.append(product)
        for i in bits(found.cut):
            tree.remove_ind_(network.labels[i])
        return tree

    @property
    def _room(self) -> Room:
        return Room(self.limits.memory_bytes, self.limits.workspace_bytes)

    def _checked(self, network: Network, found: Candidate, kind: str) -> Candidate:
        """The candidate, if it keeps the limits."""
        if found.over_bytes:
            raise _refusal(self.limits, Held(network, self.dtype.itemsize, found.cut), found, kind)
        return found


@cache
def _registered(path_optimizer: type) -> type:
    """A class that is an `Optimizer` and what opt_einsum asks for."""
    return type("Optimizer", (Optimizer, path_optimizer), {"__module__": __name__})


def _again(limits: Limits, dtype: np.dtype[Any], effort: Effort) -> Optimizer:
    """An optimizer from its parts, as pickles hold it."""
    return Optimizer(limits.memory_bytes, limits.workspace_bytes, dtype, effort=effort)


def network_of(inputs: Sequence[Labels], output: Labels, sizes: Mapping[Any, int]) -> Network:
    """The network, its indices numbered as `sizes` lists them: sets have no order of their own."""
    used = {label for term in inputs for label in term}
    labels = tuple(label for label in sizes if label in used)
    number = {label: i for i, label in enumerate(labels)}
    if not inputs or used - set(labels) or not used.issuperset(output):
        raise PlanError(
            f"an Optimizer was given inputs {list(inputs)!r}, output {output!r} and sizes "
            f"{dict(sizes)!r}; expected one or more inputs and the size of each of their labels, "
            "and no other label in the output"
        )
    return Network(
        labels,
        tuple(int(sizes[label]) for label in labels),
        tuple(tuple(sorted({number[label] for label in term})) for term in inputs),
        tuple(sorted({number[label] for label in output})),
        (),
    )


@lru_cache(maxsize=128)
def _found(
    network: Network, itemsize: int, room: Room, effort: Effort, kind: Literal["path", "tree"]
) -> Candidate:
    """The best candidate; equal questions share it."""
    hunt = Hunt(network, itemsize, room, effort)
    return hunt.unsliced() if kind == "path" else hunt.sliced()


def _refusal(limits: Limits, held: Held, found: Candidate, kind: str) -> BudgetError:
    """The error that says that nothing fits here, and where it would."""
    memory, reading = limits.memory_bytes, found.reading
    if memory is not None and reading.peak_bytes > memory:
        name, limit, needed = "memory_limit", memory, reading.peak_bytes
        bound = held.operand_bytes + held.result_bytes
    else:
        assert limits.workspace_bytes is not None, "a limit that is not set cannot be broken"
        name, limit, needed, bound = (
            "workspace_limit", limits.workspace_bytes, reading.workspace_bytes, 0,
        )  # fmt: skip
    culprit, culprit_bytes = _largest(held, found)
    kept = "a path has no loops" if kind == "path" else "a tree has loops around all of it only"
    advice = f"einbound.einsum(..., {name}={limit}) opens the loops that keep the limit"
    if bound > limit:
        advice = f"nothing keeps the limit: operands and result take {bound}"
    return BudgetError(
        f"{name}={limit} bytes is too small for a {kind} of another library; the smallest found "
        f"holds {needed} bytes there, {culprit_bytes} of them for {culprit} (operands "
        f"{held.operand_bytes}, result {held.result_bytes}); {kept}; "
        f"{advice}",
        limit_bytes=limit,
        smallest_bytes=needed,
        lower_bound_bytes=bound,
        culprit=culprit,
        culprit_bytes=culprit_bytes,
    )


def _largest(held: Held, found: Candidate) -> tuple[str, int]:
    """What takes most at the peak: the operands together, or a part or the value of a product."""
    n, step = len(held.terms.masks), found.reading.step
    carried = carried_masks(held.terms, found.steps)
    values = [value for value in (*found.steps[step], n + step) if value >= n]
    sizes = {value: held.itemsize * held.terms.sizes[carried[value]] for value in values}
    value = max(values, key=lambda value: (sizes[value], value))
    if held.operand_bytes >= sizes[value]:
        return "the operands", held.operand_bytes
    name = held.network.name(bits(carried[value]))
    whole = "the result" if value == n + len(found.steps) - 1 else f"intermediate '{name}'"
    return whole, sizes[value]
