"""What no owner of a shard has written into its log is recognised, passed over, and healed by an owner."""

from __future__ import annotations

from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from coordinator.backing import events
from coordinator.backing.appender import NO_WRITER
from coordinator.backing.claims import SEAL_EPOCH, Claim, ClaimKind, Writer
from coordinator.backing.kafka import shard_driver, strays
from coordinator.backing.kafka.fetched import Fetched, FetchedBatch
from coordinator.backing.kafka.shard_driver import Ports, ShardDriver
from coordinator.backing.kafka.strays import Strays
from coordinator.backing.states import ACTIVE
from protocol.errors import DecodeError
from protocol.records.batch import BatchProducer
from protocol.records.records import Record, encode_batch, parse_header
from tests.backing.kafka_node import Counters
from tests.backing.test_ownership import OWN, Node

OWNER = Writer(7, 3)
EARLIER, UNKNOWN, PLAIN = Writer(7, 2), Writer(9, 0), Writer(-1, -1)


def written(offset: int, writer: Writer, *keys: bytes, claim: Claim | None = None) -> FetchedBatch:
    """A batch with a record for each key."""
    records = [Record(key, b"value", 1) for key in keys or (b"key",)]
    producer = BatchProducer(*writer, -1 if writer == PLAIN else 0)
    batch = encode_batch(records, base_offset=offset, producer=producer)
    return FetchedBatch(parse_header(batch), batch, claim)


def claimed(offset: int, writer: Writer, kind: ClaimKind = ClaimKind.CLAIMED) -> FetchedBatch:
    return written(offset, writer, claim=Claim(kind, 2, 3_000))


class Reader:
    """Follows batches, and keeps the offsets of those that it was given."""

    def __init__(self, refused: Writer | None = None, own: Writer = NO_WRITER) -> None:
        self.strays = Strays(0)
        self.followed: list[int] = []
        self._refused, self._own = refused, own

    def read(self, *batches: FetchedBatch) -> Reader:
        self.strays.follow(batches, self._follow, self._own)
        return self

    def _follow(self, batch: FetchedBatch) -> None:
        if batch.writer == self._refused:
            raise DecodeError("ends early")
        self.followed.append(batch.header.base_offset)


def test_what_owners_wrote_is_followed_also_where_their_claim_is_gone() -> None:
    reader = Reader().read(
        written(3, EARLIER), claimed(5, OWNER), written(6, OWNER), written(8, UNKNOWN), claimed(9, UNKNOWN)
    )
    assert reader.followed == [3, 6, 8]
    assert (reader.strays.count, reader.strays.take_keys()) == (0, [])


def test_what_has_no_producer_is_of_no_owner() -> None:
    """Nodes number all that they write."""
    reader = Reader().read(written(3, PLAIN, b"a", b"b"), claimed(5, OWNER), written(6, PLAIN, b"c"))
    assert reader.followed == []
    assert (reader.strays.count, reader.strays.take_keys()) == (2, [b"a", b"b", b"c"])


def test_what_has_an_earlier_epoch_is_of_no_owner_behind_a_claim() -> None:
    """Before it, it may be: and a seal, of the highest epoch there is, is no claim."""
    sealed = claimed(4, Writer(7, SEAL_EPOCH), ClaimKind.SEALED)
    reader = Reader().read(sealed, written(5, EARLIER), claimed(6, OWNER), written(7, EARLIER))
    assert (reader.followed, reader.strays.count) == ([5], 1)


def test_behind_the_own_claim_of_a_node_all_else_is_of_no_owner() -> None:
    reader = Reader(own=OWNER).read(written(4, UNKNOWN), claimed(5, OWNER), written(6, UNKNOWN))
    assert (reader.followed, reader.strays.count) == ([4], 1)


def test_what_cannot_be_read_and_is_not_of_the_owner_in_force_is_passed_over() -> None:
    reader = Reader(refused=UNKNOWN).read(claimed(5, OWNER), written(6, UNKNOWN), written(7, OWNER))
    assert (reader.followed, reader.strays.count) == ([7], 1)


