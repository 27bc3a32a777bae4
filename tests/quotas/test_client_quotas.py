"""What clients take of their quotas, in virtual time (Q6 to Q14)."""

from __future__ import annotations

import pytest

from coordinator.quotas.buckets import MAX_BUCKETS, UNUSED_MS, Buckets
from coordinator.quotas.client_quotas import ClientQuotas
from coordinator.quotas.connection_rates import ConnectionRates
from coordinator.quotas.entities import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    entity_of,
)
from coordinator.quotas.meter import Meter
from coordinator.quotas.rates import Rate, Windows
from coordinator.topics.config_values import INT32_MAX

ALICE = ("alice", "c")


class World:
    """Quotas of user alice, and a clock."""

    def __init__(self, **limits: float) -> None:
        self.now_ms = 1_000_000
        self.busy_s = 0.0
        self.quotas = ClientQuotas(Windows(), Windows())
        self.quotas.set(entity_of([("user", "alice")]), limits)

    def meter(self, client: tuple[str, str] = ALICE) -> Meter:
        return Meter(self.quotas, client, lambda: self.now_ms, lambda: self.busy_s)


def test_clients_of_a_user_share_the_users_quota() -> None:
    world = World(producer_byte_rate=1_000)
    assert world.meter(("alice", "one")).receive(10_000) == 0
    assert world.meter(("alice", "two")).receive(500) == 500
    assert world.meter(("bob", "one")).receive(1_000_000) == 0


def test_pairs_have_a_bucket_each() -> None:
    world = World()
    world.quotas.set(entity_of([("user", "alice"), ("client-id", None)]), {PRODUCER_BYTE_RATE: 1_000})
    assert world.meter(("alice", "one")).receive(20_112) == 10_112
    assert world.meter(("alice", "two")).receive(10_000) == 0


def test_a_changed_quota_holds_at_once_for_what_was_taken_before() -> None:
    """Q15."""
    world = World(producer_byte_rate=1_000)
    world.meter().receive(10_000)
    version = world.quotas.version
    world.quotas.set(entity_of([("user", "alice")]), {PRODUCER_BYTE_RATE: 500})
    assert world.quotas.version > version
    assert world.meter().receive(0) == 10_000
    world.quotas.set(entity_of([("user", "alice")]), {})
    assert world.meter().receive(10_000) == 0
    assert not world.quotas


def test_a_fetch_over_the_limit_is_taken_back() -> None:
    """Q11: what was not sent counts for nothing, and the next fetch of what fits is answered."""
    world = World(consumer_byte_rate=1_000)
    assert not world.meter().is_fetch_throttled(lambda: 9_000)
    over = world.meter()
    assert over.is_fetch_throttled(lambda: 5_000)
    assert over.throttle_ms == 4_000
    assert not world.meter().is_fetch_throttled(lambda: 1_000)


def test_the_size_of_a_fetch_without_a_quota_is_not_asked_for() -> None:
    def size() -> int:
        raise AssertionError("asked")

    assert not World(request_percentage=50).meter().is_fetch_throttled(size)


def test_a_fetch_is_cut_to_ten_times_its_limit() -> None:
    assert World(consumer_byte_rate=1_000).meter().fetch_max_bytes == 10_000
    assert World(consumer_byte_rate=2.0**62).meter().fetch_max_bytes == INT32_MAX
    assert World(producer_byte_rate=1).meter().fetch_max_bytes == INT32_MAX


def test_time_on_the_loop_is_throttled_for_a_second_at_most() -> None:
    """Q12: 20 % of a thread; 2 s are used up at once, and 60 s wait no longer than a window."""
    world = World(request_percentage=20)
    world.busy_s = 2
    meter = world.meter()
    meter.take_time()
    meter.take_time()
    assert meter.throttle_ms == 0
    world.busy_s = 0.1
    short = world.meter()
    short.take_time()
    assert short.throttle_ms == 500
    world.busy_s = 60
    long = world.meter()
    long.take_time()
    assert long.throttle_ms == 1_000


def test_a_fetch_is_empty_for_the_time_that_its_client_took_too() -> None:
    world = World(request_percentage=1, consumer_byte_rate=1_000)
    world.busy_s = 60
    meter = world.meter()
    assert meter.is_fetch_throttled(lambda: 10)
    assert meter.throttle_ms == 1_000
    world.now_ms += 60_000
    world.busy_s = 0
    assert not world.meter().is_fetch_throttled(lambda: 10_000), "the ten bytes were taken back"


