"""The guard: prepared requests, answers in pieces and on threads, and checks or answers that fail."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from coordinator.access.asker import Asker
from coordinator.access.configs import PROTECTED_BY
from coordinator.access.refusals import REFUSAL
from coordinator.access.table import CHECKS
from coordinator.access.verdict import Verdict, asks_itself, no_check
from coordinator.security.acls import Operation, Permission
from coordinator.server.access_guard import AccessGuard, ClientRights, GuardedPending, guarded_apis
from coordinator.server.api_table import api_table
from coordinator.server.pending import Gather
from coordinator.server.prepared import Prepared
from coordinator.server.splitting import context_of
from protocol.codec.codec import spec
from protocol.errors import ErrorCode
from protocol.framing import EncodedResponse
from protocol.messages import REQUESTS
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.describe_configs import (
    ConfigResourceType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.messages.offset_commit import OffsetCommitRequest
from tests.access.test_parts import commit
from tests.access.world import CLIENT, GROUP, TOPIC, AskedPending, World, acl, named
from tests.conformance.access_requests import REQUESTS_OF

OP = Operation
BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def holds(world: World, request: Any, version: int) -> Any:
    """What a prepared request holds by; None: it is not prepared."""
    key = 8 if isinstance(request, OffsetCommitRequest) else 12
    return world.guard(key).permit(request, _pending(version))


def _pending(version: int) -> Any:
    return AskedPending(version)


def test_what_passes_whole_is_prepared_until_any_acl_changes() -> None:
    world = World([acl(OP.READ, GROUP), acl(OP.READ, TOPIC, "one")])
    for request, version in ((BEAT, 4), (commit("one"), 8)):
        permitted = holds(world, request, version)
        before = permitted.version
        world.rights.change([acl(OP.READ, TOPIC, f"other-{version}")])
        assert permitted.version != before


def test_what_does_not_pass_whole_is_not_prepared() -> None:
    assert holds(World(), BEAT, 4) is None
    partly = World([acl(OP.READ, GROUP), acl(OP.READ, TOPIC, "one")])
    assert holds(partly, commit("one", "two"), 8) is None


def test_a_prepared_heartbeat_is_out_of_date_with_the_acl_that_permitted_it() -> None:
    """As in a segment that holds the removal of the ACL and the next heartbeat (F10)."""
    world = World([acl(OP.READ, GROUP)])
    answers: list[int] = []
    beat = bytes(8) + b"1234" + bytes(8)

    def prepare(request: Any, version: int, frame: bytes) -> Prepared:
        def answer(now_ms: int) -> EncodedResponse:
            answers.append(now_ms)
            return EncodedResponse(HeartbeatResponse(), version)

        return Prepared(frame, lambda: True, lambda values, pending: None, answer=answer)

    table = api_table({12: lambda request, pending: None}, {12: prepare})
    row = guarded_apis(table, world.rights, world.facts)[12]
    assert row.prepare_for is not None
    prepared = row.prepare_for(_pending(4), BEAT, 4, beat)
    assert prepared is not None
    assert prepared.holds()
    assert prepared.answer_all(beat, 0, 1)[1] == len(beat)
    world.rights.change(removed=[acl(OP.READ, GROUP)])
    assert not prepared.holds()
    assert prepared.answer_all(beat, 0, 2) == ([], 0)
    assert answers == [1], "no state was touched by the second"


def test_rows_without_a_check_are_as_they_were() -> None:
    table = api_table({17: lambda request, pending: None})
    rows = guarded_apis(table, World().rights, World().facts)
    assert rows[18] is table[18], "what answers an unknown version of ApiVersions is found by its handler"
    assert rows[17] is table[17]
    assert CHECKS[18](ApiVersionsRequest(), _pending(4)) == Verdict(ApiVersionsRequest())
    assert CHECKS[18] is no_check


def test_a_request_that_passes_whole_is_answered_to_the_connection_itself() -> None:
    seen: list[Any] = []
    world = World([acl(OP.READ, GROUP)])
    pending = world.asked(BEAT, 4, lambda request, pending: seen.append(pending))
    assert seen == [pending]


def test_what_resolves_expressions_is_told_which_topics_its_client_may_know_of() -> None:
    """Also JoinGroup, by which a classic member enters a consumer group; those of hidden topics are no denials."""
    beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1)
    join = JoinGroupRequest(
        group_id="g", session_timeout_ms=9_000, member_id="m", protocol_type="consumer", protocols=[]
    )
    world = World([acl(OP.READ, GROUP), acl(OP.DESCRIBE, TOPIC, "one")])
    seen: list[Any] = []
    asked: list[tuple[Any, int]] = [(beat, 1), (join, 9)]
    for request, version in asked:
        world.asked(request, version, lambda request, pending: seen.append(pending))
        describes = context_of(seen.pop(), None).describes
        assert describes is not None, request
        assert list(map(describes, ("one", "two"))) == [True, False]
    assert world.rights.denials.counts == {}
    world.facts.has_consumer_groups = False
    assert CHECKS[11](join, Asker(9, ClientRights(world.rights, CLIENT, "h"), world.facts)).asks is False


def test_an_authorizer_that_fails_permits_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    class Failing:
        version = 1

        def may(self, *about: object) -> bool:
            raise RuntimeError("no answer")

        permits = may_some = may

    world = World()
    pending = AskedPending(4)
    rights: Any = Failing()
    asked: Any = pending
    AccessGuard(CHECKS[12], rights, world.facts).handle(_unreachable, BEAT, asked)
    assert pending.answer.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert "rights are not known" in capsys.readouterr().out


def _unreachable(request: Any, pending: Any) -> None:
    raise AssertionError("the handler sees no request")


def test_an_answer_that_cannot_be_completed_closes_the_connection() -> None:
    """The shard that answers goes on: nothing is raised into its turn."""
    whole: Any = AskedPending(4)

    def fails(response: Any) -> Any:
        raise KeyError("a row that is missing")

    asker: Any = None
    GuardedPending(whole, Verdict(BEAT, complete=fails), asker).reply(HeartbeatResponse())
    assert "could not be completed" in whole.dropped_for
    parted: Any = AskedPending(4)
    merged: list[Any] = []
    guarded = GuardedPending(parted, Verdict(BEAT, complete_part=fails), asker)
    guarded.part(Gather(1, merged.append).part(0)).reply(HeartbeatResponse())
    assert "could not be completed" in parted.dropped_for
    assert merged == []


def listed(*names: str) -> ListGroupsResponse:
    return ListGroupsResponse(groups=[ListedGroup(group_id=name, protocol_type="") for name in names])


def test_pieces_are_completed_one_by_one_and_the_whole_is_made_aside_without_rights() -> None:
    """What runs on a thread asks for no rights: each shard's groups were filtered when they came."""
    world = World([acl(OP.DESCRIBE, GROUP, "b"), acl(OP.DESCRIBE, GROUP, "d")])
    taken: list[Any] = []

    def handle(request: Any, pending: Any) -> None:
        gather = Gather(2, taken.extend)
        for index, names in enumerate((("a", "b"), ("c", "d"))):
            pending.part(gather.part(index)).reply(listed(*names))
        merged = ListGroupsResponse(groups=[group for each in taken for group in each.groups])
        world.rights.change(removed=[acl(OP.DESCRIBE, GROUP, "d")])
        pending.reply_aside(lambda: merged, None)

    answer = world.answered(ListGroupsRequest(), 5, handle)
    assert [each.group_id for each in answer.groups] == ["b", "d"]


