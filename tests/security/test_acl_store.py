"""The file of the ACLs: it keeps them over a crash, and no daemon starts if it cannot be believed."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from random import Random
from typing import Any

import pytest

from coordinator.security import acl_store
from coordinator.security.acl_filter import AclFilter
from coordinator.security.acl_store import FILE_NAME, MARK_NAME, AclStore
from coordinator.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from coordinator.topics.refusal import Refused
from harness.doubles.faulty_files import FaultyFiles
from protocol.errors import ErrorCode
from storage.files import Files, StorageError
from storage.sealed_json import encode_sealed

ALL = AclFilter(ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY)


def acl(number: int = 0, **changes: Any) -> Acl:
    base = Acl(
        ResourceType.TOPIC,
        f"t{number}",
        PatternType.LITERAL,
        "User:alice",
        "*",
        Operation.READ,
        Permission.DENY,
    )
    return base._replace(**changes)


def opened(directory: Path, files: Files | None = None) -> tuple[AclStore, list[Acl]]:
    store = AclStore(directory, files or Files())
    return store, store.open()


def stored(directory: Path) -> list[Acl]:
    return opened(directory)[1]


def test_what_was_stored_is_there_at_the_next_start(tmp_path: Path) -> None:
    store, found = opened(tmp_path)
    assert found == []
    assert (tmp_path / FILE_NAME).exists(), "from now on it has to be there"
    created = store.create([acl(1), acl(2), acl(1), acl(3, pattern_type=PatternType.PREFIXED)])
    assert (len(created.added), len(created.without_room)) == (3, 0)
    assert not store.create([acl(1)]).added
    assert store.delete([ALL._replace(resource_name="t2")]) == [[acl(2)]]
    again, found = opened(tmp_path)
    assert found == [acl(1), acl(3, pattern_type=PatternType.PREFIXED)]
    assert not again.create(found).added
    assert again.delete([ALL, ALL]) == [found, found]
    assert stored(tmp_path) == []


def test_a_file_that_is_gone_is_refused_until_its_mark_is_removed(tmp_path: Path) -> None:
    """F13: what was lost are the denials, too, and where all may do what no ACL forbids they are all there is."""
    opened(tmp_path)[0].create([acl()])
    (tmp_path / FILE_NAME).unlink()
    for _ in range(2):
        with pytest.raises(StorageError, match=MARK_NAME):
            opened(tmp_path)
        assert not (tmp_path / FILE_NAME).exists()
    (tmp_path / MARK_NAME).unlink()
    assert stored(tmp_path) == []


def test_a_directory_of_before_gets_its_mark_with_the_next_start(tmp_path: Path) -> None:
    """Also after a crash between the first file and the mark."""
    opened(tmp_path)[0].create([acl()])
    (tmp_path / MARK_NAME).unlink()
    assert stored(tmp_path) == [acl()]
    assert (tmp_path / MARK_NAME).exists()


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    """F13: whatever the umask, and though the aside file of an earlier life was not."""
    (tmp_path / f"{FILE_NAME}.tmp").write_text("left by a crash")
    (tmp_path / f"{FILE_NAME}.tmp").chmod(0o666)
    before = os.umask(0)
    try:
        opened(tmp_path)[0].create([acl()])
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o602, 0o604, 0o666])
def test_one_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    opened(tmp_path)[0].create([acl()])
    (tmp_path / FILE_NAME).chmod(mode)
    with pytest.raises(StorageError, match=rf"mode {mode:03o}.*chmod 600"):
        opened(tmp_path)


def test_one_that_another_user_has_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checksum keeps nobody from writing what he likes."""
    opened(tmp_path)[0].create([acl()])
    if os.geteuid():
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    else:
        os.chown(tmp_path / FILE_NAME, 65_534, -1)
    with pytest.raises(StorageError, match=r"it belongs to user \d+"):
        opened(tmp_path)


@pytest.mark.parametrize(
    ("mode", "is_taken"), [(0o777, False), (0o702, False), (0o1777, True), (0o775, True)]
)
def test_one_that_others_may_replace_is_refused(tmp_path: Path, mode: int, is_taken: bool) -> None:
    """In a folder with the sticky bit they may not."""
    folder = tmp_path / "log"
    folder.mkdir()
    opened(folder)[0].create([acl()])
    folder.chmod(mode)
    if is_taken:
        opened(folder)
        return
    with pytest.raises(StorageError, match=rf"put another in its place \(mode {mode:03o} of its folder\)"):
        opened(folder)


