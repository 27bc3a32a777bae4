"""The journal's files: what is there after a crash, what is cut, and what keeps the daemon from starting."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from harness.doubles.faulty_files import FaultyFiles, Operation
from storage.files import CorruptSegment, Files, StorageError
from storage.journal.files import DIRECTORY, JournalFiles, number_of
from storage.journal.frames import FileHeader, Part, decode_file_header, encode_file_header, encode_frame
from storage.journal.scan import ForeignJournal
from tests.storage.journals import DIRECTORY_ID, MARK, expected, found, journal_files, part

SEEDS = 6


def write(files: JournalFiles, first: int, last: int) -> None:
    for number in range(first, last + 1):
        files.append(part(number))


def three_files(path: Path, *, is_synced: bool = True) -> JournalFiles:
    """Six frames in three files, two each."""
    files = journal_files(path, is_synced=is_synced)
    write(files, 1, 2)
    for first in (3, 5):
        files.begin()
        write(files, first, first + 1)
    return files


def paths(path: Path) -> list[Path]:
    return sorted((path / DIRECTORY).iterdir())


@pytest.fixture
def disk(tmp_path: Path) -> FaultyFiles:
    (tmp_path / "disk").mkdir()
    return FaultyFiles(tmp_path / "disk")


# What is read.


def test_what_was_written_is_read_in_order_across_files(tmp_path: Path) -> None:
    written = three_files(tmp_path)
    files = journal_files(tmp_path)
    assert found(files) == expected(1, 6)
    assert files.numbers == written.numbers == [1, 2, 3]
    assert files.size_bytes == written.size_bytes == sum(path.stat().st_size for path in paths(tmp_path))
    assert (written.newest_bytes, files.newest_bytes) == (paths(tmp_path)[-1].stat().st_size, 0)
    assert files.cut_bytes == 0


def test_without_a_journal_there_is_nothing(tmp_path: Path) -> None:
    assert found(journal_files(tmp_path)) == []
    assert not (tmp_path / DIRECTORY).exists()


def test_numbers_and_sequences_go_on_after_a_restart(tmp_path: Path) -> None:
    write(journal_files(tmp_path), 1, 2)
    second = journal_files(tmp_path)
    second.read()
    write(second, 3, 3)
    second.delete_before(2)
    third = journal_files(tmp_path)
    assert found(third) == expected(3, 3)
    write(third, 4, 4)
    assert [path.name for path in paths(tmp_path)] == [f"{number:020d}.journal" for number in (2, 3)]
    assert found(journal_files(tmp_path)) == expected(3, 4)


def test_only_names_that_are_ours_are_looked_at(tmp_path: Path) -> None:
    three_files(tmp_path)
    for name in ("notes.txt", "1.journal", "0000000000000000000x.journal"):
        (tmp_path / DIRECTORY / name).write_bytes(b"?")
        assert number_of(name) is None
    assert found(journal_files(tmp_path)) == expected(1, 6)


# Damage.


def damaged_at_each_byte(path: Path, flip: Callable[[Path, int], None]) -> None:
    for file in paths(path):
        whole = file.read_bytes()
        for byte in range(len(whole)):
            file.write_bytes(whole[:byte] + bytes([whole[byte] ^ 0x04]) + whole[byte + 1 :])
            flip(file, byte)
            file.write_bytes(whole)


def test_a_flip_anywhere_but_in_the_last_frame_is_reported_and_changes_nothing(tmp_path: Path) -> None:
    """The last frame cannot be told from a torn one: it is cut."""
    three_files(tmp_path)
    last = len(b"".join(map(bytes, encode_frame(MARK, 6, part(6)))))
    before_last = paths(tmp_path)[-1].stat().st_size - last

    def check(file: Path, byte: int) -> None:
        copy = tmp_path / "copy"
        shutil.copytree(tmp_path / DIRECTORY, copy / DIRECTORY)
        damaged = file.read_bytes()
        if file == paths(tmp_path)[-1] and byte >= before_last:
            files = journal_files(copy)
            assert found(files) == expected(1, 5)
            assert files.cut_bytes == last
            assert found(journal_files(copy)) == expected(1, 5)
        else:
            with pytest.raises(CorruptSegment) as corrupt:
                journal_files(copy).read()
            assert corrupt.value.path.name == file.name
            assert (copy / DIRECTORY / file.name).read_bytes() == damaged
        shutil.rmtree(copy)

    damaged_at_each_byte(tmp_path, check)


def test_without_syncs_all_from_a_flip_in_the_last_file_on_is_cut_and_nothing_before(tmp_path: Path) -> None:
    """Older files and all headers were synced: damage there is reported, and changes nothing."""
    three_files(tmp_path, is_synced=False)
    header_bytes = len(encode_file_header(FileHeader(1, 1, False, MARK, DIRECTORY_ID)))
    frame_bytes = (paths(tmp_path)[0].stat().st_size - header_bytes) // 2

    def check(file: Path, byte: int) -> None:
        copy = tmp_path / "copy"
        shutil.copytree(tmp_path / DIRECTORY, copy / DIRECTORY)
        files = journal_files(copy, is_synced=False)
        if byte < header_bytes or file != paths(tmp_path)[-1]:
            with pytest.raises(CorruptSegment):
                files.read()
            assert [path.read_bytes() for path in paths(copy)] == [
                path.read_bytes() for path in paths(tmp_path)
            ]
        else:
            whole = 4 + (byte - header_bytes) // frame_bytes
            assert found(files) == expected(1, whole)
            write(files, whole + 1, whole + 1)
            assert found(journal_files(copy)) == expected(1, whole + 1)
        shutil.rmtree(copy)

    damaged_at_each_byte(tmp_path, check)


@pytest.mark.parametrize("is_synced", [True, False])
def test_a_torn_last_frame_is_cut_wherever_it_was_torn(tmp_path: Path, is_synced: bool) -> None:
    three_files(tmp_path, is_synced=is_synced)
    last = paths(tmp_path)[-1]
    whole = last.read_bytes()
    frame_bytes = len(b"".join(map(bytes, encode_frame(MARK, 6, part(6)))))
    start = len(whole) - frame_bytes
    for end in range(start, len(whole)):
        last.write_bytes(whole[:end])
        files = journal_files(tmp_path)
        assert found(files) == expected(1, 5)
        assert (files.cut_bytes, last.stat().st_size) == (end - start, start)


def test_a_frame_that_a_client_sends_in_a_record_does_not_make_a_torn_end_look_like_damage(
    tmp_path: Path,
) -> None:
    """It knows all of a frame of this sequence but the file's mark."""
    (tmp_path / "another").mkdir()
    three_files(tmp_path / "another")
    frame_bytes = len(b"".join(map(bytes, encode_frame(MARK, 6, part(6)))))
    planted = paths(tmp_path / "another")[-1].read_bytes()[-frame_bytes:]
    files = journal_files(tmp_path)
    write(files, 1, 2)
    files.append([Part("t-0", [b"a record with " + planted, b"and more"])])
    last = paths(tmp_path)[-1]
    last.write_bytes(last.read_bytes()[:-1])
    assert found(journal_files(tmp_path)) == expected(1, 2)


