"""A whole daemon, seen from the operating system: the answer to a commit leaves after the sync of its bytes.

The daemon runs under strace, which also makes every fdatasync take SYNC_S longer: an answer that does not wait
for it is long gone before. Where strace is missing the tests are skipped, and fail where everything is required.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.daemon import MusterDaemon
from harness.processes import HOST, wait_until
from harness.wire import WireClient
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.conftest import JAVA_IS_REQUIRED
from tests.server.asking import GROUP, TOPIC, committed, make_topic

SYNC_S = 0.2
DEADLINE_S = 60
SENDING = ("write", "writev", "sendto", "sendmsg", "sendmmsg")
WRITING = ("pwrite64", "pwritev", "pwritev2")
SYNCING = ("fdatasync", "fsync", "sync_file_range")
MARKS = ("mark-0", "mark-1", "mark-2")
CALL = re.compile(r"^(\d+) +(\w+)\(\d+<(.*?)>(?=[,) ])(.*)$")
RESUMED = re.compile(r"^(\d+) +<\.\.\. (\w+) resumed>(.*)$")


@dataclass(frozen=True, slots=True)
class Call:
    """A system call; `begun` and `ended` are lines of the trace, so they show what came before what."""

    name: str
    file: str
    text: str
    begun: int
    ended: int


class WatchedDaemon(MusterDaemon):
    """Runs under strace, which writes the calls that reach a disk or a socket to `trace_path`."""

    start_timeout_s = DEADLINE_S

    @property
    def trace_path(self) -> Path:
        return self.data_dir / "trace"

    def _command(self) -> list[str]:
        traced = f"trace={','.join((*SENDING, *WRITING, *SYNCING))}"
        slowed = f"inject=fdatasync:delay_enter={int(SYNC_S * 1e6)}"
        strace = ["strace", "-f", "--seccomp-bpf", "-yy", "-s", "4096", "-o", str(self.trace_path)]
        return [*strace, "-e", traced, "-e", slowed, "--", *super()._command()]

    def calls(self) -> list[Call]:
        """Those that have ended so far, by the line in which they began."""
        found: list[Call] = []
        begun: dict[str, tuple[int, re.Match[str]]] = {}
        for number, line in enumerate(self.trace_path.read_text(errors="replace").splitlines()):
            resumed = RESUMED.match(line)
            if resumed and resumed[1] in begun:
                started, call = begun.pop(resumed[1])
                found.append(Call(call[2], call[3], call[4] + resumed[3], started, number))
            elif entered := CALL.match(line):
                if line.endswith("<unfinished ...>"):
                    begun[entered[1]] = (number, entered)
                else:
                    found.append(Call(entered[2], entered[3], entered[4], number, number))
        return sorted(found, key=lambda call: call.begun)

    def sent_to(self, address: str) -> list[Call]:
        """The calls that sent something to this client."""
        return [call for call in self.calls() if call.name in SENDING and address in call.file]


@pytest.fixture(scope="module")
def strace(tmp_path_factory: pytest.TempPathFactory) -> None:
    """It is here, and may watch: not every container lets a process be traced."""
    trace = tmp_path_factory.mktemp("strace") / "trace"
    tried = ["strace", "-f", "--seccomp-bpf", "-e", "trace=write", "-o", str(trace), "--", "echo", "seen"]
    try:
        ran = subprocess.run(tried, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        missing = "" if "seen" in trace.read_text() else f"strace cannot trace: {ran.stderr.strip()}"
    except FileNotFoundError as error:
        missing = f"needs strace: {error}"
    if missing and JAVA_IS_REQUIRED:
        pytest.fail(f"MUSTER_REQUIRE_JAVA=1: {missing}")
    if missing:
        pytest.skip(missing)


@contextmanager
def watched(directory: Path, policy: str) -> Iterator[WatchedDaemon]:
    settings = {
        "muster.flush.policy": policy,
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
    }
    with WatchedDaemon(directory, settings) as daemon:
        with WireClient(daemon.bootstrap) as client:
            make_topic(client)
        yield daemon


def marked_commit(mark: str) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=mark)
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
    return OffsetCommitRequest(group_id=GROUP, topics=[topic])


def commit_each(daemon: WatchedDaemon) -> tuple[list[Call], list[tuple[Call, Call]]]:
    """Commit MARKS one after the other: all calls, and of each commit the write to the log and the answer."""
    with WireClient(daemon.bootstrap) as client:
        for mark in MARKS:
            assert committed(client.ask(marked_commit(mark), 8)) == 0
        address = f"->{HOST}:{client.socket.getsockname()[1]}]"
        wait_until(lambda: len(daemon.sent_to(address)) == len(MARKS), "all answers traced", DEADLINE_S)
    calls = daemon.calls()
    pairs = []
    for mark, answer in zip(MARKS, daemon.sent_to(address), strict=True):
        write, *behind = [call for call in calls if call.name in WRITING and mark in call.text]
        assert "/muster-journal/" in write.file
        assert all("__consumer_offsets-0/" in each.file for each in behind)
        pairs.append((write, answer))
    return calls, pairs


def test_a_commit_is_answered_after_the_sync_of_its_bytes(strace: None, tmp_path: Path) -> None:
    with watched(tmp_path, "fsync") as daemon:
        calls, pairs = commit_each(daemon)
    for write, answer in pairs:
        of_log = [call for call in calls if call.name == "fdatasync" and call.file == write.file]
        (sync,) = [call for call in of_log if write.ended < call.begun and call.ended < answer.begun]
        assert sync.text.endswith("= 0 (DELAYED)")


def test_under_the_os_policy_a_commit_awaits_its_write_and_no_sync(strace: None, tmp_path: Path) -> None:
    with watched(tmp_path, "os") as daemon:
        calls, pairs = commit_each(daemon)
    began = pairs[0][0].begun  # The header of the journal is synced before.
    for write, answer in pairs:
        assert write.ended < answer.begun
        syncs = [call for call in calls if call.name in SYNCING and call.file == write.file]
        assert not [call for call in syncs if call.begun > began]
