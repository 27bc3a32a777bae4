"""`muster groups remove-member`: takes members out of a group, on any Kafka from 2.4 on.

LeaveGroup names them, as Kafka's admin client does; of a consumer group (KIP-848) a broker removes members of both
protocols by it. A member that still runs joins again by itself, and the command says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from cyclopts import Parameter

from muster.cluster import Cluster, ClusterError, check, retried
from muster.connection import Connection
from muster.groups import tables
from muster.groups.descriptions import GroupDescription, MemberDescription, describe_group
from muster.groups.running import AsJson, run
from muster.sentences import remark, shown_id
from muster.usage import STATUS_FAILED, UsageError
from protocol.errors import ErrorCode
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity

REASON: Final = "member was removed by an admin"
"""What Kafka's admin client says (KIP-800), ahead of a reason that is given."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSelection:
    """The options that say which members are meant: all that one of them names."""

    client_id: Annotated[list[str] | None, Parameter(negative="", help="all of this client id")] = None
    member_id: Annotated[list[str] | None, Parameter(negative="", help="the one of this id")] = None
    instance_id: Annotated[
        list[str] | None, Parameter(negative="", help="the static one of this instance id")
    ] = None
    all_members: Annotated[bool, Parameter(negative="", help="all that there are")] = False

    def check(self) -> None:
        """Raises UsageError unless members are said."""
        if not (self.client_id or self.member_id or self.instance_id or self.all_members):
            raise UsageError("give --client-id, --member-id, --instance-id or --all-members")

    def chosen(self, group: GroupDescription) -> list[MemberDescription]:
        """The members that are meant. Raises ClusterError for what names none."""
        named = [
            ("client id", name, [each for each in group.members if each.client_id == name])
            for name in self.client_id or ()
        ]
        named += [
            ("member id", name, [each for each in group.members if each.member_id == name])
            for name in self.member_id or ()
        ]
        named += [
            ("instance id", name, [each for each in group.members if each.group_instance_id == name])
            for name in self.instance_id or ()
        ]
        for what, name, found in named:
            if not found:
                raise ClusterError(
                    f"group {shown_id(group.group_id)} has no member of the {what} {shown_id(name)}"
                )
        meant = {each.member_id for _, _, found in named for each in found}
        return [each for each in group.members if self.all_members or each.member_id in meant]


def remove_member(
    group: str,
    *,
    selected: MemberSelection = MemberSelection(),
    reason: Annotated[str | None, Parameter(help="for the broker's log, and the group's history")] = None,
    connection: Connection = Connection(),
    as_json: AsJson = False,
) -> int:
    """Remove members from a group. Those that still run join again by themselves."""

    async def command() -> int:
        selected.check()
        async with connection.connected() as cluster:
            found = await describe_group(cluster, group)
            members = selected.chosen(found)
            outcome = await remove_members(
                cluster, found, members, f"{REASON}: {reason}" if reason else REASON
            )
        if as_json:
            tables.show_json({member_id: error.name for member_id, error in outcome.items()})
        else:
            tables.show(tables.removal_table(members, outcome))
        if ErrorCode.NONE in outcome.values():
            remark("members that still run join again by themselves")
        return STATUS_FAILED if any(error is not ErrorCode.NONE for error in outcome.values()) else 0

    return run(command(), as_json)


async def remove_members(
    cluster: Cluster, group: GroupDescription, members: list[MemberDescription], reason: str
) -> dict[str, ErrorCode]:
    """Remove members of a group; return the error of each by its id. Raises ClusterError."""
    leaving = [
        MemberIdentity(member_id=each.member_id, group_instance_id=each.group_instance_id, reason=reason)
        for each in members
    ]
    request = LeaveGroupRequest(group_id=group.group_id, members=leaving)

    async def ask() -> dict[str, ErrorCode]:
        answer = await cluster.send(group.coordinator, request)
        check(f"removing members of group {shown_id(group.group_id)}", answer.error_code)
        return {each.member_id: ErrorCode(each.error_code) for each in answer.members}

    return await retried(ask, cluster.patience_s)
