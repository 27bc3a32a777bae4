"""A large consumer group's description is encoded on a thread, and that of a small one on the loop."""

from __future__ import annotations

from typing import Any, cast

import pytest

from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.reconciliation import CurrentAssignment
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tests.server.shard_world import ShardWorld
from tests.server.test_many_groups import Asked, Loop
from tests.server.test_prepared import apis_of


class Asking(Asked):
    """A request as the handlers see it."""

    api_version, client_id, client_host, describes = 1, "c", "/h", None

    def part(self, part: Any) -> Any:
        return part


@pytest.mark.parametrize(("member_count", "is_aside"), [(50, False), (500, True)])
def test_a_large_group_is_encoded_on_a_thread(
    member_count: int, is_aside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, loop, asked = ShardWorld(), Loop(), Asking()
    assert world.runner.shard is not None
    group = world.runner.shard.consumer_groups["g"] = ConsumerGroup("g")
    for number in range(member_count):
        group.put_member(ConsumerMember(str(number), topic_names=("orders",)), CurrentAssignment(1))
    apis = apis_of(world)
    runtime = cast(Any, apis)._runtime
    monkeypatch.setattr(runtime, "soon", loop.soon, raising=False)
    monkeypatch.setattr(runtime, "run_aside", loop.run_aside, raising=False)
    apis.consumer_group_describe(ConsumerGroupDescribeRequest(group_ids=["g"]), cast(Any, asked))
    assert (len(loop.aside), len(asked.answers)) == ((1, 0) if is_aside else (0, 1))
    response = loop.aside[0][0]() if is_aside else asked.answers[0]
    (described,) = cast(Any, response).groups
    assert len(described.members) == member_count
