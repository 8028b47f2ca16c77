"""Progress of a run: the callback protocol, and the bar that `progress=True` shows.

The walker counts; what a count means is its own affair (trips of the outermost loops).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from einbound.errors import BackendError

#: How often a bar is drawn in all, at most: a drawing takes longer than a small trip.
DRAWINGS = 200


class Progress(Protocol):
    """What `progress=` takes: called with what is done and what there is in all.

    Calls come from the thread that runs the plan, with `done` rising to `total`; the last call
    has done == total. An exception ends the run and reaches the caller.
    """

    def __call__(self, done: int, total: int, /) -> object:
        """Take note."""


@contextmanager
def reporting(progress: bool | Callable[[int, int], object] | None) -> Iterator[Progress | None]:
    """The callback for the walker; a bar is opened for True and closed in any case.

    Args:
        progress: True for a bar, a callable, or None or False for nothing.

    Raises:
        BackendError: True was given and rich is not installed.
        TypeError: Something else was given.
    """
    if progress is None or progress is False:
        yield None
    elif progress is True:
        with _bar() as callback:
            yield callback
    elif callable(progress):
        yield progress
    else:
        raise TypeError(
            f"progress={progress!r} is neither True, False, None nor a callable; "
            "give a function of (done, total)"
        )


@contextmanager
def _bar() -> Iterator[Progress]:
    try:
        from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar
    except ImportError:
        raise BackendError(
            "progress=True needs the rich package; install with: pip install einbound[progress], "
            "or give a function of (done, total)"
        ) from None
    from rich.console import Console

    # On stderr, so that what a program prints can be piped. Without automatic refresh there is no
    # thread that could outlive an interrupt; the bar is drawn when its share has grown instead.
    bar = Bar(
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        auto_refresh=False,
    )
    with bar:
        task = bar.add_task("", total=None)
        shown = -1

        def update(done: int, total: int, /) -> None:
            nonlocal shown
            share = DRAWINGS * done // max(total, 1)
            if share > shown:
                shown = share
                bar.update(task, completed=done, total=total, refresh=True)

        yield update
