"""Journals of the storage tests: their files alone, and a directory of logs that are written behind one."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from storage.files import Files
from storage.journal.files import JournalFiles
from storage.journal.frames import Part
from storage.journal.journal import Journal
from storage.log.config import LogConfig
from storage.log.opening import Opening
from storage.log.staged_log import StagedLog
from tests.storage.logs import NOW_MS, OS_SMALL, batch

DIRECTORY_ID = "J_H0q0i1RcGJ0k0T0vYQDA"
MARK = b"12345678"


def journal_files(
    path: Path, files: Files | None = None, *, is_synced: bool = True, directory_id: str = DIRECTORY_ID
) -> JournalFiles:
    return JournalFiles(files or Files(), path, directory_id, is_synced=is_synced)


def part(number: int) -> list[Part]:
    """What the frame `number` of the tests of files has: two logs, their bytes no batches."""
    return [Part("t-0", [b"frame %d" % number, b"!"]), Part("t-1", [b"and %d" % number])]


def found(files: JournalFiles) -> list[tuple[int, list[tuple[str, bytes]]]]:
    """What a start reads: sequences and parts."""
    frames = files.read()
    return [(frame.sequence, [(name, bytes(data)) for name, data in frame.parts]) for frame in frames]


def expected(first: int, last: int) -> list[tuple[int, list[tuple[str, bytes]]]]:
    """What is read of frames `first` to `last` that were made by `part`."""
    return [
        (number, [(name, b"".join(bytes(each) for each in batches)) for name, batches in part(number)])
        for number in range(first, last + 1)
    ]


@dataclass
class Shards:
    """The logs of some shards and their journal, as one life of a process has them."""

    path: Path
    files: Files
    count: int = 2
    config: LogConfig = OS_SMALL
    is_synced: bool = True
    logs: list[StagedLog] = field(init=False)
    journal: Journal = field(init=False)

    def __post_init__(self) -> None:
        """A start: the journal is read, the logs are added but not opened."""
        self.journal = Journal(journal_files(self.path, self.files, is_synced=self.is_synced))
        self.journal.read()
        self.logs = []
        for index in range(self.count):
            log = StagedLog(self.path / f"t-{index}", self.config, self.files, Opening(is_replayed=True))
            self.journal.add(log)
            self.logs.append(log)

    def opened(self) -> Shards:
        for log in self.logs:
            log.recover()
        return self

    def put(self, index: int = 0, batches: int = 1) -> None:
        """Stage so many batches of one record."""
        for _ in range(batches):
            self.logs[index].append(batch(), wall_ms=NOW_MS)

    def commit(self, index: int = 0, batches: int = 1) -> None:
        """The same, and have them in the journal."""
        self.put(index, batches)
        assert self.journal.write([self.logs[index]]) == {}

    def offsets(self, index: int = 0) -> list[int]:
        """The base offsets that a load sees."""
        return [found.base_offset for found, _ in self.logs[index].batches(0)]

    def again(self, files: Files | None = None) -> Shards:
        """The process is gone, and the next one starts; what was written is there."""
        for log in self.logs:
            for segment in log.segments:
                segment.close()
        return Shards(self.path, files or self.files, self.count, self.config, self.is_synced)
