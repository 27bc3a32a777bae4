"""Every byte of a small directory flipped, every file cut at every length: never a wrong answer, never a crash.

What a start may do with a damaged directory: refuse it in one sentence; serve without the partition whose log is
damaged, which is reported; or find everything as it was. What no checksum covers has to show in one of these
ways, or be nothing that an answer depends on.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from coordinator.topics.config_values import InvalidConfig
from storage.files import StorageError
from storage.log_directory import LogDirectoryError
from tests.server.crash_world import CrashWorld, found, opened
from tests.server.test_crash_sweep import QuickFiles
from tests.storage.faulty_files import FaultyFiles

MASK = 0x41
STRIDE = int(os.environ.get("MUSTER_FLIP_STRIDE", "13"))  # 1 takes every byte.
FIRST = int(os.environ.get("MUSTER_FLIP_FIRST", "0"))
REFUSALS = (LogDirectoryError, StorageError, InvalidConfig)
NOT_IN_ANSWERS = {".lock"}


@pytest.fixture(scope="module", params=["clean", "killed"])
def healthy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A small directory after a clean shutdown, or after a kill with a checkpoint; and what is in it."""
    root = tmp_path_factory.mktemp(f"healthy-{request.param}")
    with opened(root, FaultyFiles(root)) as world:
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
        world.logs.checkpoint()
        if request.param == "clean":
            world.stop()
    return root, world.accounts


def answers(world: CrashWorld, accounts: Any) -> dict[Any, Any]:
    return {key: found_or_refused(world, key) for key in accounts}


def found_or_refused(world: CrashWorld, key: Any) -> Any:
    try:
        return found(world, key)
    except StorageError:  # What KAFKA_STORAGE_ERROR is answered to.
        return REFUSED


REFUSED = object()


def look(directory: Path, accounts: Any) -> None:
    """Start on a damaged directory: nothing is found but what was, or what is refused."""
    right = {key: account.sent[-1] for key, account in accounts.items()}
    with suppress(*REFUSALS), opened(directory, QuickFiles(), tolerant=True) as world:
        for key, value in answers(world, accounts).items():
            assert value is REFUSED or value == right[key], key


def files_of(root: Path) -> list[Path]:
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    return [path for path in files if path.name not in NOT_IN_ANSWERS and path.stat().st_size]


def damaged(
    tmp_path: Path, root: Path, damage: Callable[[bytes, int], bytes], accounts: Any
) -> tuple[int, list[str]]:
    """Look at what `damage` makes of each file at every place; how many there were, and which went wrong."""
    count, wrong = 0, []
    scratch = tmp_path / "scratch"
    for path in files_of(root):
        whole = path.read_bytes()
        for byte in range((FIRST + len(whole)) % STRIDE, len(whole), STRIDE):
            shutil.rmtree(scratch, ignore_errors=True)
            shutil.copytree(root, scratch)
            (scratch / path.relative_to(root)).write_bytes(damage(whole, byte))
            count += 1
            try:
                look(scratch, accounts)
            except Exception as error:
                wrong.append(f"{path.relative_to(root)}, byte {byte} of {len(whole)}: {error!r}"[:200])
    return count, wrong


def flipped(data: bytes, byte: int) -> bytes:
    return data[:byte] + bytes([data[byte] ^ MASK]) + data[byte + 1 :]


def cut(data: bytes, length: int) -> bytes:
    return data[:length]


@pytest.mark.parametrize("damage", [flipped, cut])
def test_damage_anywhere_is_noticed_or_means_nothing(
    tmp_path: Path, healthy: tuple[Path, Any], damage: Callable[[bytes, int], bytes]
) -> None:
    root, accounts = healthy
    count, wrong = damaged(tmp_path, root, damage, accounts)
    assert wrong == []
    assert count > 3000 // STRIDE