def test_a_file_that_is_missing_between_two_is_reported(tmp_path: Path) -> None:
    three_files(tmp_path)
    paths(tmp_path)[1].unlink()
    with pytest.raises(CorruptSegment, match="frames from 5 on, 3 was to come"):
        journal_files(tmp_path).read()


def test_a_file_under_another_number_is_reported(tmp_path: Path) -> None:
    three_files(tmp_path)
    paths(tmp_path)[2].rename(tmp_path / DIRECTORY / f"{4:020d}.journal")
    with pytest.raises(CorruptSegment, match="file 3 "):
        journal_files(tmp_path).read()


@pytest.mark.parametrize("is_synced", [True, False])
def test_the_journal_of_another_directory_is_refused_and_left_as_it_is(
    tmp_path: Path, is_synced: bool
) -> None:
    three_files(tmp_path, is_synced=is_synced)
    before = [path.read_bytes() for path in paths(tmp_path)]
    with pytest.raises(ForeignJournal, match=f"the journal of directory {DIRECTORY_ID}, .*this is other"):
        journal_files(tmp_path, directory_id="other").read()
    assert [path.read_bytes() for path in paths(tmp_path)] == before


def test_a_header_that_was_torn_while_its_file_was_made_costs_nothing(tmp_path: Path) -> None:
    three_files(tmp_path)
    header = encode_file_header(FileHeader(4, 7, True, MARK, DIRECTORY_ID))
    for end in range(len(header)):
        torn = tmp_path / DIRECTORY / f"{4:020d}.journal"
        torn.write_bytes(header[:end])
        files = journal_files(tmp_path)
        assert found(files) == expected(1, 6)
        assert not torn.exists()
    write(files, 7, 7)
    assert found(journal_files(tmp_path)) == expected(1, 7)


