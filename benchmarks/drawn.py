"""Random networks of three to six operands, drawn from fixed seeds and kept in `data/random/`.

`python drawn.py` draws them anew. They are connected, most indices are bonds of two operands, some
are shared by three or kept on the result, and the largest intermediate is what takes the memory.
"""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import Any

from networks import HERE, Network, load

FOLDER = HERE / "data" / "random"
SIZES, PER_SIZE = (3, 4, 5, 6), 5
#: What a drawn network must have: multiply-adds of the best order, elements of its largest
#: intermediate, and most elements of operands and result together.
MACS = (150_000_000, 3_000_000_000)
INTERMEDIATE = (1 << 19, 1 << 24)
MOST_GIVEN = 1 << 23
EXTENTS = (6, 8, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 200)


def draw() -> None:
    """Draws the networks and stores them, one file each."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for n_operands in SIZES:
        for number in range(PER_SIZE):
            name = f"random_{n_operands}_{number}"
            made = _accepted(random.Random(name), n_operands, name)
            (FOLDER / f"{name}.json").write_text(json.dumps(made) + "\n", encoding="utf-8")


def _accepted(source: random.Random, n_operands: int, name: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / f"{name}.json"
        while True:
            made = _drawn(source, n_operands, name)
            file.write_text(json.dumps(made), encoding="utf-8")
            if _is_wanted(load(file)):
                return made


def _drawn(source: random.Random, n_operands: int, name: str) -> dict[str, Any]:
    """A connected network: bonds along a random tree, a few more, some open and shared indices."""
    labels = iter("abcdefghijklmnopqrstuvwxyz")
    terms: list[list[str]] = [[] for _ in range(n_operands)]
    output: list[str] = []
    pairs = [(source.randrange(n), n) for n in range(1, n_operands)]
    pairs += [tuple(source.sample(range(n_operands), 2)) for _ in range(source.randint(0, 3))]
    for pair in pairs:
        label = next(labels)
        holders = {*pair}
        if n_operands > 3 and source.random() < 0.15:
            holders.add(source.randrange(n_operands))
        for number in sorted(holders):
            terms[number].append(label)
        if source.random() < 0.1:
            output.append(label)
    for number in source.sample(range(n_operands), source.randint(1, 3)):
        label = next(labels)
        terms[number].append(label)
        output.append(label)
    for term in (*terms, output):
        source.shuffle(term)
    sizes = {i: source.choice(EXTENTS) for term in terms for i in term}
    equation = f"{','.join(map(''.join, terms))}->{''.join(output)}"
    return {
        "name": name, "group": "random", "dtype": "float64", "eq": equation, "inputs": terms,
        "output": output, "sizes": sizes,
    }  # fmt: skip


def _is_wanted(network: Network) -> bool:
    """Whether the size is right and the largest intermediate is what takes the memory."""
    import cotengra
    import peers

    inputs, output, sizes = peers.terms(network)
    tree = cotengra.OptimalOptimizer().search(inputs, output, sizes)
    inner = [tree.get_size(node) for node, _, _ in tree.traverse() if node != tree.root]
    given = network.result_elements + sum(tree.get_size(leaf) for leaf in tree.gen_leaves())
    return (
        MACS[0] <= tree.contraction_cost() <= MACS[1]
        and INTERMEDIATE[0] <= max(inner, default=0) <= INTERMEDIATE[1]
        and given <= MOST_GIVEN
        and 2 * max(inner, default=0) >= given
    )


if __name__ == "__main__":
    draw()
