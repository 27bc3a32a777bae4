"""Timers by key, and delayed operations that complete on a condition or at a deadline, as in Kafka's purgatory.

`KeyedTimers` holds one deadline for each key; setting a key again replaces its deadline. All timers of groups
are kept so: sessions, rebalances, pending member ids.

`Purgatory` parks a `DelayedOperation` (a long-polling fetch, a produce that waits for the transaction
coordinator) under the keys of the things it waits for. Code that changes such a thing calls
`check_and_complete` with its key; the timing wheel expires operations that wait too long. An operation completes
once, by whichever comes first. One that completed by one key stays listed under its other keys until those are
checked, or until there are so many that all lists are swept.

All of it runs on one thread, driven by the `now_ms` of its callers. Nothing here knows a clock or a request.
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
    """An object that sets timers, each under a key of its own; the key is None if it has only one timer."""

    def timer_fired(self, key: K_contra, /) -> None:
        """Handle that the deadline of `key` has passed; the key may be set again."""


class DeadlineHost(Protocol):
    """The clock and the timers that others use: the runtime, or a stand-in for it."""

    def now_ms(self) -> int: ...
    def set_timer(self, owner: TimerOwner[K], key: K, deadline_ms: int | None) -> None:
        """Have `owner.timer_fired(key)` called at `deadline_ms`, replacing an earlier deadline; None cancels."""


PURGE_INTERVAL: Final = 1000
"""The most completed operations on watch lists before the lists are swept. Each keeps a request in memory."""


class KeyedTimer(TimerEntry):
    """The entry in the timing wheel for the deadline of one key."""

    __slots__ = ("_timers", "key")

    def __init__(self, deadline_ms: int, key: Hashable, timers: KeyedTimers) -> None:
        super().__init__(deadline_ms)
        self.key = key
        self._timers = timers

    def fire(self, now_ms: int) -> None:
        self._timers.fire(self, now_ms)


class KeyedTimers:
    """One deadline for each key. When it has passed, the key is removed and `on_due(key, now_ms)` called."""

    def __init__(self, wheel: TimingWheel, on_due: Callable[[Hashable, int], None]) -> None:
        self._wheel = wheel
        self._on_due = on_due
        self._timers: dict[Hashable, KeyedTimer] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def set(self, key: Hashable, deadline_ms: int | None) -> None:
        """Set the deadline of `key`, replacing an earlier one; None cancels it.

        A deadline that has passed already is due when the wheel next advances, never within this call.
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

    def cancel_all(self) -> None:
        """Cancel every deadline."""
        timers, self._timers = self._timers, {}
        for timer in timers.values():
            timer.cancel()

    def deadline_ms(self, key: Hashable) -> int | None:
        """The deadline of `key`, None if it has none."""
        timer = self._timers.get(key)
        return None if timer is None else timer.deadline_ms

    def fire(self, timer: KeyedTimer, now_ms: int) -> None:
        """Call `on_due` for a due `timer`, unless its key was set again or cancelled since it left the wheel."""
        if timer.is_pending or self._timers.get(timer.key) is not timer:
            return
        del self._timers[timer.key]
        self._on_due(timer.key, now_ms)


class OwnedTimers:
    """Timers of several owners, each with its own keys. An owner is kept from its first timer until `drop`."""

    def __init__(self, wheel: TimingWheel) -> None:
        self._wheel = wheel
        self._of_owner: dict[TimerOwner[Any], KeyedTimers] = {}

    def set(self, owner: TimerOwner[K], key: K, deadline_ms: int | None) -> None:
        """Have `owner.timer_fired(key)` called at `deadline_ms`, replacing an earlier deadline; None cancels."""
        timers = self._of_owner.get(owner)
        if timers is None:
            timers = self._of_owner[owner] = KeyedTimers(self._wheel, partial(_fire, owner))
        timers.set(key, deadline_ms)

    def drop(self, owner: TimerOwner[Any]) -> None:
        """Cancel all timers of `owner`, which may set others later."""
        timers = self._of_owner.pop(owner, None)
        if timers is not None:
            timers.cancel_all()


def _fire(owner: TimerOwner[Any], key: Hashable, now_ms: int) -> None:
    owner.timer_fired(key)


class DelayedOperation(TimerEntry):
    """An operation that completes once: as soon as it can, or when its deadline has passed."""

    __slots__ = ("_purgatory", "is_completed")

    def __init__(self, deadline_ms: int) -> None:
        super().__init__(deadline_ms)
        self.is_completed = False
        self._purgatory: Purgatory | None = None

    @abstractmethod
    def try_complete(self) -> bool:
        """Return `self.force_complete()` if the operation can complete by now, else False."""

    @abstractmethod
    def on_complete(self) -> None:
        """Finish the operation, for example answer its request. Called exactly once."""

    def on_expiration(self) -> None:
        """Called after `on_complete` if the deadline completed the operation. Does nothing by default."""

    def force_complete(self) -> bool:
        """Complete now; return False if the operation had completed before."""
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
        """Leave the purgatory, if parked there: cancel the deadline and lower `Purgatory.delayed`."""
        self.cancel()
        if self._purgatory is not None:
            self._purgatory.delayed -= 1
            self._purgatory = None


class Purgatory:
    """Operations that wait until one of their keys is checked and they can complete, or for their deadline.

    `delayed` is the number that wait; Kafka's metric NumDelayedOperations.
    """

    def __init__(self, wheel: TimingWheel, purge_interval: int = PURGE_INTERVAL) -> None:
        self.delayed = 0
        self._wheel = wheel
        self._purge_interval = purge_interval
        self._watchers: dict[Hashable, dict[DelayedOperation, None]] = {}
        self._listed = 0  # At most this many operations are on watch lists, completed ones included.

    @property
    def watched(self) -> int:
        """Number of entries of all watch lists, also of completed operations; Kafka's metric PurgatorySize."""
        return sum(map(len, self._watchers.values()))

    def try_complete_else_watch(
        self, operation: DelayedOperation, keys: Sequence[Hashable], now_ms: int
    ) -> bool:
        """Complete `operation` if it can; else park it under `keys` until its deadline. Return True if complete.

        It is tried again after it was listed under its keys: a change between the first try and the listing
        could not complete it, a later change will. An operation whose deadline has passed expires here.
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
        """Try the operations listed under `key`, after a change of it; return the number that completed.

        One that cannot complete, and is past its deadline at `now_ms`, expires without waiting for the wheel.
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
        """Remove completed operations from all watch lists."""
        for key, watchers in list(self._watchers.items()):
            for operation in [each for each in watchers if each.is_completed]:
                del watchers[operation]
            self._forget_if_empty(key, watchers)
        self._listed = self.delayed + 1  # The one that is being parked is not counted as delayed yet.

    def _forget_if_empty(self, key: Hashable, watchers: dict[DelayedOperation, None]) -> None:
        if not watchers and self._watchers.get(key) is watchers:
            del self._watchers[key]
