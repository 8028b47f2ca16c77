"""The order in which the parts of a forest run: one that can, chosen to keep the peak low."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from einbound.forest.forest import Forest
from einbound.forest.fusion import Bundle, Part, within
from einbound.space.witness import Witness

#: Parts up to which the order of the lowest peak is found exactly.
N_EXACT = 10


def sequenced(
    forest: Forest, parts: tuple[Part, ...], needs: Mapping[int, int], itemsize: int
) -> tuple[Part, ...] | Witness:
    """The parts in an order that can run, those inside loops too.

    Exact for few parts in the model that every value takes all its bytes from its first maker to
    its last reader; else the better of the given order and one chosen part by part.

    Args:
        forest: What is computed.
        parts: All productions that run at this place.
        needs: Bytes that each production takes while it runs.
        itemsize: Bytes per element.
    """
    ordered: list[Part] = []
    for part in parts:
        if isinstance(part, Bundle):
            body = sequenced(forest, part.body, needs, itemsize)
            if isinstance(body, Witness):
                return body
            part = replace(part, body=body)
        ordered.append(part)
    return _Sequence.of(forest, tuple(ordered), needs, itemsize).best()


@dataclass
class _Sequence:
    """Parts by number, with what each touches and waits for, as masks and bytes."""

    parts: tuple[Part, ...]
    needs: tuple[int, ...]
    before: list[int]
    #: Of each value that parts touch: which parts do, its bytes, whether it stays.
    values: list[tuple[int, int, bool]]
    touched: list[tuple[int, ...]]
    #: Bytes alive behind the parts of a mask, for the masks that were reached.
    _alive: dict[int, int] = field(default_factory=lambda: {0: 0})

    @classmethod
    def of(
        cls, forest: Forest, parts: tuple[Part, ...], needs: Mapping[int, int], itemsize: int
    ) -> _Sequence:
        """The parts, with what the forest says of them."""
        at = {production: n for n, part in enumerate(parts) for production in within(part)}
        before = [0] * len(parts)
        values: list[tuple[int, int, bool]] = []
        for value, makers in forest.producers.items():
            readers = forest.readers.get(value, ())
            made = {at[p] for p in makers if p in at}
            read = {at[p] for p in readers if p in at}
            for reader in read:
                before[reader] |= sum(1 << maker for maker in made - {reader})
            n_outside = sum(p not in at for p in (*makers, *readers))
            stays = value in forest.targets or n_outside > 0
            mask = sum(1 << n for n in made | read)
            if mask and (len(made | read) > 1 or stays):
                values.append((mask, itemsize * _size(forest, value), stays))
        touched = [
            tuple(v for v, (mask, _, _) in enumerate(values) if mask >> n & 1)
            for n in range(len(parts))
        ]
        each = tuple(max(needs.get(p, 0) for p in within(part)) for part in parts)
        return cls(parts, each, before, values, touched)

    def best(self) -> tuple[Part, ...] | Witness:
        """An order of a low peak."""
        greedy = self._greedy()
        if greedy is None:
            return Witness.of(
                "a value is read where only a part of it is made: it takes two passes",
                parts=len(self.parts),
            )
        orders = [tuple(range(len(self.parts))), greedy]
        if len(self.parts) <= N_EXACT:
            orders.append(self._exact())
        legal = [order for order in orders if self._runs(order)]
        chosen = min(legal, key=self._peak)
        return tuple(self.parts[n] for n in chosen)

    def _alive_after(self, done: int, part: int) -> int:
        """Bytes of the values that are begun and not yet read for the last time behind a part."""
        after = done | 1 << part
        known = self._alive.get(after)
        if known is None:
            known = self._alive[done]
            for value in self.touched[part]:
                mask, n_bytes, stays = self.values[value]
                if not mask & done:
                    known += n_bytes
                if not (stays or mask & ~after):
                    known -= n_bytes
            self._alive[after] = known
        return known

    def _running(self, done: int, part: int) -> int:
        """Bytes that are alive while a part runs behind others."""
        fresh = sum(
            self.values[value][1]
            for value in self.touched[part]
            if not self.values[value][0] & done
        )
        return self._alive[done] + fresh + self.needs[part]

    def _ready(self, done: int) -> list[int]:
        return [
            n for n in range(len(self.parts)) if not done >> n & 1 and not self.before[n] & ~done
        ]

    def _runs(self, order: tuple[int, ...]) -> bool:
        done = 0
        for part in order:
            if self.before[part] & ~done:
                return False
            done |= 1 << part
        return True

    def _peak(self, order: tuple[int, ...]) -> int:
        done = peak = 0
        for part in order:
            peak = max(peak, self._running(done, part))
            self._alive_after(done, part)
            done |= 1 << part
        return peak

    def _greedy(self) -> tuple[int, ...] | None:
        """The part next that leaves the fewest bytes alive; None if none can run."""
        done = 0
        order: list[int] = []
        while len(order) < len(self.parts):
            ready = self._ready(done)
            if not ready:
                return None
            chosen = min(
                ready,
                key=lambda n: (self._alive_after(done, n), self._running(done, n), n),
            )
            order.append(chosen)
            done |= 1 << chosen
        return tuple(order)

    def _exact(self) -> tuple[int, ...]:
        """The order of the lowest peak, by dynamic programming over what is done."""
        best: dict[int, tuple[int, tuple[int, ...]]] = {0: (0, ())}
        for done in range(1 << len(self.parts)):
            if done not in best:
                continue
            peak, order = best[done]
            for part in self._ready(done):
                after = done | 1 << part
                self._alive_after(done, part)
                reached = max(peak, self._running(done, part)), (*order, part)
                if after not in best or reached < best[after]:
                    best[after] = reached
        return best[(1 << len(self.parts)) - 1][1]


def _size(forest: Forest, value: int) -> int:
    size = 1
    for extent in forest.values[value].shape:
        size *= extent
    return size
