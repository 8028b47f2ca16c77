"""Plans as JSON: a versioned schema, written in full and believed in nothing.

A document holds what a plan is a function of, its tree, and the numbers it promised. Loading
compiles the tree again and compares; no code in a document ever runs.
"""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import asdict, dataclass, replace
from operator import index as as_int
from typing import Any

import numpy as np

from einbound.api.engines import NUMPY, Engine, engine_of
from einbound.api.limits import Limits
from einbound.api.operands import Layout
from einbound.api.planning import Made
from einbound.api.rulebook import maybe_whole, proof_from, rules_data, rules_from, whole
from einbound.api.setting import Out, Setting
from einbound.errors import EinboundError, PlanError
from einbound.expr.expression import Expression, parse, parse_interleaved
from einbound.plan.effort import Proof
from einbound.plan.tree import Cut, Tree
from einbound.step.dtypes import check_casting
from einbound.step.memory_order import check_order

SCHEMA = "einbound.plan"
VERSION = 2
#: Versions that can be read; before the second there are no rules and no proofs, and trips start
#: at multiples of `batch_size`.
READABLE = (1, 2)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A plan as a document tells it, not yet checked against a fresh reading."""

    setting: Setting
    tree: Tree
    buffer_bytes: int
    promised: dict[str, int]
    proof: Proof
    profile: str = ""


def write_document(made: Made) -> str:
    """The plan as JSON text; equal plans give equal text.

    Raises:
        PlanError: A label is neither a string nor an integer, so that JSON could not keep it.
    """
    tree = made.executable.tree
    return json.dumps(
        {
            "schema": SCHEMA,
            "version": VERSION,
            **_setting_data(made.setting),
            "path": made.executable.tree.sided_path,
            "loops": [
                _loop_data(cut, step) for step, opens in enumerate(tree.opens) for cut in opens
            ],
            "levels": tree.levels,
            "buffer_bytes": made.executable.buffer_bytes,
            **_engine_data(made.setting.engine),
            "rules": None if made.setting.rules is None else rules_data(made.setting.rules),
            "proof": asdict(made.proof),
            "promised": _promised(made),
        },
        indent=1,
    )


def read_document(text: str) -> Loaded:
    """The plan in JSON text, as far as it can be read without compiling it.

    Raises:
        PlanError: The text is no such document; the message names the field.
    """
    try:
        data = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise PlanError(
            f"the text is no JSON: {error}; expected what plan.to_json() wrote"
        ) from None
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        found = data.get("schema") if isinstance(data, dict) else type(data).__name__
        raise PlanError(f"the document has schema {found!r}; expected {SCHEMA!r}")
    if data.get("version") not in READABLE:
        raise PlanError(
            f"the plan has version {data.get('version')!r}; this einbound reads versions "
            f"{READABLE[0]} to {READABLE[-1]}; "
            "plan again, or use the einbound that wrote it"
        )
    try:
        return _loaded(data if data["version"] > 1 else {**data, "rules": None, "proof": None})
    except EinboundError as error:
        raise PlanError(f"the plan in the document is illegal: {error}") from error
    except KeyError as error:
        raise PlanError(f"the document is damaged: it has no field {error}") from None
    except (TypeError, ValueError, ArithmeticError, IndexError, AttributeError) as error:
        raise PlanError(f"the document is damaged: {type(error).__name__}: {error}") from None


def compare(loaded: Loaded, made: Made) -> None:
    """Refuse a document whose numbers are not those of its tree.

    Raises:
        PlanError: A number differs, or a limit is not kept; the message names both numbers.
    """
    engine = made.setting.engine
    why = ""
    if loaded.profile != engine.profile:
        why = f" (its kernels are for processor {loaded.profile!r}, this is {engine.profile!r})"
    for name, found in _promised(made).items():
        said = loaded.promised.get(name)
        if said != found:
            raise PlanError(
                f"the document promises {name} = {said}, its tree has {found} here{why}; plan again"
            )
    if made.proof.exhausted and made.weighed.macs < made.proof.bound_macs:
        raise PlanError(
            f"the document says that no plan has fewer than {made.proof.bound_macs} multiply-adds, "
            f"its tree has {made.weighed.macs}; plan again"
        )
    if not made.keeps_limits:
        raise PlanError("the plan in the document does not keep its own limits; plan again")


def _promised(made: Made) -> dict[str, int]:
    metered = made.executable.metered
    promised = {
        "peak_bytes": made.peak_bytes,
        "workspace_bytes": metered.workspace_bytes,
        "macs": metered.macs,
    }
    return {**promised, "bytes_read": metered.bytes_read} if metered.reads else promised


def _setting_data(setting: Setting) -> dict[str, Any]:
    return {
        **_expression_data(setting.expression),
        "operands": [_layout_data(layout) for layout in setting.layouts],
        "operand_bytes": setting.operand_bytes,
        "memory_limit": setting.limits.memory_bytes,
        "workspace_limit": setting.limits.workspace_bytes,
        "dtype": None if setting.dtype is None else setting.dtype.str,
        "order": setting.order,
        "casting": setting.casting,
        "out": None
        if setting.out is None
        else {**_layout_data(setting.out.layout), "overlaps": setting.out.overlaps},
    }


def _expression_data(expression: Expression) -> dict[str, Any]:
    return {
        "text": expression.text,
        "inputs": [[_label(x) for x in _labels(term)] for term in expression.terms],
        "output": [_label(x) for x in _labels(expression.output)],
    }


def _engine_data(engine: Engine) -> dict[str, Any]:
    if engine is NUMPY:
        return {}
    told = {"name": str(engine.backend), "threads": engine.n_threads, "profile": engine.profile}
    return {"backend": told}


def _engine(data: dict[str, Any]) -> Engine:
    """The engine that a document names, with this machine's compiler and processor."""
    if "backend" not in data:
        return NUMPY
    told = data["backend"]
    return engine_of(told["name"], whole(told["threads"], "threads"))


