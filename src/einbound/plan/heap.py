"""What a search does to the memory of the process: nearly all it makes is dropped at its end."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import TypeVar, cast

from einbound.expr.network import Network

_Found = TypeVar("_Found")


@contextmanager
def collector_off() -> Iterator[None]:
    """No garbage collection inside: a search makes many records and no cycles among them.

    They count as old afterwards, or the next allocation would have all of them gone through, which
    takes about as long as the search. A process that froze objects keeps them so.

    What is dropped inside is given back at the end: Python keeps some thousands of small tuples to
    use again, strewn over the memory of all that is gone, until a collection, here of nothing.
    """
    enabled, is_thawed = gc.isenabled(), not gc.get_freeze_count()
    gc.disable()
    try:
        yield
    finally:
        if is_thawed:
            gc.freeze()
            gc.collect()
            gc.unfreeze()
        if enabled:
            gc.enable()


def apart(work: Callable[[], _Found]) -> _Found:
    """What some work returns, made anew once all else that the work made is gone.

    Memory goes back to the system in large pieces, none of which may hold anything alive. The few
    records that are returned lie strewn over them, so they are written down, dropped like all else
    and read again; only networks are kept as they are.

    Args:
        work: Makes records and nothing that refers to itself.
    """
    file, networks = BytesIO(), list[Network]()
    with collector_off():
        _Writer(file, networks).dump(work())
    file.seek(0)
    return cast("_Found", _Reader(file, networks).load())


class _Writer(pickle.Pickler):
    """Writes all but networks, which it numbers."""

    def __init__(self, file: BytesIO, networks: list[Network]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._networks = networks

    def persistent_id(self, given: object) -> int | None:
        if not isinstance(given, Network):
            return None
        self._networks.append(given)
        return len(self._networks) - 1


class _Reader(pickle.Unpickler):
    """Reads what a writer wrote."""

    def __init__(self, file: BytesIO, networks: list[Network]) -> None:
        super().__init__(file)
        self._networks = networks

    def persistent_load(self, number: int) -> Network:
        return self._networks[number]
