"""Follows a query: reads its checkpoint when a batch may have ended, and commits the new offsets to the group.

The checkpoint is the truth; a listener on the session only says when to read it. So an event that Spark drops
is made good by the next one, and a crash by the next start. Looks and commits happen on a thread of their own,
and never hold up the query. Of all that waits to be committed only the newest position is kept.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, Self, TypeAlias

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from muster.spark.connections import ClientPropertiesError, librdkafka_security
from muster.spark.errors import PassingError
from muster.spark.progress.checkpoint import Checkpoint
from muster.spark.progress.checkpoint_files import CheckpointFiles
from muster.spark.progress.group_offsets import GroupOffsets
from muster.spark.progress.group_progress import GroupProgress
from muster.spark.progress.positions import ProgressError
from protocol.topic_partition import TopicPartition

FLUSH_TIMEOUT_S: Final = 10.0
START_TIMEOUT_S: Final = 30.0
LOOK_EVERY_S: Final = 30.0  # If no event comes; Spark may drop events.
FIRST_RETRY_S: Final = 0.5
LAST_RETRY_S: Final = 15.0
FAILURES_COUNTED_MAX: Final = 10  # With so many failures the delay is at its maximum.

OnConflict: TypeAlias = Literal["refuse", "reset"]
State: TypeAlias = Literal["following", "stopped", "closed"]

_log = logging.getLogger(__name__)


def follow(
    spark: SparkSession,
    *,
    checkpoint: str | os.PathLike[str],
    bootstrap: str,
    group_id: str,
    topics: Iterable[str] | None = None,
    on_conflict: OnConflict = "refuse",
    stop_query: bool = False,
    client: Mapping[str, object] | None = None,
    command_config: str | os.PathLike[str] | None = None,
    start_timeout_s: float = START_TIMEOUT_S,
) -> Follower:
    """Commit the end offsets of each finished batch of the checkpoint's query to a group, until closed.

    Call it before the query starts: then what is refused is refused before the first batch runs. `checkpoint` is
    the query's `checkpointLocation`; `topics` leaves all others out. `command_config` is the properties file of a
    Kafka client, of which the security is taken; `client` has further settings of librdkafka. With `stop_query`
    the query is stopped if following it has to stop.

    Raises ProgressError, of which ConflictError if the group stands later than the checkpoint in any partition
    (unless `on_conflict` is "reset"), LiveMembersError if it has members, CheckpointError if the checkpoint
    cannot be understood; and ProgressError, too, if the cluster is out of reach for `start_timeout_s`.
    """
    root = os.fspath(checkpoint)
    wanted = None if topics is None else frozenset([topics] if isinstance(topics, str) else topics)
    if not root or not group_id or wanted == frozenset() or on_conflict not in ("refuse", "reset"):
        raise ProgressError(
            "follow() takes a checkpoint, a group_id, one or more topics (or none given, for all), and "
            f"on_conflict 'refuse' or 'reset'; got {root!r}, {group_id!r}, {topics!r} and {on_conflict!r}"
        )
    read = Checkpoint(CheckpointFiles(spark, root))
    try:
        settings = {**librdkafka_security(command_config), **(client or {})}
    except ClientPropertiesError as error:
        raise ProgressError(str(error)) from None
    group = GroupOffsets(bootstrap, group_id, settings)
    progress = GroupProgress(read, group, wanted, may_reset=on_conflict == "reset")
    follower = Follower(spark, read, group, progress, stop_query=stop_query)
    follower.start(start_timeout_s)
    return follower


class Follower:
    """A query that is followed. Every method may be called from any thread."""

    def __init__(
        self,
        spark: SparkSession,
        checkpoint: Checkpoint,
        group: GroupOffsets,
        progress: GroupProgress,
        *,
        stop_query: bool = False,
    ) -> None:
        self.group_id = group.group_id
        self._spark = spark
        self._checkpoint = checkpoint
        self._group = group
        self._progress = progress
        self._stop_query = stop_query
        self._changed = threading.Condition()
        self._state: State = "following"
        self._error: str | None = None
        self._asked = self._answered = self._failures = 0
        self._hurry = self._has_ended = False
        self._query_id: str | None = None
        self._listener = _Listener(self.wake)
        self._thread = threading.Thread(target=self._run, name=f"follow-{self.group_id}", daemon=True)

    @property
    def state(self) -> State:
        """The state: "following"; "stopped" for good, with the reason in `error`; or "closed"."""
        return self._state

    @property
    def error(self) -> str | None:
        """The present problem as a sentence; None if there is none."""
        return self._error

    @property
    def committed(self) -> Mapping[TopicPartition, int]:
        """The offsets that the group has committed for this query, as the cluster last acknowledged them."""
        return self._progress.last.committed

    @property
    def pending(self) -> Mapping[TopicPartition, int]:
        """The end offsets of the newest finished batch, as far as they are known and not committed yet."""
        return self._progress.last.pending

    @property
    def missing(self) -> frozenset[TopicPartition]:
        """Partitions that the query has read and that the cluster does not have: they are not committed."""
        return self._progress.last.missing

    def start(self, timeout_s: float) -> None:
        """Commit the checkpoint's offsets, then start to follow. Raises ProgressError."""
        try:
            self._begin(time.monotonic() + timeout_s)
        except ProgressError:
            self._group.close()
            raise
        self._spark.streams.addListener(self._listener)
        atexit.register(self.close)
        self._asked += 1  # A batch may have ended before the listener was added.
        self._thread.start()

    def wake(self, query_id: str, *, has_ended: bool = False) -> None:
        """Have the thread read the checkpoint soon, because the query `query_id` has news."""
        with self._changed:
            if self._query_id in (None, query_id):
                self._asked += 1
                self._has_ended |= has_ended
                self._changed.notify_all()

    def flush(self, timeout_s: float = FLUSH_TIMEOUT_S) -> bool:
        """Commit the ends of the newest batch finished by now; return whether that was done within `timeout_s`."""
        with self._changed:
            self._asked += 1
            asked, self._hurry, self._failures = self._asked, True, min(self._failures, 1)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._answered >= asked or self._state != "following", timeout_s)
            return self._answered >= asked

    def close(self, timeout_s: float = FLUSH_TIMEOUT_S) -> bool:
        """Flush and stop following. Return whether the flush succeeded; a failure is also logged."""
        if self._state == "closed":
            return self._answered >= self._asked
        deadline_s = time.monotonic() + timeout_s
        is_flushed = self._state == "following" and self.flush(timeout_s)
        if not is_flushed:
            reason = self._error or f"not done within {timeout_s:g} s"
            _log.error("group %s may lack the newest offsets of its query: %s", self.group_id, reason)
        elif self._query_id is None:
            _log.warning(
                "group %s: nothing was committed, for no query has used the checkpoint", self.group_id
            )
        with self._changed:
            self._state = "closed"
            self._changed.notify_all()
        atexit.unregister(self.close)
        try:
            self._spark.streams.removeListener(self._listener)
        except (Py4JError, OSError) as error:  # The JVM ended before this process, and the listener with it.
            _log.debug("the listener was not removed: %s", error)
        self._thread.join(max(0.0, deadline_s - time.monotonic()))
        return is_flushed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, deadline_s: float) -> None:
        """Take the first step in the caller's thread, and repeat it until `deadline_s`. Raises ProgressError."""
        while True:
            try:
                self._group.require_no_members()
                self._step()
                return
            except PassingError as error:
                if time.monotonic() > deadline_s:
                    raise ProgressError(f"group {self.group_id} cannot be followed: {error}") from error
                time.sleep(FIRST_RETRY_S)

    def _step(self) -> None:
        if self._query_id is None:
            self._query_id = self._checkpoint.query_id()
        self._progress.step(time.monotonic())

    def _run(self) -> None:
        """Take a step whenever it is asked for, until closed or stopped: the body of the thread."""
        while (asked := self._next_request()) is not None:
            try:
                self._step()
            except PassingError as error:
                self._on_failure(error)
            except Exception as error:  # Recorded and logged: a thread has no caller to raise it to.
                self._on_refusal(error)
                break
            else:
                self._on_success(asked)
        self._group.close()

    def _next_request(self) -> int | None:
        """Wait for a request or the next retry; return the number of the newest request, None once closed."""
        with self._changed:
            if self._failures:
                delay_s = min(LAST_RETRY_S, FIRST_RETRY_S * 2.0 ** (self._failures - 1))
                self._changed.wait_for(lambda: self._hurry or self._state == "closed", delay_s)
            else:
                self._changed.wait_for(self._has_work, LOOK_EVERY_S)
            self._hurry = False
            return None if self._state == "closed" else self._asked

    def _has_work(self) -> bool:
        return self._asked > self._answered or self._hurry or self._state == "closed"

    def _on_success(self, asked: int) -> None:
        with self._changed:
            if self._failures:
                _log.info("group %s: offsets are committed again", self.group_id)
            if self._has_ended:
                _log.info("group %s has all offsets of its query, which has ended", self.group_id)
            self._failures, self._error, self._has_ended, self._answered = 0, None, False, asked
            self._changed.notify_all()

    def _on_failure(self, error: PassingError) -> None:
        """Record the failure; log it when it begins and when the query has ended meanwhile, not at every retry."""
        with self._changed:
            if self._failures == 0 or self._has_ended:
                what = (
                    "the query has ended, and its newest offsets wait" if self._has_ended else "offsets wait"
                )
                _log.warning("group %s: %s to be committed, it is tried on: %s", self.group_id, what, error)
            self._error, self._has_ended = str(error), False
            self._failures = min(self._failures + 1, FAILURES_COUNTED_MAX)

    def _on_refusal(self, error: Exception) -> None:
        """Stop following, record the reason and log it, also if it is a bug of ours."""
        is_ours = not isinstance(error, ProgressError)
        _log.error(
            "group %s is followed no longer: %s", self.group_id, error, exc_info=error if is_ours else None
        )
        with self._changed:
            self._error, self._state = str(error), "stopped" if self._state == "following" else self._state
            self._changed.notify_all()
        if self._stop_query:
            for query in self._spark.streams.active:
                if str(query.id) == self._query_id:
                    _log.error("the query %s is stopped, as was asked", query.id)
                    query.stop()


class _Listener(StreamingQueryListener):
    """Calls `wake` for the events of queries. Spark waits for its methods, so they do next to nothing."""

    def __init__(self, wake: Callable[..., None]) -> None:
        self._wake = wake

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing: no batch has ended."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self._wake(str(event.progress.id))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._wake(str(event.id), has_ended=True)
