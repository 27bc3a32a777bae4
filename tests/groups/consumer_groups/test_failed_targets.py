"""A target that cannot be computed refuses the request that asked for it, and nothing else."""

from __future__ import annotations

import pytest

from coordinator.groups.consumer.assignors import ASSIGNORS
from coordinator.groups.consumer.assignors.specs import Target
from coordinator.groups.consumer.computing import MOST_WEIGHT
from coordinator.groups.consumer.shard_groups import ConsumerGroupSettings
from protocol.errors import ErrorCode
from tests.groups.consumer import Consumer
from tests.groups.consumer_groups.new_member import ORDERS, NewMember
from tests.groups.driver import Driver

FOREIGN = "custom"
"""An assignor that the coordinator offered that wrote the log, and that there is not here."""


@pytest.fixture(params=[0, MOST_WEIGHT], ids=["aside", "at once"])
def driver(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """Its group "g" has a member "m", which prefers an assignor that is known no more."""
    settings = ConsumerGroupSettings(assignment_interval_ms=0, most_weight=request.param)
    settings.assignors += (FOREIGN,)
    driver = Driver(consumer_settings=settings)
    with monkeypatch.context() as then:
        then.setitem(ASSIGNORS, FOREIGN, ASSIGNORS["uniform"])
        assert beat(NewMember(driver, "m", server_assignor=FOREIGN)) == ErrorCode.NONE
    return driver


def beat(member: NewMember) -> ErrorCode:
    """Let a member beat, and compute what that takes."""
    token = member.send()
    while not member.driver.answered(token):
        member.driver.finish_work()
    reply = member.driver.replies.pop(token)
    member.take(reply)
    assert reply.error_message is None
    return ErrorCode(reply.error_code)


def test_an_unknown_assignor_refuses_joins_until_its_members_are_gone(driver: Driver) -> None:
    """Kafka's answer: it computes no target by it either."""
    before = list(driver.log)
    assert beat(NewMember(driver, "n")) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert driver.log == before
    driver.advance(46_000)
    assert not driver.shard.consumer_groups["g"].members
    later = NewMember(driver, "n")
    assert beat(later) == ErrorCode.NONE
    assert later.assigned == {ORDERS: [0, 1, 2, 3]}
    driver.assert_replay_agrees()


def test_a_classic_member_is_refused_as_well(driver: Driver) -> None:
    classic = Consumer(driver, "c", version=3)
    token = classic.send_join()
    while not driver.answered(token):
        driver.finish_work()
    assert driver.replies[token].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert set(driver.shard.consumer_groups["g"].members) == {"m"}


def test_what_waited_behind_it_goes_on(driver: Driver) -> None:
    member = NewMember(driver, "m")
    member.epoch = 2
    asking = [NewMember(driver, "n").send(), member.send()]
    assert not any(map(driver.answered, asking))
    driver.finish_work()
    answers = [driver.replies[each].error_code for each in asking]
    assert answers == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]


def test_an_expression_is_matched_with_the_next_join(driver: Driver) -> None:
    """Its run was asked for by the request that was refused, so it never began."""
    member = NewMember(driver, "e", topics=("clicks",), subscribed_topic_regex="ord.*")
    assert beat(member) == ErrorCode.UNKNOWN_SERVER_ERROR
    driver.advance(46_000)
    assert beat(member) == ErrorCode.NONE
    driver.finish_work()
    assert driver.shard.consumer_groups["g"].subscriptions.resolved["ord.*"].topics == ("orders",)


def test_whatever_an_assignor_raises_refuses_the_request(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> dict[str, Target]:
        raise RecursionError("an assignor's bug")

    monkeypatch.setitem(ASSIGNORS, FOREIGN, fail)
    assert beat(NewMember(driver, "n")) == ErrorCode.UNKNOWN_SERVER_ERROR