def test_a_file_that_failed_while_it_was_made_does_not_come_between(disk: FaultyFiles) -> None:
    """Its header may be whole: before frames go on in the file before, it is removed."""
    files = journal_files(disk.root, disk)
    write(files, 1, 2)
    # Behind the sync of the file before: create, and at the next attempts truncate, write, sync, the name.
    for nth, operation in enumerate((1, 1, 2, 3, 4)):
        disk.fail(operation)
        with pytest.raises(StorageError):
            files.begin()
        disk.fault = None
        write(files, 3 + nth, 3 + nth)
        shutil.copytree(disk.root, disk.root.parent / f"killed {nth}")
        assert found(journal_files(disk.root.parent / f"killed {nth}")) == expected(1, 3 + nth)
    files.begin()
    write(files, 8, 8)
    assert found(journal_files(disk.root)) == expected(1, 8)


def test_a_frame_torn_behind_a_file_that_could_not_be_made_is_cut(disk: FaultyFiles) -> None:
    """On a full disk a file can be created and not written, and a frame may fit in part."""
    files = journal_files(disk.root, disk)
    write(files, 1, 2)
    for attempt in (files.begin, lambda: files.append(part(3))):
        disk.fault = room_for(10)
        with pytest.raises(StorageError):
            attempt()
    assert found(journal_files(disk.root)) == expected(1, 2)


def room_for(left_bytes: int) -> Callable[[Operation], OSError | int | None]:
    """Lets writes take so many bytes, and files be created."""
    left = [left_bytes]

    def fault(operation: Operation) -> OSError | int | None:
        if operation.name != "write":
            return None
        return left.pop() if left else OSError(errno.ENOSPC, "fault")

    return fault


# Failures.


def failing_once(name: str, number: int) -> Callable[[Operation], OSError | None]:
    left = [1]

    def fault(operation: Operation) -> OSError | None:
        if operation.name == name and left:
            left.pop()
            return OSError(number, "fault")
        return None

    return fault


@pytest.mark.parametrize(
    ("name", "number"), [("write", errno.EIO), ("sync", errno.EIO), ("write", errno.ENOSPC)]
)
def test_after_a_failed_frame_the_next_goes_to_a_new_file(disk: FaultyFiles, name: str, number: int) -> None:
    files = journal_files(disk.root, disk)
    write(files, 1, 2)
    disk.fault = failing_once(name, number)
    with pytest.raises(StorageError) as failed:
        files.append([Part("t-0", [b"never heard of"])])
    assert failed.value.is_no_room == (number == errno.ENOSPC)
    write(files, 3, 3)
    assert files.numbers == [1, 2]
    disk.crash()
    assert found(journal_files(disk.root, disk)) == expected(1, 3)


