"""What is set for single groups, and its changes, which clients make while groups are served.

A change is on the disk before it is in force. All groups are in one file, so changes that come while it is written
are gathered and written together: a request that names thousands of groups writes it twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Final

import structlog

from coordinator.topics.config_values import InvalidConfig
from coordinator.topics.group_configs import (
    BOUNDED,
    FILE_NAME,
    MAX_GROUPS,
    GroupConfigs,
    pair_problems,
    parsed,
    within_bounds,
)
from coordinator.topics.settings import TopicSettings
from coordinator.topics.store import TopicStore
from coordinator.topics.workers import Workers
from protocol.errors import ErrorCode, OnDone
from storage.files import StorageError

NOTHING_SET: Final[Mapping[str, str]] = {}

log = structlog.get_logger("muster.groups")


class GroupRegistry:
    """The settings of groups, as texts by Kafka's names. All methods run on the event-loop thread."""

    def __init__(self, store: TopicStore, workers: Workers) -> None:
        """`workers` must run one piece of work at a time."""
        self._on_altered: list[Callable[[str], None]] = []
        self._store = store
        self._workers = workers
        self._texts: dict[str, Mapping[str, str]] = {}  # By group id; not of groups that nothing is set for.
        self._changing: dict[str, list[OnDone]] = {}
        self._gathered: dict[str, Mapping[str, str]] = {}  # Changes that wait until the file was written.
        self._is_writing = False
        self._added = 0  # Number of groups that are changing and had no settings before.

    def open(self) -> None:
        """Read what is stored. Waits for the disk. Raises StorageError; InvalidConfig: this version refuses it."""
        for group_id, texts in self._store.group_configs().items():
            try:
                self._texts[group_id] = parsed(texts)
            except InvalidConfig as error:
                raise InvalidConfig(f"{self._store.path / FILE_NAME}, group {group_id}: {error}") from error

    def follow(self, on_altered: Callable[[str], None]) -> None:
        """Call `on_altered` with the id of each group that something is set for: now, and when that changes."""
        self._on_altered.append(on_altered)
        for group_id in self._texts:
            on_altered(group_id)

    def all(self) -> GroupConfigs:
        """Return what is set, by group id; only groups that something is set for."""
        return self._texts

    def texts(self, group_id: str) -> Mapping[str, str]:
        """Return what is set for a group, whether there is such a group or not."""
        return self._texts.get(group_id, NOTHING_SET)

    def numbers_in_force(self, group_id: str, settings: TopicSettings) -> dict[str, int]:
        """Return the numbers that are set for a group, moved within the broker's bounds of this start."""
        texts = dict(self.texts(group_id))
        for key in BOUNDED:
            if key.name not in texts:
                continue
            value = int(texts[key.name])
            in_force = within_bounds(key, value, settings)
            if in_force != value:
                words = "a group's setting is beyond the broker's bounds"
                log.warning(words, group=group_id, setting=key.name, value=value, in_force=in_force)
            texts[key.name] = str(in_force)
        for problem in pair_problems(texts, settings):
            log.warning("a group's settings do not fit together", group=group_id, problem=problem)
        return {key.name: int(texts[key.name]) for key in BOUNDED if key.name in texts}

    # Changing.

    def has_room_for(self, group_id: str) -> bool:
        """Whether settings of that group stay within MAX_GROUPS."""
        return group_id in self._texts or len(self._texts) + self._added < MAX_GROUPS

    def is_changing(self, group_id: str) -> bool:
        """Whether a change of the group's settings is under way."""
        return group_id in self._changing

    def when_changed(self, group_id: str, done: OnDone) -> None:
        """Call `done` when the change of the group's settings that is under way has ended."""
        self._changing[group_id].append(done)

    def alter(self, group_id: str, texts: Mapping[str, str], done: OnDone) -> None:
        """Replace what is set for a group that is not changing; the caller has checked texts and room.

        `done` is called with the outcome: NONE or KAFKA_STORAGE_ERROR.
        """
        self._changing[group_id] = [done]
        self._gathered[group_id] = texts
        self._added += group_id not in self._texts
        if not self._is_writing:
            self._write()

    def _write(self) -> None:
        changes, self._gathered = self._gathered, {}
        self._is_writing = True
        self._workers.submit(
            lambda: self._store.configure_groups(changes), lambda worked: self._on_written(changes, worked)
        )

    def _on_written(self, changes: GroupConfigs, worked: Future[None]) -> None:
        self._is_writing = False
        error = ErrorCode.NONE
        try:
            worked.result()
        except StorageError as failure:
            log.error("settings of groups cannot be changed", error=str(failure))
            error = ErrorCode.KAFKA_STORAGE_ERROR
        waiting = [self._changing.pop(group_id) for group_id in changes]
        self._added -= sum(group_id not in self._texts for group_id in changes)
        if not error:
            self._apply(changes)
        for callbacks in waiting:
            for each in callbacks:
                each(error)
        if self._gathered and not self._is_writing:  # One that waited for its group may have begun the next.
            self._write()

    def _apply(self, changes: GroupConfigs) -> None:
        for group_id, texts in changes.items():
            if texts:
                self._texts[group_id] = texts
            else:
                self._texts.pop(group_id, None)
            log.info("group altered", group=group_id, settings=dict(texts))
            for on_altered in self._on_altered:
                on_altered(group_id)