def test_a_peer_that_is_gone_is_answered_no_more_but_what_it_held_is_freed() -> None:
    world = World([acl(OP.DESCRIBE, GROUP, "b")])
    merged: list[Any] = []

    def handle(request: Any, pending: Any) -> None:
        part = pending.part(Gather(1, merged.append).part(0))
        pending._whole.is_open = False
        part.reply(listed("a"))
        pending.reply(listed("a"))

    pending = world.asked(ListGroupsRequest(), 5, handle)
    assert len(merged) == 1
    assert pending.is_answered


def test_a_topic_is_looked_up_once_in_a_request() -> None:
    world = World([acl(OP.READ, GROUP), acl(OP.READ, TOPIC)])
    asked: list[str] = []
    may = world.rights.may

    class Counting:
        version = 1

        def may(self, principal: str, host: str, operation: Any, resource_type: Any, name: str) -> bool:
            asked.append(name)
            return may(principal, host, operation, resource_type, name)

    rights: Any = Counting()
    pending: Any = AskedPending(8)
    AccessGuard(CHECKS[8], rights, world.facts).handle(
        lambda request, pending: None, commit("one", "one", "two", "one"), pending
    )
    assert sorted(asked) == ["g", "one", "two"]


def test_only_a_refusal_of_what_was_asked_for_counts_as_a_denial() -> None:
    """Lists that are filtered, operations that are listed, and a right beside another are none (A21)."""
    world = World([acl(OP.DESCRIBE, TOPIC, "one")])
    everything = MetadataRequest(topics=None, include_topic_authorized_operations=True)
    world.asked(everything, 12, MetadataResponse())
    world.asked(ListGroupsRequest(), 5, listed("a", "b"))
    assert world.rights.denials.counts == {}
    world.asked(MetadataRequest(topics=[MetadataRequestTopic(name="two")]), 12, MetadataResponse())
    assert world.rights.denials.counts == {"User:alice": 1}


@pytest.mark.parametrize(
    "kind", [kind for kind in ConfigResourceType if kind in PROTECTED_BY], ids=lambda kind: kind.name.lower()
)
def test_one_resource_whose_settings_are_hidden_is_one_denial(kind: ConfigResourceType) -> None:
    """Each no is logged and counted (A21): none is asked for a second time to leave out what it was about."""
    world = World()
    hidden = DescribeConfigsResource(resource_type=kind, resource_name="1", configuration_keys=None)
    answer = world.answered(DescribeConfigsRequest(resources=[hidden]), 4)
    assert [each.error_code for each in answer.results] == [REFUSAL[PROTECTED_BY[kind]]]
    assert world.rights.denials.counts == {CLIENT: 1}


@pytest.mark.parametrize("key", sorted(key for key in REQUESTS_OF if CHECKS[key] is not asks_itself))
def test_no_right_is_refused_twice_in_one_request(key: int) -> None:
    world, version = World(), spec(REQUESTS[key]).max_version
    denied: list[tuple[Any, ...]] = []
    world.rights.denials.add = lambda *what: denied.append(what)  # type: ignore[method-assign]
    world.asked(REQUESTS_OF[key](named(world), version), version, lambda request, pending: None)
    assert [what for what, times in Counter(denied).items() if times > 1] == []


def test_a_right_is_the_principals_and_the_hosts() -> None:
    for given in (
        acl(OP.READ, GROUP)._replace(principal="User:bob"),
        acl(OP.READ, GROUP)._replace(host="10.0.0.9"),
    ):
        assert World([given]).answered(BEAT, 4).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    for given in (
        acl(OP.READ, GROUP)._replace(principal="User:*"),
        acl(OP.READ, GROUP)._replace(host="127.0.0.1"),
    ):
        passed = World([given, acl(OP.WRITE, GROUP, permission=Permission.DENY)])
        passed.asked(BEAT, 4)
        assert passed.seen == BEAT