def test_a_torn_file_is_refused_wherever_it_is_torn(tmp_path: Path) -> None:
    opened(tmp_path)[0].create([acl(1), acl(2)])
    path = tmp_path / FILE_NAME
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(StorageError):
            opened(tmp_path)
    for byte in range(len(whole)):
        path.write_bytes(whole[:byte] + bytes([whole[byte] ^ 0x08]) + whole[byte + 1 :])
        with pytest.raises(StorageError):
            opened(tmp_path)
    path.write_bytes(whole)
    assert len(stored(tmp_path)) == 2


ODD_ENTRIES = {
    "too short": [2, "t", 3, "User:a", "*", 3],
    "too long": [2, "t", 3, "User:a", "*", 3, 3, 0],
    "an unknown type": [8, "t", 3, "User:a", "*", 3, 3],
    "any type": [1, "t", 3, "User:a", "*", 3, 3],
    "a filter's pattern": [2, "t", 2, "User:a", "*", 3, 3],
    "any operation": [2, "t", 3, "User:a", "*", 1, 3],
    "an unknown operation": [2, "t", 3, "User:a", "*", 16, 3],
    "no permission": [2, "t", 3, "User:a", "*", 3, 0],
    "no name": [2, "", 3, "User:a", "*", 3, 3],
    "a number for a name": [2, 5, 3, "User:a", "*", 3, 3],
    "no host": [2, "t", 3, "User:a", None, 3, 3],
    "no principal": [2, "t", 3, "alice", "*", 3, 3],
    "no list": "an ACL",
    "nothing": None,
}


@pytest.mark.parametrize("entry", ODD_ENTRIES.values(), ids=ODD_ENTRIES.keys())
def test_what_is_no_acl_is_refused_though_it_is_sealed(tmp_path: Path, entry: Any) -> None:
    _write(tmp_path, {"format": 1, "acls": [list(acl()), entry]})
    with pytest.raises(StorageError, match="not a file of ACLs"):
        opened(tmp_path)


def test_another_format_one_twice_and_one_without_a_checksum_are_refused(tmp_path: Path) -> None:
    for document in ({"format": 2, "acls": []}, {"format": 1}, {"format": 1, "acls": [list(acl())] * 2}):
        _write(tmp_path, document)
        with pytest.raises(StorageError):
            opened(tmp_path)
    (tmp_path / FILE_NAME).write_text(json.dumps({"format": 1, "acls": []}))
    with pytest.raises(StorageError, match="checksum"):
        opened(tmp_path)


def _write(directory: Path, document: dict[str, Any]) -> None:
    path = directory / FILE_NAME
    path.write_bytes(encode_sealed(document))
    path.chmod(0o600)


@pytest.mark.parametrize("seed", range(30))
def test_a_crash_leaves_all_that_was_done_and_nothing_torn(tmp_path: Path, seed: int) -> None:
    """Whole changes alone, whatever of the writes a crash has kept; none that was acknowledged is lost."""
    random = Random(seed)
    directory = tmp_path / "live"
    directory.mkdir()
    files = FaultyFiles(directory)
    store, _ = opened(directory, files)
    done: list[Acl] = []
    for number in range(random.randrange(1, 6)):
        store.create([acl(number), acl(number, operation=Operation.WRITE)])
        done += [acl(number), acl(number, operation=Operation.WRITE)]
    files.fail(random.randrange(6))
    try:
        store.delete([ALL])
        acknowledged = True
    except StorageError:
        acknowledged = False
    files.crash(random)
    (directory / FILE_NAME).chmod(0o600)  # The double keeps no modes.
    found = stored(directory)
    assert found == [] if acknowledged else found in ([], done)


