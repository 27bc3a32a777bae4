"""An issuer's keys, read anew every so often and when a token names one that is not known (S38).

`RefreshPlan` says when, with the time as an argument; `RefreshedKeys` reads on a thread of its own, and has the
last keys that were read at hand for the event loop. What cannot be read leaves the keys as they are, is said once,
and is tried again, more and more rarely.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import structlog

from coordinator.security.tokens.keys import Key, KeySet, KeysUnusable

UNKNOWN_KEY_IDS_MAX: Final = 16
"""Ids of keys that are not known, of which is remembered that they were asked for."""
ASKED_AGAIN_AFTER_MS: Final = 60_000
"""How long such an id is remembered, so strangers cause at most sixteen readings a minute."""
KEY_ID_CHARS_MAX: Final = 1000
"""Longest id that is asked for."""
LONGEST_WAIT_S: Final = 3600.0
"""Of a thread at a time: a lock can wait for no more than some centuries."""

log = structlog.get_logger("muster.server")


class RefreshPlan:
    """When the keys of one issuer are read; times are monotonic ms."""

    def __init__(self, refresh_ms: int, backoff_ms: int, backoff_max_ms: int) -> None:
        """`backoff_ms` passes after a first failure, twice as much after each other, up to `backoff_max_ms`."""
        self._refresh_ms = refresh_ms
        self._backoff_ms = min(backoff_ms, backoff_max_ms)
        self._backoff_max_ms = backoff_max_ms
        self._next_backoff_ms = self._backoff_ms
        self._asked_again_at_ms: dict[str, int] = {}  # By the id of a key.
        self.next_at_ms = 0

    def ask(self, key_id: str, now_ms: int) -> bool:
        """Whether the keys are to be read now, since this one is not among them; it is remembered if so."""
        if len(key_id) > KEY_ID_CHARS_MAX:
            return False
        if self._asked_again_at_ms.get(key_id, now_ms) > now_ms:
            return False
        self._forget(now_ms)
        if len(self._asked_again_at_ms) >= UNKNOWN_KEY_IDS_MAX:
            return False
        self._asked_again_at_ms[key_id] = now_ms + ASKED_AGAIN_AFTER_MS
        self.next_at_ms = min(self.next_at_ms, now_ms)
        return True

    def begin(self, now_ms: int) -> None:
        """Note that the keys are being read: what is asked for from now on has them read once more."""
        self.next_at_ms = now_ms + self._refresh_ms

    def succeeded(self, keys: KeySet) -> None:
        """Note that `keys` were read."""
        self._next_backoff_ms = self._backoff_ms
        for key_id in [each for each in self._asked_again_at_ms if each in keys]:
            del self._asked_again_at_ms[key_id]

    def failed(self, now_ms: int) -> None:
        """Note that nothing could be read."""
        self.next_at_ms = min(self.next_at_ms, now_ms + self._next_backoff_ms)
        self._next_backoff_ms = min(2 * self._next_backoff_ms, self._backoff_max_ms)

    def _forget(self, now_ms: int) -> None:
        self._asked_again_at_ms = {key: at for key, at in self._asked_again_at_ms.items() if at > now_ms}


class RefreshedKeys:
    """The keys of one issuer, kept fresh."""

    def __init__(
        self, read: Callable[[], KeySet], plan: RefreshPlan, now_ms: Callable[[], int], name: str
    ) -> None:
        """`read` may wait, and raises KeysUnusable; `now_ms` is monotonic; `name` is for the log."""
        self._read = read
        self._plan = plan
        self._now_ms = now_ms
        self._name = name
        self._keys: KeySet | None = None
        self._failure = ""
        self._is_closed = False
        self._changed = threading.Condition()  # Of all of these. Never held while keys are read.
        self._thread = threading.Thread(target=self._run, name="muster-keys", daemon=True)

    def open(self, timeout_s: float) -> None:
        """Begin, and wait for the first keys. Raises KeysUnusable if there are none, and ends."""
        self._thread.start()
        with self._changed:
            self._changed.wait_for(lambda: self._keys is not None or self._failure, timeout_s)
            has_keys, failure = self._keys is not None, self._failure
        if not has_keys:
            self.close()
            raise KeysUnusable(failure or f"there was no whole answer within {timeout_s:g} s")

    def close(self) -> None:
        """Read no more. What is being read is not waited for."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def find(self, key_id: str | None, algorithm: str) -> Key | None:
        """Return the key for a token; None if there is none: then they are read anew, unless they just were."""
        keys = self._keys
        found = None if keys is None else keys.find(key_id, algorithm)
        if found is None:
            with self._changed:
                if self._plan.ask(key_id or "", self._now_ms()):
                    self._changed.notify_all()
        return found

    def _run(self) -> None:
        while self._is_due():
            try:
                keys = self._read()
            except KeysUnusable as error:
                self._failed(str(error))
            except Exception:  # A bug of ours: the log has the trace, and the next keys may be read.
                log.exception("keys of tokens not read", source=self._name)
                self._failed("a bug, which the log has")
            else:
                self._succeeded(keys)

    def _is_due(self) -> bool:
        """Wait until the keys are to be read; False if they are to be read no more."""
        with self._changed:
            while not self._is_closed:
                left_ms = self._plan.next_at_ms - self._now_ms()
                if left_ms <= 0:
                    self._plan.begin(self._now_ms())
                    return True
                self._changed.wait(min(left_ms / 1000, LONGEST_WAIT_S))
            return False

    def _succeeded(self, keys: KeySet) -> None:
        with self._changed:
            has_failed, self._failure = bool(self._failure), ""
            self._keys = keys
            self._plan.succeeded(keys)
            self._changed.notify_all()
        if has_failed:
            log.info("keys of tokens read again", source=self._name, keys=len(keys))

    def _failed(self, reason: str) -> None:
        with self._changed:
            is_first, self._failure = not self._failure, reason
            self._plan.failed(self._now_ms())
            self._changed.notify_all()
            has_keys = self._keys is not None
        if is_first and has_keys:
            log.warning("keys of tokens cannot be read; the last ones stay", source=self._name, reason=reason)
