"""Plan records: legality, paths, levels."""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from einbound.errors import PlanError
from einbound.expr.network import Network
from einbound.plan.tree import Combine, Cut, Role, Tree, steps_from_path, trips
from trees import random_network, random_tree

SEEDS = st.integers(0, 10**6)


def chain() -> Network:
    """ij,jk,kl->il with extents 4, 5, 6, 7."""
    return Network(tuple("ijkl"), (4, 5, 6, 7), ((0, 1), (1, 2), (2, 3)), (0, 3), ())


def tree(opens: dict[int, tuple[Cut, ...]], levels: tuple[int, int] = (0, 0)) -> Tree:
    return Tree(chain(), ((0, 1), (3, 2)), (opens.get(0, ()), opens.get(1, ())), levels)


def some_tree(seed: int, n_operands: int = 5) -> Tree:
    rng = random.Random(seed)
    return random_tree(rng, random_network(rng, rng.randint(2, n_operands), 5))


@given(SEEDS)
def test_a_path_round_trips(seed: int) -> None:
    made = some_tree(seed, 7)
    again = Tree.from_path(made.network, made.path)
    assert again.path == made.path
    assert {frozenset(below) for below in again.below} == {frozenset(b) for b in made.below}


@given(SEEDS)
def test_default_levels_are_legal_and_idempotent(seed: int) -> None:
    made = some_tree(seed)
    indices = [cut.index for opens in made.opens for cut in opens]
    assume(len(indices) == len(set(indices)))
    default = made.with_default_levels()
    assert default.check().with_default_levels() == default


@given(SEEDS)
def test_a_default_level_leaves_only_loops_that_do_not_concern_the_value(seed: int) -> None:
    made = some_tree(seed).with_default_levels()
    for value in range(made.n_operands, made.root):
        enclosing = made.inside[made.parents[value]]
        level = made.level(value)
        assert all(cut.index not in made.below[value] for cut in enclosing[level:])
        assert level == 0 or enclosing[level - 1].index in made.below[value]


@given(SEEDS)
def test_carried_indices_are_those_read_above_or_kept(seed: int) -> None:
    made = some_tree(seed)
    network = made.network
    operands: list[set[int]] = [{k} for k in range(made.n_operands)]
    for left, right in made.steps:
        operands.append(operands[left] | operands[right])
    for value, inside in enumerate(operands):
        within = {i for k in inside for i in network.inputs[k]}
        outside = {i for k in range(made.n_operands) if k not in inside for i in network.inputs[k]}
        assert set(made.carried[value]) == within & (outside | set(network.output))


@given(SEEDS)
def test_loops_describe_every_cut(seed: int) -> None:
    made = some_tree(seed)
    assert len(made.loops) == sum(len(opens) for opens in made.opens)
    for loop in made.loops:
        index = made.network.labels.index(loop.index)
        assert loop.n_batches == trips(Cut(index, loop.batch_size), made.network)
        assert (loop.role is Role.EXTERNAL) == (index in made.network.output)
        carried = index in made.carried[made.n_operands + loop.node]
        assert (loop.combine is Combine.SCATTER) == carried


def test_kinds_of_loops() -> None:
    made = tree({})
    assert made.kind(1, 0) == (Role.EXTERNAL, Combine.SCATTER)
    assert made.kind(1, 1) == (Role.CONTRACTED, Combine.ACCUMULATE)
    assert made.kind(0, 2) == (Role.CONTRACTED, Combine.SCATTER)


def test_the_same_index_cut_twice_along_a_nest_is_refused() -> None:
    with pytest.raises(PlanError, match=r"step 0 opens a loop over 'j' inside another loop"):
        tree({0: (Cut(1, 2),), 1: (Cut(1, 2),)}, (1, 0)).check()


def test_a_loop_over_an_index_from_elsewhere_is_refused() -> None:
    with pytest.raises(PlanError, match=r"over 'l', which no operand below it carries.*i, j, k"):
        tree({0: (Cut(3, 2),)}).check()


@pytest.mark.parametrize("width", [0, 6])
def test_a_width_outside_the_extent_is_refused(width: int) -> None:
    with pytest.raises(PlanError, match=rf"batch_size {width}; expected 1 to 5, the extent of 'j'"):
        tree({1: (Cut(1, width),)}, (1, 0)).check()


def test_a_level_outside_the_loop_that_is_summed_is_refused() -> None:
    with pytest.raises(PlanError, match=r"level 0, outside the loop over 'j', but sums 'j'"):
        tree({1: (Cut(1, 2),)}, (0, 0)).check()


def test_a_level_beyond_the_loops_is_refused() -> None:
    with pytest.raises(PlanError, match=r"level 2; its reader, step 1, runs inside 1 loops"):
        tree({1: (Cut(0, 2),)}, (2, 0)).check()


def test_a_level_of_the_result_is_refused() -> None:
    with pytest.raises(PlanError, match=r"step 1 makes the result and is given level 1"):
        tree({}, (0, 1)).check()


def test_a_full_hoist_is_legal() -> None:
    made = tree({1: (Cut(0, 2),)}, (0, 0))
    assert made.check().inside[3] == ()


def test_a_path_that_leaves_values_is_refused() -> None:
    with pytest.raises(PlanError, match=r"the path leaves 2 values uncontracted"):
        steps_from_path([(0, 1)], 3)


@pytest.mark.parametrize("entry", [(0, 3), (1, 1), (-1, 0), ()])
def test_a_path_entry_that_does_not_fit_is_refused(entry: tuple[int, ...]) -> None:
    with pytest.raises(PlanError, match=r"does not fit the 3 values left"):
        steps_from_path([entry], 3)


def test_a_path_of_one_entry_is_taken_pair_by_pair() -> None:
    assert steps_from_path([(0, 1, 2)], 3) == ((0, 1), (3, 2))
