"""Policies and networks that the tests of batch policies share."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import einbound as eb
from einbound.api.limits import NO_LIMITS
from einbound.api.rules import rules_of
from einbound.api.setting import setting_of
from einbound.expr.expression import parse
from einbound.plan.rules import Rules

LADDER = "Pac,Pbd,ijcd->ijab"
LADDER_SHAPES = ((30, 8, 8), (30, 8, 8), (4, 4, 8, 8))


def yes(_: object) -> bool:
    return True


def no(_: object) -> bool:
    return False


def asked(
    text: str, *shapes: tuple[int, ...], tiles: Any = None, **fields: Any
) -> tuple[eb.BatchPolicy, Rules]:
    """A policy and the rules that it settles for a network."""
    policy = eb.BatchPolicy(**fields)
    setting = setting_of(parse(text, len(shapes)), shapes, NO_LIMITS)
    rules = rules_of(setting, policy=policy, tiles=tiles)
    assert rules is not None
    return policy, rules


def refusals(rules: Rules) -> dict[str, str]:
    return {refusal.index: refusal.why for refusal in rules.refusals}


def quietly(make: Callable[[], eb.Plan]) -> eb.Plan:
    """A plan that may break its threshold."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", eb.BudgetWarning)
        return make()
