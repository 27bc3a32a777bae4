"""Commits without pause until the daemon dies, and keeps what was acknowledged: a process of its own.

    python -m tests.kill.committer BOOTSTRAP STATE_FILE

`STATE_FILE` (JSON) holds the members of the rounds before; a first run joins its groups. Prints
"committing" at the first acknowledgement and, after the connection broke, one JSON line:
`{"members": [...], "acknowledged": {group: offset}, "in_flight": {group: offset}, "count": n}`.
"""

from __future__ import annotations

import json
import select
import sys
from pathlib import Path
from typing import Any

from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

GROUPS = 8
TOPIC = "killed"
JOIN_VERSION, SYNC_VERSION, COMMIT_VERSION = 9, 5, 9


def join(client: WireClient, group_id: str) -> dict[str, Any]:
    """Become the only member of `group_id`; return what identifies it."""
    request = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=[
            JoinGroupRequestProtocol(name="range", metadata=b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")
        ],
    )
    request.member_id = client.ask(request, JOIN_VERSION).member_id
    joined = client.ask(request, JOIN_VERSION)
    assert joined.error_code == ErrorCode.NONE, joined
    sync = SyncGroupRequest(
        group_id=group_id,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=group_id.encode())],
    )
    assert client.ask(sync, SYNC_VERSION).error_code == ErrorCode.NONE
    return {"group": group_id, "member": joined.member_id, "generation": joined.generation_id, "offset": 0}


def commit(client: WireClient, member: dict[str, Any], offset: int) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id=member["group"],
        generation_id_or_member_epoch=member["generation"],
        member_id=member["member"],
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
    )
    client.send(request, COMMIT_VERSION)


def commit_until_killed(clients: list[WireClient], members: list[dict[str, Any]]) -> dict[str, Any]:
    """One commit in flight on every connection, always; ends when the first connection breaks."""
    by_descriptor = {
        client.socket.fileno(): (client, member) for client, member in zip(clients, members, strict=True)
    }
    acknowledged = {member["group"]: member["offset"] for member in members}
    in_flight: dict[str, int] = {}
    count = 0
    try:
        for client, member in by_descriptor.values():
            in_flight[member["group"]] = member["offset"] + 1
            commit(client, member, member["offset"] + 1)
        while True:
            for descriptor in select.select(list(by_descriptor), [], [])[0]:
                client, member = by_descriptor[descriptor]
                answer = client.receive()
                assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE, answer
                group = member["group"]
                acknowledged[group] = in_flight.pop(group)
                count += 1
                if count == 1:
                    print("committing", flush=True)
                in_flight[group] = acknowledged[group] + 1
                commit(client, member, in_flight[group])
    except OSError:
        pass  # The kill, which is what we wait for.
    for member in members:
        member["offset"] = acknowledged[member["group"]]
    return {"members": members, "acknowledged": acknowledged, "in_flight": in_flight, "count": count}


def main(bootstrap: str, state_file: Path) -> None:
    clients = [WireClient(bootstrap) for _ in range(GROUPS)]
    if state_file.exists():
        members = json.loads(state_file.read_text())
    else:
        members = [join(client, f"killed-{index}") for index, client in enumerate(clients)]
    outcome = commit_until_killed(clients, members)
    state_file.write_text(json.dumps(outcome["members"]))
    print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
