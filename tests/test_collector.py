"""Garbage collection waits while a search runs, and does not make up for it afterwards."""

from __future__ import annotations

import gc

from einbound.plan.heap import collector_off

N_RECORDS = 10_000


def test_what_a_search_makes_is_not_gone_through_once_it_ends() -> None:
    seen: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            seen.append(len(gc.get_objects()))

    gc.collect()
    gc.callbacks.append(note)
    try:
        with collector_off():
            kept = [[k] for k in range(N_RECORDS)]
        kept.append([0])
    finally:
        gc.callbacks.remove(note)
    assert all(n_objects < N_RECORDS // 10 for n_objects in seen)


def test_frozen_objects_stay_frozen() -> None:
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with collector_off():
            pass
        assert gc.get_freeze_count() == frozen
    finally:
        gc.unfreeze()
