"""Tiles: trips of whole tiles, from what a caller writes to what runs."""

from __future__ import annotations

import json
import pickle
import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einbound as eb
from einbound.api.tiles import parsed_tiles
from einbound.backends.numpy_ops import NumpyOps
from einbound.errors import ScheduleError
from einbound.expr.expression import parse
from einbound.expr.network import Network
from einbound.plan.grid import Grid, Mode, cut_of
from einbound.plan.model import Count
from einbound.plan.tree import Cut, Tree, trips
from einbound.run.allocator import Allocator
from einbound.run.executable import Executable, Job, compile_tree
from einbound.run.walk import walk
from einbound.schedule.instructions import Loop
from einbound.schedule.listing import listing
from einbound.schedule.validate import validate
from einbound.step.view import View
from interpreter import Interpreter
from trees import random_arrays, random_network, random_tree, reference, uneven_cut, views_of

CHAIN = "ab,bc,cd->ad"
SHAPES = ((8, 10), (10, 9), (9, 7))
PATH = [(0, 1), (0, 1)]

#: Boundaries of tiles, from 0.
edges = st.lists(st.integers(1, 3) | st.integers(1, 9), min_size=1, max_size=12).map(
    lambda widths: (0, *np.cumsum(widths).tolist())
)
targets = st.integers(-2, 8) | st.integers(1, 60)


def network_of(text: str, *shapes: tuple[int, ...]) -> Network:
    return parse(text, len(shapes)).bind(shapes)


def spans(cut: Cut, extent: int) -> list[tuple[int, int]]:
    """The trips of a loop, from its definition."""
    starts = cut.edges[:-1] or range(0, max(extent, 1), cut.width)
    return [*pairwise((*starts, extent))]


def build(*loops: eb.Loop, **options: Any) -> eb.Plan:
    return eb.Plan.build(CHAIN, *SHAPES, path=PATH, loops=loops, **options)


class TestTileRule:
    @given(edges, targets)
    @settings(max_examples=400)
    def test_trips_are_whole_tiles_within_the_target_and_as_long_as_they_can_be(
        self, tiles: tuple[int, ...], target: int
    ) -> None:
        cut = cut_of(3, tiles[-1], tiles, target)
        found = spans(cut, tiles[-1])
        assert cut.index == 3
        assert cut.width == max(stop - start for start, stop in found)
        assert found[0][0] == 0
        assert found[-1][1] == tiles[-1]
        for start, stop in found:
            assert {start, stop} <= set(tiles)
            is_one_tile = tiles.index(stop) == tiles.index(start) + 1
            assert stop - start <= max(target, 1) or is_one_tile
        for (start, stop), _ in pairwise(found):
            following = tiles[tiles.index(stop) + 1]
            assert following - start > target

    @given(edges, st.integers(1, 60))
    def test_a_lone_trip_is_never_wider_than_target_and_widest_tile(
        self, tiles: tuple[int, ...], target: int
    ) -> None:
        widest = max(stop - start for start, stop in pairwise(tiles))
        assert cut_of(0, tiles[-1], tiles, target).width <= max(target, widest)

    @pytest.mark.parametrize(
        ("tiles", "target", "found"),
        [
            ((0, 3, 6, 9), 100, [(0, 9)]),
            ((0, 3, 6, 9), 6, [(0, 6), (6, 9)]),
            ((0, 3, 6, 9), 5, [(0, 3), (3, 6), (6, 9)]),
            ((0, 3, 6, 9), 4, [(0, 3), (3, 6), (6, 9)]),
            ((0, 3, 6, 9), 3, [(0, 3), (3, 6), (6, 9)]),
            ((0, 3, 6, 9), 1, [(0, 3), (3, 6), (6, 9)]),
            ((0, 4, 8, 12), 100, [(0, 12)]),
            ((0, 4, 8, 12), 8, [(0, 8), (8, 12)]),
            ((0, 4, 8, 12), 4, [(0, 4), (4, 8), (8, 12)]),
            ((0, 4, 8, 12), 1, [(0, 4), (4, 8), (8, 12)]),
            ((), 5, [(0, 5), (5, 10), (10, 15), (15, 20)]),
            ((0, 236, 472, 708), 243, [(0, 236), (236, 472), (472, 708)]),
        ],
    )
    def test_the_published_cases_hold(
        self, tiles: tuple[int, ...], target: int, found: list[tuple[int, int]]
    ) -> None:
        extent = found[-1][1]
        assert spans(cut_of(0, extent, tiles, target), extent) == found

    @pytest.mark.parametrize(
        ("tiles", "cut"),
        [
            ((0, 4, 8, 11), Cut(0, 4)),
            ((0, 4, 8, 13), Cut(0, 5, (0, 4, 8, 13))),
            ((0, 1, 5, 9), Cut(0, 4, (0, 1, 5, 9))),
            ((0, 9), Cut(0, 9)),
        ],
    )
    def test_trips_at_multiples_of_their_width_need_no_boundaries(
        self, tiles: tuple[int, ...], cut: Cut
    ) -> None:
        assert cut_of(0, tiles[-1], tiles, 4) == cut == Cut.between(0, tiles)


