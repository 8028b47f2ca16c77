"""Records that hold records, to any depth: compared, written down flat and built again.

Python's own ways recurse, and fail at some thousand levels.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias


class Parts(NamedTuple):
    """What a node is made of: `build(*data, *nodes)` makes it again.

    Attributes:
        build: Its class, or a function at the top of a module.
        data: What it holds besides nodes.
        nodes: The nodes that it was given, themselves and no copies.
    """

    build: Callable[..., Node]
    data: tuple[Any, ...]
    nodes: tuple[Node, ...] = ()


class Node:
    """A record that may hold other nodes; equal to what is made of equal parts."""

    __slots__ = ()

    @abstractmethod
    def parts(self) -> Parts:
        """What it is made of."""

    def __eq__(self, other: object) -> bool:
        return same(self, other) if isinstance(other, Node) else NotImplemented

    def __hash__(self) -> int:
        build, data, nodes = self.parts()
        # No deeper than one level down: equal nodes agree there, and that is what a hash needs.
        return hash((build, data, tuple(node.parts()[:2] for node in nodes)))

    def __reduce__(self) -> tuple[Callable[[Sequence[Row]], Node], tuple[tuple[Row, ...]]]:
        return built, (flat(self),)


#: One node written down: how it is built, its data, and the rows before it that tell its nodes.
Row: TypeAlias = tuple[Callable[..., Node], tuple[Any, ...], tuple[int, ...]]


def same(first: Node, second: Node) -> bool:
    """Whether two nodes are made of equal parts throughout."""
    pairs = [(first, second)]
    seen: set[tuple[int, int]] = set()
    while pairs:
        a, b = pairs.pop()
        # What is held in many places is looked at once.
        if a is b or (id(a), id(b)) in seen:
            continue
        seen.add((id(a), id(b)))
        (*data_a, nodes_a), (*data_b, nodes_b) = a.parts(), b.parts()
        if data_a != data_b or len(nodes_a) != len(nodes_b):
            return False
        pairs += zip(nodes_a, nodes_b, strict=True)
    return True


def flat(root: Node) -> tuple[Row, ...]:
    """A node and all that it holds, each written down once, after what it holds itself."""
    rows: list[Row] = []
    places: dict[int, int] = {}
    todo: list[tuple[Node, bool]] = [(root, False)]
    while todo:
        node, is_ready = todo.pop()
        if id(node) in places:
            continue
        build, data, nodes = node.parts()
        if is_ready:
            places[id(node)] = len(rows)
            rows.append((build, data, tuple(places[id(each)] for each in nodes)))
        else:
            todo.append((node, True))
            todo += [(each, False) for each in nodes]
    return tuple(rows)


def built(rows: Sequence[Row]) -> Node:
    """The node that `flat` wrote down."""
    nodes: list[Node] = []
    for build, data, held in rows:
        nodes.append(build(*data, *(nodes[place] for place in held)))
    return nodes[-1]
