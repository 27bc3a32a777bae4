"""Bytes of a small directory flipped, files cut at any length: never a wrong answer, never a crash.

Each tree takes other bytes and other bits, a sixth of them; `make soak-disk` takes every byte.

What a start may do with a damaged directory: refuse it in one sentence; serve without the partition whose log is
damaged, which is reported; or find everything as it was. What no checksum covers has to show in one of these
ways, or be nothing that an answer depends on. Which files may stop a start, and which a partition, is said here.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.groups.partitioning import partition_for
from harness.doubles.faulty_files import FaultyFiles
from harness.rotation import tree_id
from protocol.records.batch import walk
from storage.directory.log_directory import LogDirectoryError
from storage.files import StorageError
from storage.journal.frames import decode_file_header, walk_frames
from tests.mutations.mutants import ROOT
from tests.server.crash_world import SHARDS, CrashWorld, found, quick_folder
from tests.server.test_crash_sweep import QuickFiles

TURN = int(tree_id(ROOT), 16)  # Another tree, other bytes of each file and other bits of each byte.
STRIDE = int(os.environ.get("MUSTER_FLIP_STRIDE", "6"))  # 1 takes every byte.
REFUSALS = (LogDirectoryError, StorageError)
STOPS_A_START = {"meta.properties": LogDirectoryError, "topics.json": StorageError}
STOPS_ITS_PARTITION = {"partition.metadata", "leader-epoch-checkpoint"}
STOPS_ANY_PARTITION = {"recovery-point-offset-checkpoint"}  # The one whose point lies beyond its log then.
NOT_IN_ANSWERS = {".lock"}
LEADER_EPOCH = range(12, 16)  # Of a batch: the only bytes that nothing checks, and no answer depends on.

Keys = frozenset[tuple[str, ...]]
Damage = Callable[[bytes, int], bytes]
Healthy = tuple[Path, Any, dict[Path, int]]
"""A directory, what is in it, and how far the logs of shards were synced; without an entry: all of it."""
ALL_IS_WELL: Keys = frozenset()


@pytest.fixture(scope="module", params=["clean", "killed"])
def healthy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Healthy:
    """A small directory after a clean shutdown, or after a kill some commits after a checkpoint."""
    root = tmp_path_factory.mktemp(f"healthy-{request.param}")
    with CrashWorld.opened(root, FaultyFiles(root)) as world:
        world.create_topic("t")
        world.rebalance("consumers")
        for number in range(1, 7):
            world.commit("g", number, "x" * 100)
            world.produce("t", 100)
        for runner in world.runners:
            runner.log.roll(world.wall)
        world.commit("g", 7)
        world.commit("g1", 1)
        world.produce("t")
        world.retain()
        synced = {
            path.relative_to(root): path.stat().st_size for path in root.rglob("__consumer_offsets-*/*.log")
        }
        world.commit("g", 8)
        world.commit("g1", 2)
        if request.param == "clean":
            world.stop()
            synced.clear()
    return root, world.accounts, synced


def is_healed(path: Path, byte: int, healthy: Healthy, damage: Damage) -> bool:
    """Whether damage there is mended or cut by a start: the journal has what the segment has not synced.

    A last frame is cut as if it were torn, and here its batches are in a segment; so is all of a file without one.
    """
    root, _, synced = healthy
    if path.suffix == ".journal":
        *_, last = walk_frames(memoryview(path.read_bytes()), *start_of(path))
        return damage is cut or byte >= last.position
    return byte >= synced.get(path.relative_to(root), path.stat().st_size)


def start_of(path: Path) -> tuple[int, int, bytes]:
    header, position = decode_file_header(memoryview(path.read_bytes()))
    return position, header.first_sequence, header.mark


REFUSED = object()


def found_or_refused(world: CrashWorld, key: Any) -> Any:
    try:
        return found(world, key)
    except StorageError:  # What KAFKA_STORAGE_ERROR is answered to.
        return REFUSED


def look(directory: Path, accounts: Any) -> Keys | Exception:
    """Start on a damaged directory: what is refused, or what refuses the start. Nothing wrong is found."""
    try:
        with CrashWorld.opened(directory, QuickFiles(), tolerant=True) as world:
            answers = {key: found_or_refused(world, key) for key in accounts}
    except REFUSALS as refusal:
        return refusal
    refused = {key for key, value in answers.items() if value is REFUSED}
    for key in accounts.keys() - refused:
        assert answers[key] == accounts[key].sent[-1], key
    return frozenset(refused)


def check(path: Path, outcome: Keys | Exception, of_partitions: dict[str, Keys], is_covered: bool) -> None:
    """What may come of damage to this file, and no more than that: `is_covered` bytes of a log must show."""
    of_partition = of_partitions.get(path.parent.name, ALL_IS_WELL)
    if isinstance(outcome, Exception):
        stops = LogDirectoryError if path.suffix == ".journal" else STOPS_A_START.get(path.name)
        assert type(outcome) is stops, f"the start is refused: {outcome}"
        assert is_covered
        assert path.name in str(outcome)
    elif path.suffix == ".log":
        assert outcome == (of_partition if is_covered else ALL_IS_WELL)
    elif path.suffix == ".journal":
        assert not is_covered
        assert outcome == ALL_IS_WELL
    elif path.name in STOPS_ITS_PARTITION or path.suffix == ".index":
        assert outcome in (ALL_IS_WELL, of_partition)
    elif path.name in STOPS_ANY_PARTITION:
        assert outcome in (ALL_IS_WELL, *of_partitions.values())
    else:
        assert outcome == ALL_IS_WELL


def keys_by_partition(accounts: Any) -> dict[str, Keys]:
    """What is found in each partition's log, by the name of its directory."""
    found_in: dict[str, set[tuple[str, ...]]] = {}
    for key in accounts:
        if key[0] != "topic":
            is_topics = key[0] == "records"
            shard = f"__consumer_offsets-{partition_for(key[1], SHARDS)}"
            found_in.setdefault(f"{key[1]}-0" if is_topics else shard, set()).add(key)
    return {name: frozenset(keys) for name, keys in found_in.items()}


