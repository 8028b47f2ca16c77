"""cotengra's plans at a target size, and the fastest of them.

A target is in elements of the largest single tensor, so it is no limit of the peak: the true
peak is measured beside. Run as a script in a timed child, it searches and prints the choice.
"""

from __future__ import annotations

import argparse
import base64
import json
import pickle
import time
import warnings
from pathlib import Path
from typing import Any

import cotengra
import networks
import numpy as np

SEEDS = range(5)
#: The two choices from the plans found: cotengra's own score, and the clock.
FEWEST, FASTEST = "cotengra", "cotengra, fastest"
#: Trials of each search; networks of six operands have few orders.
REPEATS = 32


def terms(network: networks.Network) -> tuple[list[tuple[str, ...]], tuple[str, ...], dict]:
    """Index lists of the operands and of the result, and the extents, as cotengra takes them."""
    text, output = network.equation.split("->")
    inputs = [tuple(term) for term in text.split(",")]
    sizes = {
        index: extent
        for term, shape in zip(inputs, network.shapes, strict=True)
        for index, extent in zip(term, shape, strict=True)
    }
    return inputs, tuple(output), sizes


def candidates(network: networks.Network, target: int) -> list[tuple[str, Any]]:
    """Trees sliced to `target` elements, with the way that found each.

    Per seed: a search that slices while it searches, one that also reconfigures the sliced
    tree, and the optimal unsliced order sliced afterwards.
    """
    inputs, output, sizes = terms(network)
    found = []
    for seed in SEEDS:
        for way, options in (
            ("slicing", {"slicing_opts": {"target_size": target, "seed": seed}}),
            ("slicing with reconfiguration", {"slicing_reconf_opts": {"target_size": target}}),
        ):
            optimizer = cotengra.HyperOptimizer(
                methods=["greedy"], max_repeats=REPEATS, minimize="flops", seed=seed,
                parallel=False, optlib="random", **options,
            )  # fmt: skip
            found.append((f"{way}, seed {seed}", optimizer.search(inputs, output, sizes)))
        tree = cotengra.OptimalOptimizer().search(inputs, output, sizes)
        tree.slice_(target_size=target, seed=seed)
        found.append((f"optimal order then slicing, seed {seed}", tree))
    return found


def options_of(tree: Any) -> dict[str, str]:
    """What brings the very same tree to another process; a rebuilt one may run slower."""
    return {"pickle": base64.b64encode(pickle.dumps(tree)).decode("ascii")}


def tree_from_options(options: dict[str, str]) -> Any:
    """The tree that `options_of` described."""
    return pickle.loads(base64.b64decode(options["pickle"]))


def facts(tree: Any) -> dict[str, Any]:
    """Slices, multiply-adds and largest tensor of a tree."""
    return {
        "slices": int(tree.multiplicity),
        "flops_as_counted": int(tree.contraction_cost()),
        "largest_elements": int(tree.max_size()),
        "sliced": [str(i) for i in tree.sliced_inds],
    }


def choose(network: networks.Network, target: int) -> dict[str, Any]:
    """The plan of fewest macs, which is cotengra's own score, and the plan that ran fastest.

    Each plan is timed once, the three best twice more; among equal macs the fastest counts.

    Plans that read the same are timed apart: the order of their factors and of the indices of
    their intermediates differs with the seed and changes the time by a third.
    """
    started = time.process_time()
    found = candidates(network, target)
    search_seconds = time.process_time() - started
    arrays = networks.operands(network)
    timed = sorted(
        ((_seconds(tree, arrays), way, tree) for way, tree in found), key=lambda row: row[0]
    )
    again = [(_seconds(tree, arrays), _seconds(tree, arrays)) for _, _, tree in timed[:3]]
    finals = [
        (min(first, *more), way, tree)
        for (first, way, tree), more in zip(timed[:3], again, strict=True)
    ]
    ranked = sorted(finals, key=lambda row: row[0])
    everything = ranked + timed[3:]
    fewest = min(everything, key=lambda row: (row[2].contraction_cost(), row[0]))
    return {
        "version": cotengra.__version__,
        "target_elements": target,
        "search_seconds": search_seconds,
        "n_searches": len(found),
        "tried": [
            {"way": way, "cpu_seconds": seconds, **facts(tree)} for seconds, way, tree in everything
        ],
        "chosen": {FEWEST: options_of(fewest[2]), FASTEST: options_of(ranked[0][2])},
    }


def _seconds(tree: Any, arrays: tuple[np.ndarray, ...]) -> float:
    began = time.process_time()
    tree.contract(arrays)
    return time.process_time() - began


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", type=Path)
    parser.add_argument("target", type=int)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    np.matmul(np.ones((256, 256)), np.ones((256, 256)))
    print(json.dumps(choose(networks.load(asked.network), asked.target)))
