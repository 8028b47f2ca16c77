"""Orders that cotengra finds, where it is installed; nothing else imports it."""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec
from typing import Any

from einbound.errors import BackendError, PlanError
from einbound.expr.network import Network
from einbound.plan.effort import Effort
from einbound.plan.masks import Steps

#: Trials where the caller names no number, and orders of these on which loops are searched:
#: planning takes about twice as long then (docs/decisions/0012).
N_TRIALS, N_ORDERS = 8, 3


def cotengra(purpose: str) -> Any:
    """The package.

    Args:
        purpose: What it is needed for, as the error says it.

    Raises:
        BackendError: It is not installed.
    """
    try:
        import cotengra  # type: ignore[import-untyped]
    except ImportError:
        raise BackendError(
            f"{purpose} and cotengra is not installed; install it with "
            "pip install einbound[interop]"
        ) from None
    return cotengra


def cotengra_orders(network: Network, effort: Effort) -> tuple[Steps, ...]:
    """The best orders that cotengra finds; none where none are asked for.

    Trials are greedy orders and partitions in turn, each repaired by cotengra's own means. They
    run one after another in this process, every random choice is seeded, and no clock ends any, so
    that one installation always gives the same orders.

    Args:
        network: The contraction, of two or more operands.
        effort: How many trials, with which seed.

    Raises:
        BackendError: A number of trials is asked for, and cotengra is not installed.
        PlanError: A number of trials is asked for, and cotengra failed.
    """
    n_trials, is_asked = effort.cotengra_trials, effort.cotengra_trials is not None
    if n_trials is None:
        n_trials = 0 if find_spec("cotengra") is None else N_TRIALS
    if not n_trials or not _has_choice(network):
        return ()
    package = cotengra(f"Effort(cotengra_trials={n_trials}) asks for cotengra's orders")
    seeds = range(effort.seed * n_trials, (effort.seed + 1) * n_trials)
    try:
        return _found(package, network, seeds)
    except Exception as error:
        # Nobody asked for it by name, and there are orders without it.
        if not is_asked:
            return ()
        raise PlanError(
            f"cotengra was asked for {n_trials} orders and raised {type(error).__name__}: {error}; "
            "expected trees; give Effort(cotengra_trials=0) to do without"
        ) from error


def _has_choice(network: Network) -> bool:
    """Whether operands share an index and none is empty; else every order is as good."""
    shared = Counter(i for term in network.inputs for i in {*term})
    return all(network.extents) and max(shared.values(), default=0) > 1


def _found(package: Any, network: Network, seeds: range) -> tuple[Steps, ...]:
    terms = [tuple(dict.fromkeys(term)) for term in network.inputs]
    asked = terms, network.output, dict(enumerate(network.extents))
    trees = []
    for number, seed in enumerate(seeds):
        finder = _partition if number % 2 else _greedy
        trees.append(finder(package, seed).search(*asked))
        trees[-1].subtree_reconfigure_(minimize="flops")
    trees.sort(key=lambda tree: tree.contraction_cost())
    return tuple(dict.fromkeys(map(_steps, trees)))[:N_ORDERS]


def _greedy(package: Any, seed: int) -> Any:
    return package.RandomGreedyOptimizer(max_repeats=8, seed=seed, accel=False, parallel=False)


def _partition(package: Any, seed: int) -> Any:
    # The partitions have a seed of their own, beside that of their parameters, and so would the
    # random orders between parts, which are greedy instead.
    fixed = {"labels": {"seed": seed, "super_optimize": "greedy"}}
    return package.HyperOptimizer(
        methods=["labels"], max_repeats=1, minimize="flops", seed=seed, parallel=False,
        optlib="random", constants=fixed, on_trial_error="raise",
    )  # fmt: skip


def _steps(tree: Any) -> Steps:
    return tuple((int(left), int(right)) for left, right in tree.get_ssa_path())