def files_of(root: Path) -> list[Path]:
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    return [path for path in files if path.name not in NOT_IN_ANSWERS and path.stat().st_size]


def uncovered(path: Path) -> set[int]:
    """The bytes of a log that may be anything."""
    if path.suffix != ".log":
        return set()
    return {batch.position + byte for batch in walk(path.read_bytes()) for byte in LEADER_EPOCH}


def base_offsets(path: Path) -> set[int]:
    """The bytes of a log that hold base offsets."""
    batches = walk(path.read_bytes()) if path.suffix == ".log" else ()
    return {batch.position + byte for batch in batches for byte in range(8)}


def flipped(data: bytes, byte: int) -> bytes:
    return data[:byte] + bytes([data[byte] ^ 1 << (byte + TURN) % 8]) + data[byte + 1 :]


def cut(data: bytes, length: int) -> bytes:
    return data[:length]


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """Where the copies go."""
    with quick_folder(tmp_path) as folder:
        yield folder / "copy"


@pytest.mark.parametrize("damage", [flipped, cut])
def test_damage_anywhere_is_noticed_or_means_nothing(scratch: Path, healthy: Healthy, damage: Damage) -> None:
    root, accounts, _ = healthy
    of_partitions = keys_by_partition(accounts)
    count, wrong = 0, []
    for path in files_of(root):
        whole, free = path.read_bytes(), uncovered(path)
        for byte in range((TURN + len(whole)) % STRIDE, len(whole), STRIDE):
            shutil.rmtree(scratch, ignore_errors=True)
            shutil.copytree(root, scratch)
            (scratch / path.relative_to(root)).write_bytes(damage(whole, byte))
            count += 1
            try:
                is_covered = damage is cut or byte not in free
                outcome = look(scratch, accounts)
                if is_healed(path, byte, healthy, damage):
                    # No checksum covers a base offset: one beyond the log's end is reported, not cut.
                    is_covered = damage is flipped and outcome != ALL_IS_WELL and byte in base_offsets(path)
                check(path, outcome, of_partitions, is_covered)
            except Exception as error:
                wrong.append(f"{path.relative_to(root)}, byte {byte} of {len(whole)}: {error!r}"[:300])
    assert wrong == []
    assert count > 3000 // STRIDE
