"""Operations that wait: for a deadline under a key, or for something to happen or else a deadline.

`KeyedTimers` holds one deadline for each key; setting it again replaces it. Every timer of the groups is
one: sessions, rebalances, pending member ids.

`Purgatory` parks a `DelayedOperation` (a long-polling fetch, a question to the transaction coordinator that
a produce waits for) under the keys of what it waits for. Code that changes such a thing calls
`check_and_complete` with its key; the wheel ends what waits too long. An operation completes once, whichever
comes first. One that completed by one key stays listed under its others until those are checked, or until so
many have gathered that all lists are swept.

All of it runs on one thread, driven by the `now_ms` of its callers. It knows no clock and no requests.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from coordinator.purgatory.timing_wheel import TimerEntry, TimingWheel

K = TypeVar("K")
K_contra = TypeVar("K_contra", contravariant=True)


class TimerOwner(Protocol[K_contra]):
    """What sets deadlines, each under a key of its own kind; None where it has one deadline alone."""

    def timer_fired(self, key: K_contra, /) -> None:
        """The deadline under `key` has come; the key is free again."""


class DeadlineHost(Protocol):
    """What has a clock and sets deadlines: the runtime, and what stands in for it."""

    def now_ms(self) -> int: ...
    def set_timer(self, owner: TimerOwner[K], key: K, deadline_ms: int | None) -> None:
        """Have `owner.timer_fired(key)` called at `deadline_ms`, and at no time set before; None: never."""


PURGE_INTERVAL: Final = 1000
"""Completed operations that may stay on watch lists before those are swept. Each is a dead request."""


class KeyedTimer(TimerEntry):
    """The deadline of one key."""

    __slots__ = ("_timers", "key")

    def __init__(self, deadline_ms: int, key: Hashable, timers: KeyedTimers) -> None:
        super().__init__(deadline_ms)
        self.key = key
        self._timers = timers

    def fire(self, now_ms: int) -> None:
        self._timers.fire(self, now_ms)


class KeyedTimers:
    """One deadline for each key. When it has come, the key is forgotten and `on_due(key, now_ms)` called."""

    def __init__(self, wheel: TimingWheel, on_due: Callable[[Hashable, int], None]) -> None:
        self._wheel = wheel
        self._on_due = on_due
        self._timers: dict[Hashable, KeyedTimer] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def set(self, key: Hashable, deadline_ms: int | None) -> None:
        """Have `key` come due at `deadline_ms` and at no time set before; None: never.

        A deadline that has passed comes due when the wheel next advances, never within this call.
        """
        timer = self._timers.get(key)
        if deadline_ms is None:
            if timer is not None:
                timer.cancel()
                del self._timers[key]
        elif timer is None:
            self._timers[key] = timer = KeyedTimer(deadline_ms, key, self)
            self._wheel.put(timer)
        else:
            timer.cancel()
            timer.deadline_ms = deadline_ms
            self._wheel.put(timer)

    def deadline_ms(self, key: Hashable) -> int | None:
        """The deadline of `key`, None if it has none."""
        timer = self._timers.get(key)
        return None if timer is None else timer.deadline_ms

    def fire(self, timer: KeyedTimer, now_ms: int) -> None:
        """Report a due `timer`, unless its key was set again or cancelled since it left the wheel."""
        if timer.is_pending or self._timers.get(timer.key) is not timer:
            return
        del self._timers[timer.key]
        self._on_due(timer.key, now_ms)


class OwnedTimers:
    """Deadlines of several owners, each with keys of its own. An owner is kept from its first deadline on."""

    def __init__(self, wheel: TimingWheel) -> None:
        self._wheel = wheel
        self._of_owner: dict[TimerOwner[Any], KeyedTimers] = {}

    def set(self, owner: TimerOwner[K], key: K, deadline_ms: int | None) -> None:
        """Have `owner.timer_fired(key)` called at `deadline_ms` and at no time set before; None: never."""
        timers = self._of_owner.get(owner)
        if timers is None:
            timers = self._of_owner[owner] = KeyedTimers(self._wheel, partial(_fire, owner))
        timers.set(key, deadline_ms)


def _fire(owner: TimerOwner[Any], key: Hashable, now_ms: int) -> None:
    owner.timer_fired(key)


class DelayedOperation(TimerEntry):
    """Something that completes once: when it can, or when its deadline has come."""

    __slots__ = ("_purgatory", "is_completed")

    def __init__(self, deadline_ms: int) -> None:
        super().__init__(deadline_ms)
        self.is_completed = False
        self._purgatory: Purgatory | None = None

    @abstractmethod
    def try_complete(self) -> bool:
        """Look whether it can complete by now, and if so return `self.force_complete()`; else False."""

    @abstractmethod
    def on_complete(self) -> None:
        """The end of the operation, run exactly once: answer what waits for it."""

    def on_expiration(self) -> None:
        """Run after `on_complete` if it was the deadline that completed the operation. Few care."""

    def force_complete(self) -> bool:
        """Complete now; return whether this call did it, which only the first can."""
        if self.is_completed:
            return False
        self.is_completed = True
        self.leave()
        self.on_complete()
        return True

    def fire(self, now_ms: int) -> None:
        if self.force_complete():
            self.on_expiration()

    def park(self, purgatory: Purgatory) -> None:
        self._purgatory = purgatory
        purgatory.delayed += 1

    def leave(self) -> None:
        """No longer wait for the deadline, if it did."""
        self.cancel()
        if self._purgatory is not None:
            self._purgatory.delayed -= 1
            self._purgatory = None


class Purgatory:
    """Operations that wait for a key to be checked, or for their deadline.

    `delayed` is how many wait; Kafka's metric NumDelayedOperations.
    """

    def __init__(self, wheel: TimingWheel, purge_interval: int = PURGE_INTERVAL) -> None:
        self.delayed = 0
        self._wheel = wheel
        self._purge_interval = purge_interval
        self._watchers: dict[Hashable, dict[DelayedOperation, None]] = {}
        self._listed = 0  # At most this many operations are on watch lists, completed ones included.

    @property
    def watched(self) -> int:
        """Entries of all watch lists, repeats and completed ones included; Kafka's metric PurgatorySize."""
        return sum(map(len, self._watchers.values()))

    def try_complete_else_watch(
        self, operation: DelayedOperation, keys: Sequence[Hashable], now_ms: int
    ) -> bool:
        """Complete `operation` if it can; else park it under `keys` until its deadline. True if it completed.

        It is tried again once it is listed: what changed between the first try and the listing
        completed nothing, what changes later will. One whose deadline has passed expires here.
        """
        assert keys, "an operation that waits for nothing"
        if operation.try_complete():
            return True
        self._watch(operation, keys)
        if operation.try_complete():
            return True
        if operation.deadline_ms <= now_ms:
            operation.fire(now_ms)
            return True
        operation.park(self)
        self._wheel.put(operation)
        return False

    def check_and_complete(self, key: Hashable, now_ms: int) -> int:
        """Something about `key` has changed: try what waits for it; return how many completed by that.

        What cannot complete, and is past its deadline at `now_ms`, expires without waiting for the wheel.
        """
        watchers = self._watchers.get(key)
        if watchers is None:
            return 0
        completed = 0
        # A copy: a client that is answered may send its next request at once.
        for operation in list(watchers):
            if not operation.is_completed and operation.try_complete():
                completed += 1
            elif operation.is_pending and operation.deadline_ms <= now_ms:
                operation.fire(now_ms)
            if operation.is_completed:
                watchers.pop(operation, None)
        self._forget_if_empty(key, watchers)
        return completed

    def _watch(self, operation: DelayedOperation, keys: Sequence[Hashable]) -> None:
        for key in keys:
            self._watchers.setdefault(key, {})[operation] = None
        self._listed += 1
        if self._listed - self.delayed > self._purge_interval:
            self._purge()

    def _purge(self) -> None:
        """Sweep completed operations from all watch lists."""
        for key, watchers in list(self._watchers.items()):
            for operation in [each for each in watchers if each.is_completed]:
                del watchers[operation]
            self._forget_if_empty(key, watchers)
        self._listed = self.delayed + 1  # The one that is being parked is not counted as delayed yet.

    def _forget_if_empty(self, key: Hashable, watchers: dict[DelayedOperation, None]) -> None:
        if not watchers and self._watchers.get(key) is watchers:
            del self._watchers[key]
