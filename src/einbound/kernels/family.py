"""The tree of all kernels of one matrix product: what there is to decide, and what cannot be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from einbound.errors import KernelError
from einbound.kernels import cpu_blocktile, cpu_tensorized, gpu_blocktile, gpu_tensorized
from einbound.kernels.decisions import (
    Batch,
    BatchKind,
    Decision,
    Fusion,
    FusionKind,
    Geometry,
    Group,
    IndexOrder,
    Pipeline,
    PipelineKind,
    Roles,
    RolesKind,
)
from einbound.kernels.default_menu import fitted
from einbound.kernels.geometry import Lattice
from einbound.kernels.menu import Menu
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.rules import writes_rows, zeroes_by_rows
from einbound.kernels.site import Site
from einbound.kernels.spec import KernelSpec
from einbound.kernels.verdicts import Node, Verdict, choice, legal
from einbound.kernels.views import n_axes, reordered, swapped
from einbound.machine.limits import HardwareLimits
from einbound.space.lift import lift_where
from einbound.space.tree import Child, Choice
from einbound.space.witness import Witness

Branch = Callable[[Site], Verdict]


def family_tree(
    problem: MatmulProblem, limits: HardwareLimits, menu: Menu | None = None
) -> Choice[Decision, KernelSpec]:
    """The tree of all kernels that the menu proposes for a product on a processor.

    Levels stand in the order in which kernels are tried. Legality is judged before policy: what
    is refuted never comes back, and what is excluded is what it would be without the policy.

    Args:
        problem: The product.
        limits: The processor; whether it is a GPU is read from it.
        menu: What is proposed; None: `Menu.default(limits)`.

    Raises:
        KernelError: An argument is of another type.

    Example:
        >>> from einbound.space.traversal import leaves
        >>> cpu = HardwareLimits(simd_vector_bytes=32)
        >>> len(leaves(family_tree(MatmulProblem(m=64, n=64, k=64), cpu, Menu.REFERENCE)))
        20
    """
    _check("problem", problem, MatmulProblem)
    _check("limits", limits, HardwareLimits)
    if menu is None:
        menu = Menu.default(limits)
    _check("menu", menu, Menu)
    base = KernelSpec(gpu=limits.is_gpu, pipeline=PipelineKind.BLOCKTILE)
    return _roles(Site(problem, limits, menu, base))


def lift_lattice(tree: Node) -> Node:
    """The tree with its lattices of tile sizes no longer excluded; all else is as it was.

    Law: the leaves are the same plus those of the lattices (tests/test_family_legality.py).
    """
    return lift_where(tree, lambda decision: decision == Geometry(Lattice()))


def _check(name: str, given: object, kind: type) -> None:
    if not isinstance(given, kind):
        raise KernelError(f"{name} is {given!r}; expected a {kind.__name__}")


def _roles(site: Site) -> Choice[Decision, KernelSpec]:
    """Which operand is A, where the menu asks; kernels write rows of what they compute."""
    if not site.menu.roles:
        return _orders(site)
    other = replace(site.deciding(swapped=True), problem=swapped(site.problem))
    ways = {RolesKind.AS_GIVEN: site, RolesKind.SWAPPED: other}
    return choice(
        (Roles(kind), legal([_can_write_rows(way)], _below(_orders, way)))
        for kind, way in ways.items()
    )


def _orders(site: Site) -> Choice[Decision, KernelSpec]:
    """The nesting of the axes of each group, where the menu asks and there are several."""
    groups = [group for group in Group if n_axes(site.problem, group) > 1]
    return _nested(groups if site.menu.index_orders else [], site)


def _nested(groups: Sequence[Group], site: Site) -> Choice[Decision, KernelSpec]:
    """The innermost axis of the first group, then of the others: the rest stay as they are."""
    if not groups:
        return _fusions(site)
    group, *rest = groups
    places = range(n_axes(site.problem, group))
    orders = [
        IndexOrder((*(each for each in places if each != last), last), group)
        for last in reversed(places)
    ]
    return choice((order, _order(site, order, rest)) for order in orders)


def _order(site: Site, order: IndexOrder, rest: Sequence[Group]) -> Verdict:
    if not order.is_given:
        decided = {f"{order.group}_order": order.order}
        site = replace(site.deciding(**decided), problem=reordered(site.problem, order))
    rules = [writes_rows(site.problem)] if order.group is Group.N else []
    return legal(rules, _below(partial(_nested, rest), site))


def _fusions(site: Site) -> Choice[Decision, KernelSpec]:
    # Only now is it known how kernels will see the product.
    site = replace(site, menu=fitted(site.menu, site.problem, site.limits))
    fused = site.deciding(epilogue=True)
    tail = legal([_has_tail(site.problem)], _below(_pipelines, fused))
    return choice(
        [
            (Fusion(FusionKind.UNFUSED), _below(_pipelines, site)()),
            (Fusion(FusionKind.FUSED), tail),
        ]
    )


def _pipelines(site: Site) -> Choice[Decision, KernelSpec]:
    """The two pipelines, under what every kernel of either needs."""
    gpu = site.limits.is_gpu
    branches: dict[PipelineKind, Branch] = {
        PipelineKind.BLOCKTILE: gpu_blocktile.blocktile if gpu else cpu_blocktile.blocktile,
        PipelineKind.TENSORIZED: gpu_tensorized.tensorized if gpu else cpu_tensorized.tensorized,
    }
    rules = [zeroes_by_rows(site.problem)]
    return choice(
        (Pipeline(kind), legal(rules, partial(_batches, site.deciding(pipeline=kind), branch)))
        for kind, branch in branches.items()
    )


def _batches(site: Site, branch: Branch) -> Verdict:
    """Where batch loops run, where there are any and the processor has a grid."""
    if not site.limits.is_gpu or site.problem.n_batch < 2:
        return branch(site)
    kinds = {kind: site.deciding(batch_grid=kind is BatchKind.GRID) for kind in BatchKind}
    return Child(lambda: choice((Batch(kind), branch(decided)) for kind, decided in kinds.items()))


def _below(make: Callable[[Site], Node], site: Site) -> Callable[[], Verdict]:
    """The feasible judgment with a subtree that is made when it is asked for."""
    return lambda: Child(partial(make, site))


def _has_tail(problem: MatmulProblem) -> Witness | None:
    if problem.epilogue is not None:
        return None
    return Witness(f"fusion needs a tail: {problem.unfused_because}")


def _can_write_rows(site: Site) -> Witness | None:
    """Some order of the columns' axes must let kernels write rows, if orders are open."""
    groups = site.problem.groups
    axes = groups.n if site.menu.index_orders and groups is not None else ()
    if any(axis.c == 1 and axis.extent > 1 for axis in axes):
        return None
    return writes_rows(site.problem)