class TestGrid:
    @given(edges, st.integers(1, 15), st.booleans())
    def test_a_number_of_trips_gives_the_smallest_target_that_needs_no_more(
        self, tiles: tuple[int, ...], n_trips: int, tiled: bool
    ) -> None:
        extent, tiles = tiles[-1], tiles if tiled else ()
        cuts = [cut_of(0, extent, tiles, target) for target in range(1, extent + 1)]
        first = next(cut for cut in cuts if len(spans(cut, extent)) <= n_trips)
        assert Grid((Mode(extent, tiles),)).cut(0, n_trips) == first

    def test_the_finest_loop_has_one_tile_per_trip(self) -> None:
        grid = Grid((Mode(9, (0, 2, 3, 9)), Mode(9), Mode(0), Mode(9, (0, 2, 3, 9), target=4)))
        finest = [grid.finest(index) for index in range(4)]
        assert finest == [
            Cut(0, 6, (0, 2, 3, 9)),
            Cut(1, 1),
            Cut(2, 1),
            Cut(3, 6, (0, 3, 9)),
        ]

    def test_options_are_the_admitted_loops_without_repetition(self) -> None:
        tiles = (0, 2, 3, 9)
        modes = (
            Mode(9, tiles),
            Mode(8, admitted=False),
            Mode(8),
            Mode(5, (0, 5)),
            Mode(6, (), True, 4),
        )
        grid = Grid(modes)
        assert grid.options((1, 2, 3, 100)) == (
            Cut(0, 6, (0, 3, 9)),
            Cut(0, 6, tiles),
            Cut(2, 4),
            Cut(2, 3),
            Cut(2, 1),
            Cut(4, 4),
        )
        assert (grid.admitted, grid.is_fixed) == (0b11101, False)

    def test_a_grid_is_fixed_when_every_admitted_index_is(self) -> None:
        assert Grid((Mode(4, admitted=False), Mode(4, target=2))).is_fixed
        assert not Grid((Mode(4), Mode(4, target=2))).is_fixed

    def test_tiles_of_a_network_become_the_modes_of_a_grid(self) -> None:
        network = network_of("ab,b->a", (4, 5), (5,))
        grid = Grid.with_tiles(network, ((), (0, 2, 5)))
        assert grid.modes == (Mode(4), Mode(5, (0, 2, 5)))
        assert Grid.with_tiles(network, ((), ())) == Grid.free(network)
        assert grid.within(1, 3) == Cut(1, 3, (0, 2, 5))