def test_a_half_written_frame_is_cut_off_before_the_next(disk: FaultyFiles) -> None:
    files = journal_files(disk.root, disk)
    write(files, 1, 2)
    good = files.newest_bytes
    disk.run_out_of_room(10)
    with pytest.raises(StorageError):
        files.append(part(3))
    assert paths(disk.root)[0].stat().st_size == good + 10
    disk.fault = None
    write(files, 3, 3)
    assert paths(disk.root)[0].stat().st_size == good
    assert found(journal_files(disk.root)) == expected(1, 3)


def test_while_the_file_cannot_be_cut_back_no_frame_is_taken(disk: FaultyFiles) -> None:
    files = journal_files(disk.root, disk)
    write(files, 1, 1)
    disk.fail_always("sync")
    for _ in range(3):
        with pytest.raises(StorageError):
            files.append(part(2))
        with pytest.raises(StorageError):
            files.begin()
    disk.fault = None
    write(files, 2, 2)
    disk.crash()
    assert found(journal_files(disk.root, disk)) == expected(1, 2)


def test_the_name_of_the_journal_is_synced_though_a_former_attempt_has_made_it(disk: FaultyFiles) -> None:
    """The first made the directory and died, or failed, before it could sync the name."""
    files = journal_files(disk.root, disk)
    disk.fail(1)
    with pytest.raises(StorageError):
        files.append(part(1))
    disk.fault = None
    write(journal_files(disk.root, disk), 1, 1)
    disk.crash()
    assert found(journal_files(disk.root, disk)) == expected(1, 1)


# Crashes.


class Crashes:
    """Copies the disk before each operation as a crash would leave it, and has a start read each copy."""

    def __init__(self, disk: FaultyFiles) -> None:
        self.acknowledged = 0
        self.removed = 0  # Frames below were in files that are no longer needed.
        self.points = 0
        self._disk = disk
        self._scratch = disk.root.parent / "scratch"
        self._scratch.mkdir()

    def __call__(self, operation: Operation) -> None:
        self.points += 1
        for seed in [None, *range(SEEDS)]:
            random = None if seed is None else Random(f"{self.points} {seed}")
            self._disk.put_image(self._scratch, random)
            sequences = [sequence for sequence, _ in self._read(journal_files(self._scratch))]
            assert sequences == list(range(sequences[0], sequences[-1] + 1)) if sequences else True
            missing = set(range(self.removed + 1, self.acknowledged + 1)) - set(sequences)
            assert not missing, f"{operation}, seed {seed}"

    def _read(self, files: JournalFiles) -> list[tuple[int, list[tuple[str, bytes]]]]:
        frames = found(files)
        assert all(frame == expected(frame[0], frame[0])[0] for frame in frames)
        if frames:  # And it goes on, and that can be read, too.
            last = frames[-1][0]
            write(files, last + 1, last + 1)
            assert found(journal_files(self._scratch))[-1] == expected(last + 1, last + 1)[0]
        return frames


def test_what_was_acknowledged_is_there_after_a_crash_at_any_operation(disk: FaultyFiles) -> None:
    """Frames, new files, files removed, a frame that fails and is cut back, and a restart."""
    crashes = Crashes(disk)
    disk.fault = crashes

    def put(files: JournalFiles, first: int, last: int) -> None:
        for number in range(first, last + 1):
            write(files, number, number)
            crashes.acknowledged = number

    files = journal_files(disk.root, disk)
    put(files, 1, 3)
    files.begin()
    put(files, 4, 5)
    files.begin()
    crashes.removed = 5
    files.delete_before(3)
    put(files, 6, 7)
    disk.fault = failing_once("sync", errno.EIO)
    with pytest.raises(StorageError):
        files.append(part(8))
    disk.fault = crashes
    put(files, 8, 9)
    files = journal_files(disk.root, disk)
    files.read()
    put(files, 10, 11)
    assert crashes.points > 30