@pytest.mark.parametrize("before", [[], [claimed(5, OWNER)]], ids=["no claim is known", "it is in force"])
def test_what_an_owner_wrote_and_cannot_be_read_stops_the_reader(before: list[FetchedBatch]) -> None:
    """What it means is not guessed at."""
    with pytest.raises(DecodeError):
        Reader(refused=OWNER).read(*before, written(6, OWNER))


def test_the_keys_that_wait_for_an_owner_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strays, "KEYS_BYTES_MAX", 5)
    reader = Reader().read(written(3, PLAIN, b"aa", b"bb", b"cc", b"aa", b"d"))
    assert reader.strays.take_keys() == [b"aa", b"bb", b"d"]
    reader.read(written(9, PLAIN, b"eeeee"))
    assert reader.strays.take_keys() == [b"eeeee"], "those that were taken do not count any more"


def test_they_are_logged_more_and_more_seldom() -> None:
    with capture_logs() as logged:
        Reader().read(*(written(offset, PLAIN) for offset in range(100)))
    assert [each["so_far"] for each in logged] == [1, 2, 4, 8, 16, 32, 64]
    assert (logged[0]["offset"], logged[0]["producer_id"]) == (0, -1)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> ShardDriver:
    """Of a shard that this node serves, its claim at offset 0."""
    node = Node().active()
    monkeypatch.setattr(shard_driver, "boot_ms", lambda: node.now_ms)
    monkeypatch.setattr(ShardDriver, "_arm", lambda _: None)
    ports = Ports(cast(Any, Heard()), cast(Any, None), lambda: 0, 1)
    driver = ShardDriver(0, node.ownership, Counters(), ports)
    driver._position = 1
    return driver


class Heard:
    """In the place of a sender."""

    def on_fetched(self, *_: object) -> None:
        """What is read lets batches go out, of which there are none."""


def fetch(driver: ShardDriver, *batches: FetchedBatch) -> list[bytes]:
    """Have it read these; return the keys that its host was to heal."""
    end = batches[-1].header.last_offset + 1
    driver.on_fetched(Fetched(driver.position, end, end, batches, 1, 1_000, 0))
    return cast(Counters, driver._host).healed


def test_an_owner_heals_at_once_what_is_behind_its_claim(driver: ShardDriver) -> None:
    assert fetch(driver, written(1, OWN, b"own"), written(2, UNKNOWN, b"a", b"b")) == [b"a", b"b"]
    assert cast(Counters, driver._host).values == {}, "nothing is followed by who serves"
    assert fetch(driver, written(4, PLAIN, b"c")) == [b"a", b"b", b"c"]
    assert driver.foreign_batches == 2


def test_what_was_found_while_others_owned_the_shard_is_healed_by_who_serves_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = Node()
    monkeypatch.setattr(shard_driver, "boot_ms", lambda: node.now_ms)
    monkeypatch.setattr(ShardDriver, "_arm", lambda _: None)
    host = Counters()
    ports = Ports(cast(Any, Heard()), cast(Any, None), lambda: 0, 1)
    driver = ShardDriver(0, node.ownership, host, ports)
    fetch(driver, claimed(0, OWNER), written(1, OWNER, b"good"), written(2, PLAIN, b"stray"))
    assert (host.values, host.healed) == ({b"good": b"value"}, [])
    monkeypatch.setattr(driver.ownership, "state", ACTIVE)
    shard_driver.ACTIONS[events.Serve](driver, events.Serve())
    assert (host.served, host.healed) == (1, [b"stray"])


def test_what_is_read_anew_is_found_anew() -> None:
    reader = Reader().read(claimed(5, OWNER), written(6, PLAIN, b"a"))
    reader.strays.forget()
    reader.read(written(3, EARLIER), claimed(5, OWNER), written(6, PLAIN, b"a"))
    assert (reader.followed, reader.strays.take_keys()) == ([3], [b"a"])