class TestWritten:
    NETWORK = network_of("ab,bc->ac", (9, 12), (12, 0))

    @pytest.mark.parametrize(
        ("tiles", "found"),
        [
            (None, ((), (), ())),
            ({}, ((), (), ())),
            ({"b": 4}, ((), (0, 4, 8, 12), ())),
            ({"b": 5}, ((), (0, 5, 10, 12), ())),
            ({"b": 100}, ((), (0, 12), ())),
            ({"b": 1}, ((), (), ())),
            ({"a": (5, 8, 11, 14)}, ((0, 3, 6, 9), (), ())),
            ({"a": [0, 9], "b": range(-3, 10, 3)}, ((0, 9), (0, 3, 6, 9, 12), ())),
            ({"a": np.int64(4)}, ((0, 4, 8, 9), (), ())),
            ({"a": np.array(4)}, ((0, 4, 8, 9), (), ())),
            ({"a": np.array([1, 3, 10], "u1")}, ((0, 2, 9), (), ())),
            ({"a": range(10)}, ((), (), ())),
            ({"c": 3}, ((), (), ())),
            ({"c": (7,)}, ((), (), ())),
        ],
    )
    def test_widths_and_boundaries_become_boundaries_from_zero(
        self, tiles: Any, found: tuple[tuple[int, ...], ...]
    ) -> None:
        parsed = parsed_tiles(tiles, self.NETWORK)
        assert parsed == found
        assert {type(edge) for each in parsed for edge in each} <= {int}

    @pytest.mark.parametrize(
        ("tiles", "error", "text"),
        [
            ({"z": 3}, eb.PlanError, "tiles are given for 'z', which the expression does not have"),
            ({"a": 0}, eb.PlanError, "the tiles of 'a' have width 0; expected a width of at least"),
            ({"a": -3}, eb.PlanError, "the tiles of 'a' have width -3"),
            ({"a": (0, 6, 3, 9)}, eb.PlanError, "'a' have boundary 3 after 6; .* rise strictly"),
            ({"a": (0, 3, 3, 9)}, eb.PlanError, "'a' have boundary 3 after 3"),
            (
                {"a": (5, 8, 11)},
                eb.PlanError,
                "'a' cover 6 elements, from 5 to 11; 'a' has extent 9",
            ),
            ({"a": (3,)}, eb.PlanError, "'a' cover 0 elements, from 3 to 3; 'a' has extent 9"),
            ({"a": ()}, eb.PlanError, "'a' have no boundaries; expected where each starts"),
            (
                {"a": True},
                TypeError,
                "the width of the tiles of 'a' is True of type bool; expected",
            ),
            ({"a": np.True_}, TypeError, "'a' is np.True_ of type bool; expected an integer"),
            ({"a": 3.0}, TypeError, "the width of the tiles of 'a' is 3.0 of type float; expected"),
            ({"a": "3"}, TypeError, "the width of the tiles of 'a' is '3' of type str; expected"),
            ({"a": None}, TypeError, "the width of the tiles of 'a' is None of type NoneType"),
            ({"a": {0, 9}}, TypeError, "the width of the tiles of 'a' is {0, 9} of type set"),
            ({"a": (0, 4.5, 9)}, TypeError, "a boundary of the tiles of 'a' is 4.5 of type float"),
            ({"a": (False, 9)}, TypeError, "a boundary of the tiles of 'a' is False of type bool"),
            ({"a": np.eye(3)}, TypeError, "a boundary of the tiles of 'a' is array"),
            ([("a", 3)], TypeError, "tiles is .* of type list; expected a mapping of labels"),
        ],
    )
    def test_what_is_no_tiling_is_refused(
        self, tiles: Any, error: type[Exception], text: str
    ) -> None:
        with pytest.raises(error, match=text):
            parsed_tiles(tiles, self.NETWORK)

    def test_dimensions_of_an_ellipsis_are_tiled_as_they_are_printed(self) -> None:
        network = network_of("...a,a->...", (4, 6, 5), (5,))
        found = parsed_tiles({"...1": (1, 3, 7)}, network)
        assert {str(label): found[i] for i, label in enumerate(network.labels)} == {
            "a": (),
            "...0": (),
            "...1": (0, 2, 6),
        }