def test_the_longest_wait_counts() -> None:
    """Q14."""
    world = World(producer_byte_rate=1_000, request_percentage=1)
    world.busy_s = 60
    meter = world.meter()
    meter.receive(10_500)
    assert meter.throttle_ms == 500
    meter.take_time()
    assert meter.throttle_ms == 1_000


def test_the_longest_wait_counts_of_permits_and_of_time() -> None:
    """Q14: three permits too many wait for 3 s, the time of the request for 1 s, from when it is over."""
    world = World(controller_mutation_rate=1, request_percentage=1)
    meter = world.meter()
    assert meter.take_partitions(14, is_strict=False)
    world.busy_s = 60
    meter.take_time()
    assert meter.throttle_ms == 3_000
    world.now_ms += 2_500
    assert meter.throttle_ms == 1_000


def test_mutations_of_new_versions_are_refused_and_of_old_ones_throttled() -> None:
    """Q13: 15 of 11 permits pass; then a second per permit that is missing."""
    world = World(controller_mutation_rate=1)
    assert world.meter().take_partitions(15, is_strict=True)
    strict = world.meter()
    assert not strict.take_partitions(1, is_strict=True)
    assert strict.throttle_ms == 4_000
    world.now_ms += 1_000
    assert strict.throttle_ms == 3_000, "the time that a request took is not waited for again"
    permissive = world.meter()
    assert permissive.take_partitions(2, is_strict=False)
    assert permissive.throttle_ms == 5_000
    world.now_ms += 5_000
    assert world.meter().take_partitions(1, is_strict=True)


def test_buckets_are_as_many_as_there_is_room_for() -> None:
    """The one unused for longest goes; all that were unused for an hour go."""
    buckets: Buckets[int, Rate] = Buckets(lambda: Rate(Windows()))
    first = buckets.of(0, 0)
    for number in range(1, MAX_BUCKETS):
        buckets.of(number, 1)
    assert buckets.of(0, 2) is first
    buckets.of(MAX_BUCKETS, 3)
    assert len(buckets) == MAX_BUCKETS
    assert buckets.of(0, 3) is first, "1 was unused for longer"
    assert buckets.of(0, 3 + UNUSED_MS) is first
    assert len(buckets) == 2, "0, and the one that was made last"
    assert buckets.of(0, 4 + 2 * UNUSED_MS) is not first


def test_connections_of_an_address_over_its_rate_are_held() -> None:
    """Ten pass at 1 a second, then a second's wait each; those that are held do not count."""
    rates = ConnectionRates(Windows())
    rates.set(entity_of([("ip", "10.0.0.1")]), {"connection_creation_rate": 1})
    assert [rates.hold_ms("10.0.0.1", 5) for _ in range(12)] == [0] * 10 + [1_000, 1_000]
    assert rates.hold_ms("::ffff:10.0.0.1", 5) == 1_000
    assert rates.hold_ms("10.0.0.2", 5) == 0
    assert rates.hold_ms("10.0.0.1", 11_005) == 0


def test_connections_that_are_held_do_not_count() -> None:
    """Those that were let in are past a window later, however many were refused meanwhile."""
    rates = ConnectionRates(Windows())
    rates.set(entity_of([("ip", "10.0.0.1")]), {"connection_creation_rate": 1})
    assert [rates.hold_ms("10.0.0.1", 5) for _ in range(10)] == [0] * 10
    assert all(rates.hold_ms("10.0.0.1", 10_005) for _ in range(20))
    assert rates.hold_ms("10.0.0.1", 11_005) == 0


def test_the_default_rate_is_for_each_address_without_one() -> None:
    rates = ConnectionRates(Windows())
    rates.set(entity_of([("ip", None)]), {"connection_creation_rate": 1})
    rates.set(entity_of([("ip", "0:0:0:0:0:0:0:1")]), {"connection_creation_rate": 2})
    for address, passed in (("10.0.0.1", 10), ("10.0.0.2", 10), ("::1", 20)):
        assert [rates.hold_ms(address, 5) > 0 for _ in range(21)].index(True) == passed
    rates.set(entity_of([("ip", None)]), {})
    assert rates.hold_ms("10.0.0.1", 5) == 0
    rates.set(entity_of([("ip", "::1")]), {})
    assert not rates


@pytest.mark.parametrize(
    "key", [PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE]
)
def test_a_quota_concerns_its_own_key_alone(key: str) -> None:
    world = World(**{key: 1.0})
    concerned = [each for each in (*world.quotas._rules,) if world.quotas.concerns(each, ALICE)]
    assert concerned == [key]
    assert not world.quotas.concerns(key, ("bob", "c"))
