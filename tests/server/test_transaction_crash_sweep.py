"""A crash after every single operation on the disk, while transactions begin, end and are left open.

As `test_crash_sweep`, with a transaction coordinator: what was committed is found, record and offset alike, what
was aborted or left open never is, and no producer id is given twice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.doubles.faulty_files import FaultyFiles
from tests.server.crash_world import CrashWorld, quick_folder
from tests.server.test_crash_sweep import Watch
from tests.server.transaction_crash_world import TransactionCrashWorld, committed_values

KEY = ("committed", "t")


class TransactionWatch(Watch):
    world = TransactionCrashWorld
    given: frozenset[int] | set[int] = frozenset()

    def _found(self, after: CrashWorld, key: tuple[str, ...]) -> Any:
        return committed_values(after, key[1]) if key[0] == KEY[0] else super()._found(after, key)

    def _goes_on(self, after: CrashWorld) -> None:
        """The same producer comes again, to whatever it had left; and one that was never there before."""
        assert isinstance(after, TransactionCrashWorld)
        fresh = after.begin("fresh")
        assert fresh.error_code == 0
        assert fresh.producer_id not in self.given, "an id that a producer had before"
        if after.registry.get("t") is not None:
            after.begin("b")
            before = committed_values(after, "t") or ()
            after.transact("a", "after", "t", 1, is_committed=True)
            assert committed_values(after, "t") == (*before, 1)


def two_lives(root: Path, files: FaultyFiles, watch: TransactionWatch) -> None:
    """Transactions of two producers, one of which leaves some open; a clean shutdown; and some more."""
    with TransactionCrashWorld.opened(root, files) as world:
        watch.accounts, watch.given = world.accounts, world.given
        world.create_topic("t")
        for number in range(1, 9):
            world.transact("a", "g", "t", number, is_committed=number % 3 != 0)
            if number == 4:
                world.leave_open("b", "t", 100)
                world.begin("b")  # Ends it: until then committed readers wait before it.
        world.leave_open("b", "t", 101)
        world.stop()
    with TransactionCrashWorld.opened(root, files) as after:
        after.accounts = watch.accounts
        after.given |= watch.given
        watch.given = after.given
        for number in range(20, 23):
            after.transact("b", "g", "t", number, is_committed=True)
        after.logs.checkpoint()


def test_a_crash_at_every_point_keeps_transactions_whole(tmp_path: Path) -> None:
    with quick_folder(tmp_path) as folder:
        root, scratch = folder / "data", folder / "after"
        root.mkdir()
        scratch.mkdir()
        files = FaultyFiles(root)
        watch = TransactionWatch(root, files, 0, True, scratch)
        files.fault = watch
        two_lives(root, files, watch)
    assert watch.points > 150
    assert watch.accounts[KEY].sent[-1] == (1, 2, 4, 5, 7, 8, 20, 21, 22)
    print(f"{watch.points} points, three crashes at each")