class TestTree:
    """Boundaries of a loop that does not make sense are refused where trees are checked."""

    @pytest.mark.parametrize(
        ("cut", "text"),
        [
            (
                Cut(1, 6, (0, 4, 9)),
                r"'b' at step 0 is cut at \(0, 4, 9\); .* from 0 to 10, the ext",
            ),
            (
                Cut(1, 6, (1, 4, 10)),
                r"is cut at \(1, 4, 10\); expected rising numbers from 0 to 10",
            ),
            (Cut(1, 6, (0, 4, 4, 10)), "expected rising numbers from 0 to 10"),
            (Cut(1, 6, (0, 6, 4, 10)), "expected rising numbers from 0 to 10"),
            (Cut(1, 6, (0,)), "expected rising numbers from 0 to 10"),
            (
                Cut(1, 5, (0, 4, 10)),
                r"has batch_size 5 .* \(0, 4, 10\); .* batch_size 6 with edges",
            ),
            (Cut(1, 4, (0, 4, 8, 10)), "these trips are batch_size 4 with no edges"),
            (Cut(1, 11, (0, 4, 10)), "has batch_size 11; expected 1 to 10, the extent of 'b'"),
        ],
    )
    def test_boundaries_rise_from_zero_to_the_extent_and_say_the_width(
        self, cut: Cut, text: str
    ) -> None:
        plain = Tree.from_path(network_of(CHAIN, *SHAPES), PATH)
        with pytest.raises(eb.PlanError, match=text):
            replace(plain, opens=((cut,), ())).check()

    def test_users_see_the_widest_trip_and_the_number_of_trips(self) -> None:
        plain = Tree.from_path(network_of(CHAIN, *SHAPES), PATH)
        tree = replace(plain, opens=((Cut(1, 6, (0, 1, 7, 10)),), ())).check()
        (loop,) = tree.loops
        assert (loop.extent, loop.batch_size, loop.n_batches) == (10, 6, 3)
        assert trips(tree.opens[0][0], tree.network) == 3


def random_case(seed: int, dtype: str) -> tuple[Executable, list[np.ndarray]]:
    rng = random.Random(seed)
    network = random_network(rng, rng.randint(2, 5), rng.randint(1, 6), largest=7)
    tree = random_tree(rng, network, uneven=True)
    arrays = random_arrays(network, dtype, seed)
    result = View.contiguous(network.output, network.result_shape, np.dtype(dtype))
    job = Job(network, views_of(network, arrays), result, np.dtype(dtype))
    return compile_tree(job, tree, rng.choice([64, 1024, 1 << 22])), arrays


class TestRun:
    @given(st.integers(0, 2**32), st.sampled_from(["float64", "int64", "complex64", "bool"]))
    @settings(max_examples=300)
    def test_uneven_trips_change_no_result(self, seed: int, dtype: str) -> None:
        ready, arrays = random_case(seed, dtype)
        # Sums of small whole numbers are exact in every one of these types.
        assert np.array_equal(ready.run(arrays), reference(ready.job.network, arrays))

    @given(st.integers(0, 2**32))
    @settings(max_examples=150)
    def test_what_is_metered_is_what_an_interpreter_counts(self, seed: int) -> None:
        ready, _ = random_case(seed, "float64")
        tree, metered = ready.tree, ready.metered
        ran, count = Interpreter(tree, 8).run(), Count(tree, 8)
        assert (metered.macs, metered.calls) == (ran.macs, ran.calls) == (count.macs, count.calls)
        assert count.peak_bytes == ran.peak <= metered.space_bytes
        readings = [*metered.steps.values(), *metered.sums.values()]
        if not any(reading.workspace_bytes for reading in readings):
            assert metered.space_bytes == ran.peak

    @given(st.integers(0, 2**32))
    @settings(max_examples=150)
    def test_a_run_takes_the_workspace_that_was_metered(self, seed: int) -> None:
        ready, arrays = random_case(seed, "float64")
        allocator = Allocator(1 << 40)
        allocator.arena = np.empty(1 << 22, np.uint8)
        allocator.holes = [(0, 1 << 22)]
        ops = NumpyOps(
            ready.kernels,
            ready.job.work,
            allocator.take,
            allocator.give,
            lambda _: ready.new_result(),
        )
        walk(ready.schedule, ops, arrays)
        ways = [count.way for count in ready.metered.steps.values() if count.way is not None]
        hidden = max((way.hidden_bytes for way in ways), default=0)
        assert allocator.live_bytes == 0
        workspace = ready.metered.workspace_bytes
        assert workspace - hidden <= allocator.peak_bytes <= workspace

    @given(st.integers(0, 2**32))
    @settings(max_examples=100)
    def test_every_width_has_its_kernel_and_only_the_first_trip_writes(self, seed: int) -> None:
        rng = random.Random(seed)
        extent = rng.randint(2, 12)
        cut = uneven_cut(rng, 1, extent)
        plain = Tree.from_path(network_of("ab,bc->ac", (3, extent), (extent, 4)), [(0, 1)])
        tree = replace(plain, opens=((cut,),)).check()
        arrays = random_arrays(tree.network)
        result = View.contiguous((0, 2), (3, 4), np.dtype("int64"))
        ready = compile_tree(
            Job(tree.network, views_of(tree.network, arrays), result, np.dtype("int64")), tree, 1024
        )
        widths = [stop - start for start, stop in spans(cut, extent)]
        assert {(key[1], key[3]) for key in ready.kernels} == {
            ((3, width), k > 0) for k, width in enumerate(widths)
        }
        assert ready.metered.steps[0].macs == 12 * extent
        assert ready.metered.calls == len(widths)

    def test_progress_counts_uneven_trips(self) -> None:
        seen: list[tuple[int, int]] = []
        plan = build(eb.Loop("c", node=1, batch_size=4), tiles={"c": (0, 1, 5, 9)})
        arrays = [np.ones(shape) for shape in SHAPES]
        plan(*arrays, progress=lambda done, total: seen.append((done, total)))
        assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]


