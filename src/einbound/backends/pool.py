"""A small pool of threads that run parts of one kernel and wait without spinning."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TypeAlias

Work: TypeAlias = Callable[[], None]


class Pool:
    """Threads that are started when first needed and stay.

    Several callers may share it: the parts of each wait in one queue.
    """

    __slots__ = ("_lock", "_queue", "_threads")

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[Work, SimpleQueue[BaseException | None]]] = SimpleQueue()
        self._threads: list[Thread] = []
        self._lock = Lock()

    def prepare(self, n_threads: int) -> None:
        """Have so many threads besides the caller's, so that a run starts none."""
        with self._lock:
            while len(self._threads) < n_threads:
                thread = Thread(target=self._work, name="einbound-kernel", daemon=True)
                thread.start()
                self._threads.append(thread)

    def run(self, parts: Sequence[Work]) -> None:
        """Run all parts, the first in the caller's thread, and wait for their ends.

        Args:
            parts: Functions that may run at the same time.
        """
        first, *others = parts
        done: SimpleQueue[BaseException | None] = SimpleQueue()
        for part in others:
            self._queue.put((part, done))
        failed: BaseException | None = None
        try:
            first()
        except BaseException as error:  # raised below, once nothing runs any more
            failed = error
        n_running = len(others)
        while n_running:
            try:
                failed = done.get() or failed
                n_running -= 1
            except KeyboardInterrupt as error:
                failed = error
        if failed is not None:
            raise failed

    def _work(self) -> None:
        while True:
            part, done = self._queue.get()
            try:
                part()
            except BaseException as error:
                done.put(error)
            else:
                done.put(None)
            # What was run holds arrays, which must not live until the next part comes.
            del part, done


_pools = [Pool()]


def shared_pool() -> Pool:
    """The pool of this process."""
    return _pools[0]


def _start_again() -> None:
    """Threads do not live on in the child of a fork."""
    _pools[0] = Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_again)
