"""A small pool of threads that run parts of one kernel and wait without spinning."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
        # A fork leaves the child without the threads that were prepared.
        self.prepare(len(others))
        done: SimpleQueue[BaseException | None] = SimpleQueue()
        for part in others:
            self._queue.put((part, done))
        failures: list[BaseException] = []
        try:
            first()
        finally:
            # Memory that a part works on is the caller's to free, also after an error.
            failures = _ended(done, len(others))
        if failures:
            raise failures[0]

    def _work(self) -> None:
        while True:
            part, done = self._queue.get()
            with _Outcome(done):
                part()
            # What was run holds arrays, which must not live until the next part comes.
            del part, done


@dataclass(frozen=True, slots=True)
class _Outcome:
    """A scope that hands its error, or None, to whoever waits for its end."""

    done: SimpleQueue[BaseException | None]

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> bool:
        self.done.put(error)
        return True


def _ended(done: SimpleQueue[BaseException | None], n_parts: int) -> list[BaseException]:
    """The errors of so many parts, all of which have ended; an interrupt is one more."""
    failures: list[BaseException] = []
    while n_parts:
        try:
            failure = done.get()
        except KeyboardInterrupt as interrupt:
            failures.append(interrupt)
            continue
        n_parts -= 1
        if failure is not None:
            failures.append(failure)
    return failures


_pools = [Pool()]


def shared_pool() -> Pool:
    """The pool of this process."""
    return _pools[0]


def _start_again() -> None:
    """Threads do not live on in the child of a fork."""
    _pools[0] = Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_again)