def test_a_change_that_the_disk_refuses_has_not_happened(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    store, _ = opened(tmp_path, files)
    store.create([acl(1)])
    files.fail_always("write", errno.ENOSPC)
    with pytest.raises(StorageError):
        store.create([acl(2)])
    with pytest.raises(StorageError):
        store.delete([ALL])
    files.fault = None
    assert set(store.create([acl(1), acl(2)]).added) == {acl(2)}
    assert stored(tmp_path) == [acl(1), acl(2)]


def test_the_number_of_acls_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are there take no room, those that go give it back."""
    monkeypatch.setattr(acl_store, "MAX_ACLS", 3)
    store, _ = opened(tmp_path)
    store.create([acl(0), acl(1)])
    created = store.create([acl(0), acl(2), acl(3), acl(3), acl(1)])
    assert (list(created.added), list(created.without_room)) == ([acl(2)], [acl(3)])
    store.delete([ALL._replace(resource_name="t0")])
    assert list(store.create([acl(3)]).added) == [acl(3)]
    assert len(stored(tmp_path)) == 3


def test_the_size_of_all_acls_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = len("t0User:alice*")
    monkeypatch.setattr(acl_store, "MAX_CHARS", 2 * size)
    store, _ = opened(tmp_path)
    store.create([acl(0)])
    created = store.create([acl(1, host="a host that is long"), acl(2), acl(3)])
    assert (list(created.added), len(created.without_room)) == ([acl(2)], 2)
    again, _ = opened(tmp_path)
    assert again.create([acl(3)]).without_room
    again.delete([ALL._replace(resource_name="t0")])
    assert again.create([acl(3)]).added


def test_one_request_makes_and_removes_so_many_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A14: one match more than may go refuses all, also of an ACL that goes already."""
    monkeypatch.setattr(acl_store, "MAX_CHANGED", 2)
    store, _ = opened(tmp_path)
    with pytest.raises(Refused) as refused:
        store.create([acl(1), acl(2), acl(3)])
    assert refused.value.error is ErrorCode.POLICY_VIOLATION
    store.create([acl(1), acl(2)])
    store.create([acl(1), acl(2), acl(3)])
    for filters in ([ALL], [ALL._replace(resource_name=name) for name in ("t1", "t2", "t1")]):
        with pytest.raises(Refused) as refused:
            store.delete(filters)
        assert refused.value.error is ErrorCode.INVALID_REQUEST
    assert len(stored(tmp_path)) == 3
    assert store.delete([ALL._replace(resource_name=name) for name in ("t1", "t2", "t9")])[2] == []


def test_one_request_has_so_many_filters_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_store, "MAX_FILTERS", 2)
    store, _ = opened(tmp_path)
    assert store.delete([ALL, ALL]) == [[], []]
    with pytest.raises(Refused):
        store.delete([ALL, ALL, ALL])


def test_an_acl_counts_once_for_each_filter_that_matches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few filters of a few bytes each must not make an answer that is many times all ACLs."""
    monkeypatch.setattr(acl_store, "MAX_CHANGED", 5)
    store, _ = opened(tmp_path)
    store.create([acl(1), acl(2)])
    with pytest.raises(Refused, match="more than 5 acls") as refused:
        store.delete([ALL, ALL, ALL])
    assert refused.value.error is ErrorCode.INVALID_REQUEST
    assert len(stored(tmp_path)) == 2
    assert list(map(len, store.delete([ALL, ALL]))) == [2, 2]
    assert stored(tmp_path) == []


def test_the_characters_of_an_answer_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One ACL with long names and many filters."""
    long = acl(resource_name="n" * 400)
    monkeypatch.setattr(acl_store, "MAX_CHARS", 1_000)
    store, _ = opened(tmp_path)
    store.create([long])
    with pytest.raises(Refused, match="more than 1000 characters") as refused:
        store.delete([ALL, ALL, ALL])
    assert refused.value.error is ErrorCode.INVALID_REQUEST
    assert stored(tmp_path) == [long]
    assert store.delete([ALL, ALL]) == [[long], [long]]


def test_comparisons_are_bounded_whatever_they_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter with one exact name is compared with the ACLs of that name alone."""
    monkeypatch.setattr(acl_store, "MAX_COMPARED", 5)
    store, _ = opened(tmp_path)
    store.create([acl(1), acl(2)])
    absent = ALL._replace(resource_name="t9")
    for broad in (absent._replace(pattern_type=PatternType.MATCH), ALL._replace(principal="User:bob")):
        with pytest.raises(Refused, match="more than 5 times") as refused:
            store.delete([broad] * 3)
        assert refused.value.error is ErrorCode.INVALID_REQUEST
        assert store.delete([broad] * 2) == [[], []]
    assert store.delete([absent] * 9) == [[]] * 9
    assert len(stored(tmp_path)) == 2


def test_filters_find_by_name_what_they_find_by_a_look_at_all(tmp_path: Path) -> None:
    """MATCH is for other names as well; ANY, LITERAL and PREFIXED for that name alone."""
    store, _ = opened(tmp_path)
    literal, prefixed = acl(1), acl(1, pattern_type=PatternType.PREFIXED)
    wildcard = acl(resource_name="*")
    other = acl(22)
    store.create([literal, prefixed, wildcard, other])
    named = ALL._replace(resource_name="t1")
    kinds = (PatternType.LITERAL, PatternType.PREFIXED, PatternType.ANY, PatternType.MATCH)
    found = store.delete([named._replace(pattern_type=kind) for kind in kinds])
    assert found == [[literal], [prefixed], [literal, prefixed], [literal, prefixed, wildcard]]
    assert stored(tmp_path) == [other]