def _loop_data(cut: Cut, step: int) -> dict[str, Any]:
    data: dict[str, Any] = {"index": cut.index, "batch_size": cut.width, "node": step}
    return {**data, "edges": cut.edges} if cut.edges else data


def _labels(term: Any) -> list[Hashable]:
    labels = list(term.labels)
    if term.ellipsis is not None:
        labels.insert(term.ellipsis, ...)
    return labels


def _label(label: Hashable) -> str | int:
    if label is ...:
        return "..."
    if label == "...":
        raise PlanError(
            "label '...' is text, which JSON could not tell from an ellipsis; "
            "relabel the expression to save its plan"
        )
    if isinstance(label, (str, int)) and not isinstance(label, bool):
        return label
    raise PlanError(
        f"label {label!r} is of type {type(label).__name__}; "
        "JSON keeps strings and integers only; relabel the expression to save its plan"
    )


def _layout_data(layout: Layout) -> dict[str, Any]:
    data = {
        "shape": layout.shape,
        "strides": layout.strides,
        "dtype": layout.dtype.str,
        "aligned": layout.aligned,
    }
    return {**data, "streamed": True} if layout.streamed else data


def _loaded(data: dict[str, Any]) -> Loaded:
    setting = Setting(
        expression=_expression(data),
        layouts=tuple(_layout(each) for each in data["operands"]),
        operand_bytes=whole(data["operand_bytes"], "operand_bytes"),
        limits=Limits(
            maybe_whole(data["memory_limit"], "memory_limit"),
            maybe_whole(data["workspace_limit"], "workspace_limit"),
        ),
        dtype=None if data["dtype"] is None else np.dtype(data["dtype"]),
        order=check_order(data["order"]),
        casting=check_casting(data["casting"]),
        out=None
        if data["out"] is None
        else Out(_layout(data["out"]), bool(data["out"]["overlaps"])),
        engine=_engine(data),
    )
    network = setting.network()
    setting = replace(setting, rules=rules_from(data["rules"], network))
    setting.dtypes()
    _check_operand_bytes(setting)
    plain = Tree.from_path(network, [[whole(k, "path") for k in e] for e in data["path"]])
    opens: list[tuple[Cut, ...]] = [()] * len(plain.steps)
    for loop in data["loops"]:
        cut = _cut(loop)
        network.extents[cut.index]
        opens[whole(loop["node"], "node")] += (cut,)
    levels = tuple(whole(level, "levels") for level in data["levels"])
    if len(levels) != len(plain.steps):
        raise PlanError(f"{len(levels)} levels are given for {len(plain.steps)} steps")
    tree = Tree(network, plain.steps, tuple(opens), levels).check()
    promised = {str(name): whole(n, str(name)) for name, n in data["promised"].items()}
    proof = proof_from(data["proof"])
    buffer_bytes = whole(data["buffer_bytes"], "buffer_bytes")
    profile = str(data.get("backend", {}).get("profile", ""))
    return Loaded(setting, tree, buffer_bytes, promised, proof, profile)


def _cut(loop: dict[str, Any]) -> Cut:
    edges = tuple(whole(edge, "edges") for edge in loop.get("edges", ()))
    return Cut(whole(loop["index"], "index"), whole(loop["batch_size"], "batch_size"), edges)


def _expression(data: dict[str, Any]) -> Expression:
    text, inputs, output = data["text"], data["inputs"], data["output"]
    if text is None:
        return parse_interleaved([_from_json(labels) for labels in inputs], _from_json(output))
    expression = parse(text, len(inputs))
    if _expression_data(expression) != {"text": text, "inputs": inputs, "output": output}:
        raise PlanError(f"the labels are not those of the text {text!r}")
    return expression


def _from_json(labels: list[Hashable]) -> list[Any]:
    return [... if label == "..." else label for label in labels]


def _layout(data: dict[str, Any]) -> Layout:
    shape = tuple(whole(n, "shape") for n in data["shape"])
    strides = tuple(as_int(n) for n in data["strides"])
    if len(shape) != len(strides):
        raise PlanError(f"an operand has {len(shape)} axes and {len(strides)} strides")
    dtype, is_streamed = np.dtype(data["dtype"]), bool(data.get("streamed", False))
    return Layout(shape, strides, dtype, bool(data["aligned"]), is_streamed)


def _check_operand_bytes(setting: Setting) -> None:
    each = [layout.n_bytes for layout in setting.layouts]
    if not max(each) <= setting.operand_bytes <= sum(each):
        raise PlanError(
            f"operand_bytes is {setting.operand_bytes}; the operands cover at least {max(each)} "
            f"bytes, where all share memory, and at most {sum(each)}"
        )
