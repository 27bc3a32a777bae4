"""Time that jumps over waits and goes on with the CPU that is used: an hour of a quiet node takes seconds.

The clock of the node under measurement is the CPU time of this process, but for what the played Kafka takes, and
the waits that were skipped. So a node that has more to do than a core can is late here as well.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Final, TypeVar, cast
from unittest.mock import patch

from coordinator.daemon import node
from coordinator.runtime import clock as clock_module
from coordinator.runtime.clock import Clock

T = TypeVar("T")

BEGIN_NS: Final = 1_000_000_000_000
"""Not 0: a lease that was never proven would still be running then."""


class VirtualClock:
    """`cpu_ns` is what the node has used."""

    def __init__(self) -> None:
        self._skipped_ns = BEGIN_NS
        self._apart_ns = 0
        self._began_ns = time.process_time_ns()

    @property
    def cpu_ns(self) -> int:
        """CPU time of this process so far, without what was taken apart."""
        return time.process_time_ns() - self._began_ns - self._apart_ns

    def now_ns(self) -> int:
        return self._skipped_ns + self.cpu_ns

    def skip(self, seconds: float) -> None:
        """Nothing happens for so long."""
        self._skipped_ns += round(seconds * 1e9)

    @contextmanager
    def apart(self) -> Iterator[None]:
        """What is done within is not the node's. Not to be nested, and nothing may be awaited within."""
        began_ns = time.process_time_ns()
        try:
            yield
        finally:
            self._apart_ns += time.process_time_ns() - began_ns


class _SkippingSelector(selectors.DefaultSelector):
    """Waits for nothing: the time until the next timer is skipped."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> Any:
        if timeout is not None and timeout > 0:
            self._clock.skip(timeout)
            timeout = 0
        return super().select(timeout)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on a virtual clock; `longest_turn_ms` is the most that it did between two looks at sockets."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(_SkippingSelector(clock))
        self._virtual = clock
        self.longest_turn_ms = 0.0

    def time(self) -> float:
        return self._virtual.now_ns() / 1e9

    def _run_once(self) -> None:
        began_ns = self._virtual.cpu_ns
        cast(Any, super())._run_once()  # It is not in the stubs.
        self.longest_turn_ms = max(self.longest_turn_ms, (self._virtual.cpu_ns - began_ns) / 1e6)


def run(clock: VirtualClock, main: Callable[[VirtualLoop], Coroutine[Any, Any, T]]) -> T:
    """Run until `main` ends, with all clocks of a node on this one."""
    loop = VirtualLoop(clock)
    system: Mapping[str, Any] = vars(time) | {"clock_gettime_ns": lambda _: clock.now_ns()}

    def node_clock(elapsed_ns: Callable[[], int]) -> Clock:
        return Clock(clock.now_ns, clock.now_ns, elapsed_ns)

    with (
        patch.object(clock_module, "time", SimpleNamespace(**system)),
        patch.object(node, "Clock", node_clock),
    ):
        try:
            return loop.run_until_complete(main(loop))
        finally:
            loop.close()
