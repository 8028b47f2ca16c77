"""cotengra's plans of a network for every limit, found once and kept in `data/cotengra/`.

A target of cotengra's is in elements of its largest tensor, so no single target answers a limit
of bytes: each network is searched for every target from its largest tensor down by halves, with
five seeds in several ways, and all plans that differ are kept. What a plan holds at its peak is
counted by einbound's meter on the very same tree, all loops outermost and one element wide and
everything made anew in every slice, as cotengra runs it.

Searches end after a number of trials, never by the clock, and seed every source of randomness.
`python candidates.py` searches anew.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import peers
from networks import HERE, Network, load

FOLDER = HERE / "data" / "cotengra"
#: Targets go from the largest tensor of the unsliced order down to this part of it.
SMALLEST_TARGET = 1 << 11
#: Scores that orders and slices are searched for; macs count at the end in every case.
SCORES = ("flops", "combo")
#: Bounds of packing buffers that a plan's peak is counted with; the least peak counts.
BUFFERS = (4 << 20, 1 << 16, 0)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One plan of cotengra's.

    Attributes:
        way: How it was found, with seed and target.
        path: Pairs of values that each step multiplies, in static single assignment.
        sliced: Labels of the indices that are cut to single elements.
        slices: Number of slices.
        macs: Multiply-adds of all slices, as cotengra counts them.
    """

    way: str
    path: tuple[tuple[int, int], ...]
    sliced: tuple[str, ...]
    slices: int
    macs: int


@dataclass(frozen=True, slots=True)
class Held:
    """What a candidate takes, counted as einbound's own plans are.

    Attributes:
        candidate: The plan.
        macs: Multiply-adds by einbound's count.
        peak_bytes: True peak, operands and result included.
    """

    candidate: Candidate
    macs: int
    peak_bytes: int


def of(network: Network, path: Path) -> tuple[Candidate, ...]:
    """The kept candidates of the network in the file `path`, searched for if there are none."""
    file = FOLDER / path.name
    if not file.exists():
        keep(network, file)
    rows = json.loads(file.read_text(encoding="utf-8"))["candidates"]
    return tuple(
        Candidate(
            way=row["way"],
            path=tuple((left, right) for left, right in row["path"]),
            sliced=tuple(row["sliced"]),
            slices=row["slices"],
            macs=row["macs"],
        )
        for row in rows
    )


def keep(network: Network, file: Path) -> None:
    """Searches and stores what was found, one candidate a line."""
    import cotengra

    file.parent.mkdir(parents=True, exist_ok=True)
    rows = ",\n".join(json.dumps(asdict(found)) for found in search(network))
    head = json.dumps({"cotengra": cotengra.__version__, "network": network.name})[1:-1]
    file.write_text(f'{{{head}, "candidates": [\n{rows}\n]}}\n', encoding="utf-8")


def search(network: Network) -> tuple[Candidate, ...]:
    """All different plans of the searches, fewest macs first."""
    found: dict[tuple[Any, ...], Candidate] = {}
    for way, tree in _trees(network):
        path = tuple((int(left), int(right)) for left, right in tree.get_ssa_path())
        sliced = tuple(sorted(map(str, tree.sliced_inds)))
        candidate = Candidate(
            way, path, sliced, int(tree.multiplicity), int(tree.contraction_cost())
        )
        found.setdefault((path, sliced), candidate)
    return tuple(sorted(found.values(), key=lambda c: (c.macs, c.slices, c.path, c.sliced)))


def _trees(network: Network) -> Iterator[tuple[str, Any]]:
    import cotengra

    terms = peers.terms(network)
    largest = int(cotengra.OptimalOptimizer().search(*terms).max_size())
    part = 1
    while part <= SMALLEST_TARGET and largest // part > 0:
        for seed in peers.SEEDS:
            for score in SCORES:
                for way, tree in _sliced(terms, largest // part, seed, score):
                    yield f"{way} for {score}, target {largest // part}, seed {seed}", tree
        part *= 2


def _sliced(
    terms: tuple[Any, ...], target: int, seed: int, score: str
) -> Iterator[tuple[str, Any]]:
    import cotengra

    for way, options in (
        ("slicing", {"slicing_opts": {"target_size": target, "seed": seed}}),
        ("slicing with reconfiguration", {"slicing_reconf_opts": {"target_size": target}}),
    ):
        random.seed(seed)  # slicing with reconfiguration draws from the module's own generator
        optimizer = cotengra.HyperOptimizer(
            methods=["greedy"], max_repeats=peers.REPEATS, minimize=score, seed=seed,
            parallel=False, optlib="random", **options,
        )  # fmt: skip
        yield way, optimizer.search(*terms)
    random.seed(seed)
    tree = cotengra.OptimalOptimizer(minimize=score).search(*terms)
    yield "optimal order then slicing", tree.slice(target_size=target, seed=seed)
    yield (
        "optimal order then slicing with reconfiguration",
        tree.slice_and_reconfigure(target_size=target, minimize=score),
    )


def tree_of(network: Network, candidate: Candidate) -> Any:
    """The candidate as a tree that cotengra runs; one rebuilt runs as fast as the one found."""
    import cotengra

    inputs, output, sizes = peers.terms(network)
    tree = cotengra.ContractionTree.from_path(
        inputs, output, sizes, ssa_path=[tuple(pair) for pair in candidate.path]
    )
    for index in candidate.sliced:
        tree.remove_ind_(index)
    return tree


def held(
    network: Network, arrays: tuple[np.ndarray, ...], candidate: Candidate, *, hoisted: bool = False
) -> Held:
    """The candidate's macs and true peak for operands with the layouts of `arrays`.

    With `hoisted` every value is made as far out as its indices allow, which cotengra does not
    do: the macs of the same loops when nothing is made twice.
    """
    import einbound as eb

    n_steps = len(candidate.path)
    loops = [eb.Loop(index, node=-1, batch_size=1) for index in candidate.sliced]
    levels = {} if hoisted else dict.fromkeys(range(n_steps - 1), len(loops))
    plans = [
        eb.Plan.build(
            network.equation, *arrays, path=_linear(candidate.path, len(arrays)), loops=loops,
            levels=levels, buffer_bytes=buffer_bytes,
        )
        for buffer_bytes in BUFFERS
    ]  # fmt: skip
    least = min(plans, key=lambda plan: plan.peak_bytes)
    return Held(candidate, int(least.macs), int(least.peak_bytes))


def _linear(path: tuple[tuple[int, int], ...], n_operands: int) -> list[tuple[int, int]]:
    """The path as positions in a shrinking list."""
    alive, linear = list(range(n_operands)), []
    for step, pair in enumerate(path):
        places = sorted(alive.index(value) for value in pair)
        linear.append((places[0], places[1]))
        alive = [value for value in alive if value not in pair] + [n_operands + step]
    return linear


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", type=Path, nargs="+", help="JSON files of networks")
    warnings.simplefilter("ignore")
    for given in parser.parse_args().network:
        keep(load(given), FOLDER / given.name)
    sys.exit(0)