def test_what_a_killed_process_had_only_written_is_synced_by_the_start_that_counts_it(
    disk: FaultyFiles,
) -> None:
    files = journal_files(disk.root, disk)
    write(files, 1, 1)
    path = paths(disk.root)[0]
    file = disk.open(path)
    mark = decode_file_header(memoryview(path.read_bytes()))[0].mark
    file.write_at(encode_frame(mark, 2, part(2)), path.stat().st_size)  # Written, and the process is killed.
    assert found(journal_files(disk.root, disk)) == expected(1, 2)
    disk.crash()
    assert found(journal_files(disk.root, disk)) == expected(1, 2)


def test_under_os_a_frame_is_not_synced_but_a_change_of_files_is(disk: FaultyFiles) -> None:
    files = journal_files(disk.root, disk, is_synced=False)
    write(files, 1, 1)
    disk.operations.clear()
    write(files, 2, 3)
    assert [operation.name for operation in disk.operations] == ["write"] * 2
    files.begin()
    write(files, 4, 4)
    disk.crash()
    assert found(journal_files(disk.root, disk)) == expected(1, 3)


@pytest.mark.parametrize("is_cut_back", [False, True])
def test_under_os_what_a_failed_sync_dropped_is_on_the_disk_once_another_file_is_begun(
    disk: FaultyFiles, is_cut_back: bool
) -> None:
    """The sync of a file that is to be left, or that was cut back after a frame that could not be written."""
    files = journal_files(disk.root, disk, is_synced=False)
    write(files, 1, 300)  # Several pages.
    if is_cut_back:
        disk.fault = failing_once("write", errno.EIO)
        with pytest.raises(StorageError):
            files.append(part(301))
    disk.fault = failing_once("sync", errno.EIO)
    with pytest.raises(StorageError):
        files.begin()
    disk.fault = None
    files.begin()
    disk.crash()
    assert found(journal_files(disk.root, disk)) == expected(1, 300)


def test_a_frame_is_synced_before_it_counts_and_so_is_the_name_of_its_file(disk: FaultyFiles) -> None:
    files = journal_files(disk.root, disk)
    write(files, 1, 1)
    first, journal, root = f"{1:020d}.journal", DIRECTORY, disk.root.name
    assert disk.history() == [
        f"mkdir {journal}",
        f"sync {root}",
        f"create {first}",
        f"truncate {first}",
        f"write {first}",
        f"sync {first}",
        f"sync {journal}",
        f"write {first}",
        f"sync {first}",
    ]
    disk.operations.clear()
    files.begin()
    files.delete_before(2)
    second = f"{2:020d}.journal"
    assert disk.history()[0] == f"sync {first}"
    assert disk.history()[-4:] == [f"sync {second}", f"sync {journal}", f"unlink {first}", f"sync {journal}"]


def test_older_files_go_oldest_first_each_before_the_next(disk: FaultyFiles) -> None:
    files = journal_files(disk.root, disk)
    for number in range(1, 5):
        files.begin()
        write(files, number, number)
    disk.operations.clear()
    files.delete_before(4)
    names = [f"{number:020d}.journal" for number in (1, 2, 3)]
    assert disk.history() == [line for name in names for line in (f"unlink {name}", f"sync {DIRECTORY}")]
    assert (files.numbers, found(journal_files(disk.root))) == ([4], expected(4, 4))


def test_a_removal_that_fails_is_tried_again(disk: FaultyFiles) -> None:
    files = journal_files(disk.root, disk)
    for number in range(1, 4):
        files.begin()
        write(files, number, number)
    disk.fail(2)
    with pytest.raises(StorageError):
        files.delete_before(3)
    assert files.numbers == [2, 3]
    disk.fault = None
    files.delete_before(3)
    assert files.numbers == [3]


def test_a_journal_that_is_not_needed_leaves_nothing(tmp_path: Path) -> None:
    files = three_files(tmp_path)
    (tmp_path / DIRECTORY / "torn.tmp").touch()
    files.remove()
    assert list(tmp_path.iterdir()) == []
    journal_files(tmp_path, Files()).remove()  # There is none.
