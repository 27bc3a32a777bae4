"""What is set for named resources of one kind, and its changes, which clients make while the daemon serves.

A change is on the disk before it is in force. All resources are in one file, so changes that come while it is
written are gathered and written together: a request that names thousands of groups writes it twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

import structlog

from coordinator.topics.config_values import InvalidConfig
from coordinator.topics.resource_configs import ConfigFile, ResourceConfigs
from coordinator.topics.store import TopicStore
from coordinator.topics.workers import Workers
from protocol.errors import ErrorCode, OnDone
from storage.files import StorageError

NOTHING_SET: Final[Mapping[str, str]] = {}
LOGGED_ONE_BY_ONE: Final = 10
"""Resources of one write of the file that have a line of the log each; of more only the number is logged."""
SHOWN_CHARS: Final = 256
"""Characters of a name, and of a value, in a line of the log: clients choose both."""

log = structlog.get_logger("muster.settings")


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """A kind of resource: its name for people, its file, and what reads stored texts (raises InvalidConfig)."""

    name: str
    file: ConfigFile
    parse: Callable[[Mapping[str, str]], Mapping[str, str]]


class ResourceRegistry:
    """The settings of resources, as texts by Kafka's names. All methods run on the event-loop thread."""

    def __init__(self, kind: ResourceKind, store: TopicStore, workers: Workers) -> None:
        """`workers` must run one piece of work at a time."""
        self._kind = kind
        self._on_altered: list[Callable[[str], None]] = []
        self._store = store
        self._workers = workers
        self._texts: dict[str, Mapping[str, str]] = {}  # By name; not of those that nothing is set for.
        self._changing: dict[str, list[OnDone]] = {}
        self._gathered: dict[str, Mapping[str, str]] = {}  # Changes that wait until the file was written.
        self._is_writing = False
        self._added = 0  # Number of resources that are changing and had no settings before.

    def open(self) -> None:
        """Read what is stored. Waits for the disk. Raises StorageError; InvalidConfig: this version refuses it."""
        kind = self._kind
        for name, texts in self._store.resource_configs(kind.file).items():
            try:
                self._texts[name] = kind.parse(texts)
            except InvalidConfig as error:
                where = self._store.path / kind.file.file_name
                raise InvalidConfig(f"{where}, {kind.name} {name}: {error}") from error

    def follow(self, on_altered: Callable[[str], None]) -> None:
        """Call `on_altered` with the name of each resource that something is set for: now, and on each change."""
        self._on_altered.append(on_altered)
        for name in self._texts:
            on_altered(name)

    def all(self) -> ResourceConfigs:
        """Return what is set, by name; only resources that something is set for."""
        return self._texts

    def texts(self, name: str) -> Mapping[str, str]:
        """Return what is set for a resource; nothing for one that is not known."""
        return self._texts.get(name, NOTHING_SET)

    # Changing.

    def has_room_for(self, name: str, most: int) -> bool:
        """Whether settings of that resource stay within `most` resources."""
        return name in self._texts or len(self._texts) + self._added < most

    def is_changing(self, name: str) -> bool:
        """Whether a change of the resource's settings is under way."""
        return name in self._changing

    def when_changed(self, name: str, done: OnDone) -> None:
        """Call `done` when the change of the resource's settings that is under way has ended."""
        self._changing[name].append(done)

    def alter(self, name: str, texts: Mapping[str, str], done: OnDone) -> None:
        """Replace what is set for a resource that is not changing; the caller has checked texts and room.

        `done` is called with the outcome: NONE or KAFKA_STORAGE_ERROR.
        """
        self._changing[name] = [done]
        self._gathered[name] = texts
        self._added += name not in self._texts
        if not self._is_writing:
            self._write()

    def _write(self) -> None:
        changes, self._gathered = self._gathered, {}
        self._is_writing = True
        self._workers.submit(
            lambda: self._store.configure_resources(self._kind.file, changes),
            lambda worked: self._on_written(changes, worked),
        )

    def _on_written(self, changes: ResourceConfigs, worked: Future[None]) -> None:
        self._is_writing = False
        error = ErrorCode.NONE
        try:
            worked.result()
        except StorageError as failure:
            log.error(f"settings of a {self._kind.name} cannot be changed", error=str(failure))
            error = ErrorCode.KAFKA_STORAGE_ERROR
        waiting = [self._changing.pop(name) for name in changes]
        self._added -= sum(name not in self._texts for name in changes)
        if not error:
            self._apply(changes)
        for callbacks in waiting:
            for each in callbacks:
                each(error)
        # One that waited for its resource may have begun the next.
        if self._gathered and not self._is_writing:
            self._write()

    def _apply(self, changes: ResourceConfigs) -> None:
        if len(changes) > LOGGED_ONE_BY_ONE:
            log.info(f"{self._kind.name} altered", count=len(changes))
        for name, texts in changes.items():
            if texts:
                self._texts[name] = texts
            else:
                self._texts.pop(name, None)
            if len(changes) <= LOGGED_ONE_BY_ONE:
                settings = {key: text[:SHOWN_CHARS] for key, text in texts.items()}
                log.info(f"{self._kind.name} altered", name=name[:SHOWN_CHARS], settings=settings)
            for on_altered in self._on_altered:
                on_altered(name)