class TestSchedule:
    def schedule(self) -> tuple[Any, Network]:
        network = network_of(CHAIN, *SHAPES)
        tree = replace(
            Tree.from_path(network, PATH), opens=((), (Cut(2, 4, (0, 1, 5, 9)),)), levels=(1, 0)
        )
        arrays = random_arrays(network)
        result = View.contiguous(network.output, network.result_shape, np.dtype("int64"))
        job = Job(network, views_of(network, arrays), result, np.dtype("int64"))
        return compile_tree(job, tree.check(), 1024).schedule, network

    def test_listings_say_where_uneven_trips_start(self) -> None:
        text = listing(*self.schedule())
        assert "for c in 3 slices of at most 4, cut at 0 1 5 9 (loop 0, step 1):" in text

    @pytest.mark.parametrize(
        "change",
        [
            {"edges": (0, 1, 5, 8)},
            {"edges": (1, 5, 9)},
            {"edges": (0, 5, 5, 9)},
            {"edges": (0,)},
            {"width": 5},
            {"width": 0, "edges": ()},
            {"extent": 8, "edges": ()},
        ],
    )
    def test_trips_that_do_not_cover_their_index_are_refused(self, change: dict[str, Any]) -> None:
        schedule, _ = self.schedule()
        body = tuple(replace(i, **change) if isinstance(i, Loop) else i for i in schedule.body)
        with pytest.raises(ScheduleError, match="rule 'cover' is broken: loop 0 makes trips of"):
            validate(replace(schedule, body=body))

    @given(edges)
    def test_spans_are_as_many_as_the_trips(self, tiles: tuple[int, ...]) -> None:
        cut = Cut.between(0, tiles)
        loop = Loop(0, 0, tiles[-1], cut.width, 0, (), cut.edges)
        assert [*loop.spans()] == spans(cut, tiles[-1]) == [*pairwise(tiles)]
        assert loop.n_trips == len(tiles) - 1


