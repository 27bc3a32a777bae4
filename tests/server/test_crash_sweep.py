"""A crash after every single operation on the disk: nothing acknowledged is lost, nothing is invented.

One workload of everything that changes the disk runs on the double. Before each of its operations the directory
is copied as a crash would leave it at that moment, three times: the power is lost, and with it all that was
not synced; the power is lost and some of that survives, torn and out of order; the process is killed. A daemon is
started on each copy, and what its clients find is compared with what was acknowledged. MUSTER_CRASH_ROUNDS makes
it longer.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from harness.doubles.faulty_files import FaultyFiles, Operation
from storage.files import File, Files
from tests.server.crash_world import Account, CrashWorld, found, quick_folder

ROUNDS = int(os.environ.get("MUSTER_CRASH_ROUNDS", "1"))
CRASH_AGAIN_EVERY = 60  # Points; so often the recovery itself is crashed, at each of its operations.


class QuickFile(File):
    __slots__ = ()

    def sync(self) -> None: ...


class QuickFiles(Files):
    """The real disk, but for its slowness: the copies are not to survive anything."""

    def _file(self, path: Path, fd: int) -> File:
        return QuickFile(path, fd)

    def sync_directory(self, path: Path) -> None: ...


def workload(world: CrashWorld, random: Random, first: int) -> None:
    """Everything that changes the disk, in small; `first` is where the numbers of this life begin."""
    world.create_topic("t")
    member_id = world.rebalance("consumers")
    for number in range(first, first + 14):
        world.commit("g", number, "x" * random.randrange(150))
        world.commit(f"g{number % 5}", number)
        if number % 2:
            world.produce("t", random.randrange(10, 200))
        if number % 5 == 0:
            world.retain()
        if number % 4 == 3:
            world.delete_records("t", number // 4 + 1)
    world.rebalance("consumers", member_id)
    world.create_topic("gone")
    world.produce("gone")
    world.delete_group("g3")
    world.delete_topic("gone")
    world.create_topic("gone")
    world.produce("gone")
    world.delete_topic("gone")


def two_lives(root: Path, files: FaultyFiles, seed: int, is_synced: bool, watch: Watch) -> None:
    """A life that ends in a clean shutdown, and one that goes on from there."""
    random = Random(seed)
    with CrashWorld.opened(root, files, is_synced) as world:
        watch.accounts = world.accounts
        workload(world, random, 1)
        world.stop()
    accounts = world.accounts
    with CrashWorld.opened(root, files, is_synced) as world:
        world.accounts = watch.accounts = accounts
        for number in range(20, 26):
            world.commit("g", number)
            world.produce("t")
        world.retain()


class Watch:
    """A fault of the double that lets everything go well, and looks at what a crash would leave just now."""

    world: type[CrashWorld] = CrashWorld

    def __init__(self, root: Path, files: FaultyFiles, seed: int, is_synced: bool, scratch: Path) -> None:
        self.accounts: dict[tuple[str, ...], Account] = {}
        self.points = 0
        self._root, self._files, self._seed, self._is_synced, self._scratch = (
            root,
            files,
            seed,
            is_synced,
            scratch,
        )

    def __call__(self, operation: Operation) -> None:
        self.points += 1
        promised = self._is_synced
        random = Random(f"{self._seed} {self.points}")
        self._check("power", lambda: self._files.put_image(self._scratch), operation, promised)
        self._check("torn", lambda: self._files.put_image(self._scratch, random), operation, promised)
        self._check("kill", self._copy, operation, True)
        if self.points % CRASH_AGAIN_EVERY == 0:
            self._crash_again(random, operation, promised)

    def _copy(self) -> None:
        shutil.rmtree(self._scratch)
        shutil.copytree(self._root, self._scratch)

    def _check(self, how: str, crash: Callable[[], None], operation: Operation, promised: bool) -> None:
        crash()
        try:
            with self.world.opened(self._scratch, QuickFiles(), self._is_synced) as after:
                self._compare(after, promised)
                if self.points % 10 == 0:
                    self._goes_on(after)
        except BaseException as error:
            error.add_note(f"seed {self._seed}, point {self.points}: {how} before {operation}")
            raise

    def _compare(self, after: CrashWorld, promised: bool) -> None:
        for key, account in self.accounts.items():
            value = self._found(after, key)
            if key[0] == "start":  # The retention may have moved it further.
                assert value is not None, key
                assert value >= (account.sent[account.acknowledged] or 0), (key, value, account)
            elif key[0] in ("records", "offset", "generation") and not promised:
                assert value in account.sent, key
            elif key[0] == "records" and after.registry.get(key[1]) is None:
                continue  # That a topic may be gone is for its own account to say.
            else:
                assert value in account.possible(), (key, value, account)
        known = {key[1] for key in self.accounts if key[0] == "offset"} | {"consumers"}
        for runner in after.runners:
            assert runner.log.failure is None
            assert runner.shard is not None
            assert set(runner.shard.groups) <= known, "no group is invented"

    def _found(self, after: CrashWorld, key: tuple[str, ...]) -> Any:
        return found(after, key)

    def _goes_on(self, after: CrashWorld) -> None:
        after.commit("after", 1)
        assert after.accounts["offset", "after", "t"].acknowledged == 1 or after.registry.get("t") is None

    def _crash_again(self, random: Random, operation: Operation, promised: bool) -> None:
        """The power goes again while the daemon starts, at each of its operations."""
        start = self._scratch.with_name("start")
        shutil.rmtree(start, ignore_errors=True)
        start.mkdir()
        self._files.put_image(start, random)
        for nth in range(1000):
            shutil.rmtree(self._scratch)
            shutil.copytree(start, self._scratch)
            files = FaultyFiles(self._scratch)
            left = iter(range(nth))
            files.fault = lambda _, left=left: None if next(left, None) is not None else OSError(5, "off")
            try:
                with self.world.opened(self._scratch, files, self._is_synced) as after:
                    is_up = all(runner.log.failure is None for runner in after.runners)
            except Exception:
                is_up = False
            files.fault = None
            self._check("second loss of power", partial(files.crash, random), operation, promised)
            if is_up:
                return


@pytest.mark.parametrize("is_synced", [True, False])
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_crash_at_every_point_loses_nothing_that_was_acknowledged(
    tmp_path: Path, seed: int, is_synced: bool
) -> None:
    with quick_folder(tmp_path) as folder:
        root, scratch = folder / "data", folder / "after"
        root.mkdir()
        scratch.mkdir()
        files = FaultyFiles(root)
        watch = Watch(root, files, seed, is_synced, scratch)
        files.fault = watch
        two_lives(root, files, seed, is_synced, watch)
    assert watch.points > 300
    print(f"{watch.points} points, three crashes at each")
