"""Brings a group to where a checkpoint stands, in single steps. No threads, no waiting, no clock.

Before each commit the group's offsets are fetched, since Kafka has no conditional commit: this way it shows
that another client commits to it as well.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from muster.spark.progress.positions import (
    ConflictError,
    Positions,
    Standing,
    conflicts,
    due,
    listed,
    of_topics,
)
from protocol.topic_partition import TopicPartition

REFRESH_EVERY_S: Final = 3_600.0  # Offsets expire if they are not committed again, by default after 7 days.

_log = logging.getLogger(__name__)
_START_ADVICE: Final = (
    "If the group shall go back to where the query stands, follow it with on_conflict='reset'"
)
_LATER_ADVICE: Final = (
    "Another client commits to it, or a topic was created again: nothing more is committed to it"
)


class Query(Protocol):
    """A query's checkpoint. Raises PassingError and CheckpointError."""

    def standing(self) -> Standing: ...


class OffsetStore(Protocol):
    """The committed offsets of one group, to read and to commit. Raises PassingError and LiveMembersError."""

    @property
    def group_id(self) -> str: ...

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]: ...

    def committed_in(self, topics: frozenset[str] | None) -> dict[TopicPartition, int]:
        """The group's committed offsets in `topics`, or in all topics if None."""

    def commit(self, positions: Positions) -> frozenset[TopicPartition]:
        """Commit `positions`; return the partitions that the cluster does not have."""


UNKNOWN: Final = Standing(None, {})


@dataclass(frozen=True, slots=True)
class ProgressSnapshot:
    """The state of query and group as of the last step."""

    standing: Standing = UNKNOWN
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    missing: frozenset[TopicPartition] = frozenset()

    @property
    def pending(self) -> dict[TopicPartition, int]:
        """The newest finished batch's offsets that are not committed, without partitions that do not exist."""
        ends = due(self.standing, self.committed)
        return {where: offset for where, offset in ends.items() if where not in self.missing}


class GroupProgress:
    """Brings one query's group forward; `topics`, unless None, limits it to partitions of these topics.

    With `may_reset` the first commit, and only that, may move the group backwards.
    """

    def __init__(
        self,
        query: Query,
        group: OffsetStore,
        topics: frozenset[str] | None = None,
        *,
        may_reset: bool = False,
    ) -> None:
        self._query = query
        self._group = group
        self._topics = topics
        self._may_reset = may_reset
        self._is_compared = False
        self._asked_at_s: float | None = None
        self.last = ProgressSnapshot()

    def step(self, now_s: float) -> None:
        """Read where the query stands, and commit it if that is new. Raises PassingError, ProgressError.

        A step that fails leaves `last` with what it had found; the next one starts from the beginning.
        """
        found = self._query.standing()
        standing = Standing(found.batch_id, of_topics(found.offsets, self._topics))
        before = self.last
        self.last = ProgressSnapshot(standing, before.committed, before.missing)
        is_stale = self._asked_at_s is None or now_s - self._asked_at_s >= REFRESH_EVERY_S
        if is_stale or self.last.pending or standing != before.standing:
            self._bring(standing, refresh=is_stale)
            self._asked_at_s = now_s

    def _bring(self, standing: Standing, *, refresh: bool) -> None:
        if standing.is_fresh:  # Any topic may be the query's.
            group = self._group.committed_in(self._topics)
        else:
            group = self._group.committed(standing.offsets)
        self._require_no_conflict(standing, group)
        ends = due(standing, {} if refresh else group)
        missing = self._group.commit(ends) if ends else frozenset()
        if new := missing - self.last.missing:
            names = listed([f"{where.topic}-{where.partition}" for where in sorted(new)])
            _log.warning(
                "group %s: left out, for the cluster does not have them: %s", self._group.group_id, names
            )
        committed = {where: offset for where, offset in standing.offsets.items() if where not in missing}
        self.last = ProgressSnapshot(standing, committed if standing.batch_id is not None else {}, missing)
        self._may_reset = self._may_reset and standing.batch_id is None

    def _require_no_conflict(self, standing: Standing, group: Positions) -> None:
        """Raises ConflictError for a conflict, unless a reset may resolve it; the reset is logged."""
        found = conflicts(standing, group) if not (standing.is_fresh and self._is_compared) else []
        if found and not self._may_reset:
            advice = _LATER_ADVICE if self._is_compared else _START_ADVICE
            raise ConflictError(self._group.group_id, found, advice)
        if found and standing.batch_id is not None:
            _log.warning("group %s is set back, as was asked: %s", self._group.group_id, listed(found))
        self._is_compared = True