class TestBuilt:
    def test_batch_size_is_rounded_down_to_whole_tiles(self) -> None:
        plan = build(eb.Loop("b", node=0, batch_size=7), tiles={"b": 3})
        (loop,) = plan.loops
        assert (loop.extent, loop.batch_size, loop.n_batches) == (10, 6, 2)

    def test_a_tile_wider_than_batch_size_is_a_trip(self) -> None:
        plan = build(eb.Loop("c", node=1, batch_size=2), tiles={"c": (5, 7, 8, 14)})
        (loop,) = plan.loops
        assert (loop.extent, loop.batch_size, loop.n_batches) == (9, 6, 3)

    def test_a_number_of_trips_is_kept_with_whole_tiles(self) -> None:
        plan = build(eb.Loop("b", node=0, n_batches=3), tiles={"b": (0, 1, 5, 6, 10)})
        (loop,) = plan.loops
        assert (loop.batch_size, loop.n_batches) == (5, 2)

    def test_an_upper_bound_past_the_extent_is_one_trip(self) -> None:
        (loop,) = build(eb.Loop("b", node=0, batch_size=99), tiles={"b": 3}).loops
        assert (loop.batch_size, loop.n_batches) == (10, 1)

    def test_a_negative_batch_size_stays_an_error(self) -> None:
        with pytest.raises(eb.PlanError, match="has batch_size -2; expected 1 to 10"):
            build(eb.Loop("b", node=0, batch_size=-2), tiles={"b": 3})

    def test_tiles_of_other_labels_change_nothing(self) -> None:
        loop = eb.Loop("b", node=0, batch_size=7)
        tiled, plain = build(loop, tiles={"a": 3}), build(loop)
        assert (tiled.loops, tiled.levels, tiled.tree) == (plain.loops, plain.levels, plain.tree)

    @given(st.integers(0, 2**32))
    @settings(max_examples=40)
    def test_uneven_plans_survive_json_and_pickle(self, seed: int) -> None:
        rng = random.Random(seed)
        tiles = {
            label: [3, *(3 + n for n in uneven_cut(rng, 0, extent).edges[1:-1]), 3 + extent]
            for label, extent in zip("abcd", (8, 10, 9, 7), strict=True)
        }
        loops = [
            eb.Loop(label, node=node, batch_size=rng.randint(1, 6))
            for node, label in enumerate(rng.sample("bacd", 2))
            if node or label in "abc"
        ]
        plan = build(*loops, tiles=tiles)
        arrays = [np.arange(np.prod(shape)).reshape(shape) % 7.0 for shape in SHAPES]
        for again in (eb.Plan.from_json(plan.to_json()), pickle.loads(pickle.dumps(plan))):
            assert again.to_json() == plan.to_json()
            assert again.loops == plan.loops
            assert np.array_equal(again(*arrays), np.einsum(CHAIN, *arrays))

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            (
                {"edges": [0, 1, 5]},
                r"is illegal: the loop over 'c' at step 1 is cut at \(0, 1, 5\)",
            ),
            ({"edges": [0, 5, 1, 9]}, "expected rising numbers from 0 to 9, the extent"),
            ({"edges": [0, 4, 9]}, r"has batch_size 4 and is cut at \(0, 4, 9\)"),
            ({"edges": [0, 4, 8, 9]}, "these trips are batch_size 4 with no edges"),
            ({"edges": [0, True, 5, 9]}, "edges is True; expected a whole number of at least 0"),
            ({"edges": [0, -1, 5, 9]}, "edges is -1; expected a whole number"),
            ({"edges": 7}, "the document is damaged: TypeError"),
            ({"batch_size": 5}, "has batch_size 5 and is cut at"),
        ],
    )
    def test_a_document_with_other_boundaries_is_refused(
        self, change: dict[str, Any], text: str
    ) -> None:
        plan = build(eb.Loop("c", node=1, batch_size=4), tiles={"c": (0, 1, 5, 9)})
        data = json.loads(plan.to_json())
        data["loops"][0].update(change)
        with pytest.raises(eb.PlanError, match=text):
            eb.Plan.from_json(json.dumps(data))

    def test_documents_without_boundaries_still_load(self) -> None:
        plan = build(eb.Loop("c", node=1, batch_size=4))
        data = json.loads(plan.to_json())
        assert data["version"] == 2
        older = json.loads(eb.Plan.from_json(json.dumps({**data, "version": 1})).to_json())
        # Documents of that version tell nothing of proofs.
        assert {**older, "proof": data["proof"]} == data
