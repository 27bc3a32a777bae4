"""Differences that are meant to be: where Muster's answer is better for stock clients than Kafka's.

A row is one reason, and names the scenarios and steps that differ, the fields in each, and what either side
says there. Whatever else differs in those scenarios is reported, and so is every promise of a script that is
broken. There are at most ten rows. A field that differed in no case of a complete run is stale.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from protocol.errors import ErrorCode
from tests.conformance.actors import TOPIC, subscription
from tests.conformance.comparison import Difference, Plain
from tests.conformance.run import PARKED
from tests.conformance.scenarios.administration import LYING

ROWS_MAX: Final = 10

Value = Plain | Callable[[Any], bool]
"""A value that a side gives: this one, or any for which the call is true."""
Offer = tuple[str, Value]
"""A member's id, and its metadata for the chosen protocol."""
Fields = dict[str, tuple[Value, Value]]
"""What Kafka says and what Muster says, by path ("*" stands for any text)."""


Steps = dict[str, Fields]
"""The fields that differ, by step ("*" stands for any text)."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What differs for one reason: by scenario, the steps in which it differs. Nothing else there may."""

    reason: str
    scenarios: dict[str, Steps]

    def covers(self, case: str, difference: Difference) -> bool:
        """Whether each field that differs is meant to, in this step and with these values."""
        is_ours = any(_is_like(scenario, _scenario_of(case)) for scenario in self.scenarios)
        return is_ours and all(any(self._uses(case, difference, each)) for each in difference.fields)

    def unused(
        self, seen: list[tuple[str, Difference]], names: Collection[str] | None = None
    ) -> Iterator[str]:
        """The fields of this row that none of `seen`, cases and their differences, needed."""
        used = {
            use
            for case, difference in seen
            for each in difference.fields
            for use in self._uses(case, difference, each)
        }
        for scenario, steps in self.scenarios.items():
            if names is not None and not any(_is_like(scenario, name) for name in names):
                continue
            for step, fields in steps.items():
                for path in fields:
                    if (scenario, step, path) not in used:
                        yield f"{scenario}: {step}: {path}"

    def _uses(
        self, case: str, difference: Difference, change: tuple[str, Any, Any]
    ) -> Iterator[tuple[str, str, str]]:
        """The field of this row that `change` is."""
        path, kafka, muster = change
        for scenario, step, wanted_path, (of_kafka, of_muster) in self._fields():
            if (
                _is_like(scenario, _scenario_of(case))
                and _is_like(step, difference.what)
                and _is_like(wanted_path, path)
                and _says(of_kafka, kafka)
                and _says(of_muster, muster)
            ):
                yield scenario, step, wanted_path

    def _fields(self) -> Iterator[tuple[str, str, str, tuple[Value, Value]]]:
        for scenario, steps in self.scenarios.items():
            for step, fields in steps.items():
                for path, values in fields.items():
                    yield scenario, step, path, values


def _scenario_of(case: str) -> str:
    return case.split("/", 1)[0]


def _is_like(pattern: str, text: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), text, re.DOTALL) is not None


def _says(wanted: Value, got: Plain) -> bool:
    return wanted(got) if callable(wanted) else (wanted == got and type(wanted) is type(got))


def either(one: Value, other: Value) -> Callable[[Any], bool]:
    """Match one value in some versions, another in others."""
    return lambda got: _says(one, got) or _says(other, got)


def members(*member_ids: str) -> Callable[[Any], bool]:
    """A list of members with these ids."""
    return lambda got: isinstance(got, list) and [each["member_id"] for each in got] == list(member_ids)


def subscribed(*member_ids: str) -> tuple[Offer, ...]:
    """Members with what an actor offers unless its script says otherwise."""
    return tuple((member_id, f"bytes {subscription(TOPIC).hex()}") for member_id in member_ids)


def offering(*offers: Offer) -> Callable[[Any], bool]:
    """JoinGroup's list of these dynamic members, in this order, with the metadata that each of them offers."""

    def is_right(got: Any) -> bool:
        return (
            isinstance(got, list)
            and [each["member_id"] for each in got] == [member_id for member_id, _ in offers]
            and all(each["group_instance_id"] is None for each in got)
            and all(_says(said, each["metadata"]) for (_, said), each in zip(offers, got, strict=True))
        )

    return is_right


def joined(generation_id: int, member_id: str, *offers: Offer) -> Callable[[Any], bool]:
    """JoinGroup's answer to `member_id` in alice's generation; the leader's lists what all members offer."""
    wanted: dict[str, Value] = {
        "": "JoinGroupResponse",
        "error_code": 0,
        "generation_id": generation_id,
        "protocol_name": "range",
        "leader": "alice-#1",
        "skip_assignment": False,
        "member_id": member_id,
        "members": offering(*offers),
    }
    return lambda got: (
        isinstance(got, dict) and all(_says(value, got[name]) for name, value in wanted.items())
    )


def join_refused(error: ErrorCode) -> Callable[[Any], bool]:
    """JoinGroup's refusal of a member without an id."""
    return lambda got: isinstance(got, dict) and (got["error_code"], got["member_id"]) == (int(error), "")


def sync_refused(error: ErrorCode) -> Callable[[Any], bool]:
    """SyncGroup's refusal."""
    return lambda got: (
        got
        == {
            "": "SyncGroupResponse",
            "throttle_time_ms": "plausible",
            "error_code": int(error),
            "protocol_type": None,
            "protocol_name": None,
            "assignment": "bytes ",
        }
    )


def join_sent_back(member_id: str) -> Callable[[Any], bool]:
    """JoinGroup's answer to `member_id`, which has to join again."""
    return lambda got: (
        isinstance(got, dict)
        and (got["error_code"], got["member_id"]) == (int(ErrorCode.REBALANCE_IN_PROGRESS), member_id)
    )


A, B, C, D = "alice-#1", "bob-#2", "carol-#3", "dave-#4"
PHASE_ENDED: Final[Fields] = {"group_state": ("PreparingRebalance", "CompletingRebalance")}
NEVER_ANSWERED: Final = "its join phase throws and no JoinGroup is ever answered"
TOO_EARLY: Final[Fields] = {
    "error_code": (int(ErrorCode.UNKNOWN_SERVER_ERROR), int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
}
FIRST_METADATA: Final = f"bytes {b'first'.hex()}"


def lying(got: Any) -> bool:
    """One of the subscriptions that claim to hold more than there is."""
    return got in [f"bytes {metadata.hex()}" for metadata in LYING.values()]


WANTED: Final[list[Wanted]] = [
    Wanted(
        "a protocol named twice counts once; Kafka counts it twice, so that it is never chosen, members that "
        f"were there before are refused, and where there is no other {NEVER_ANSWERED}",
        {
            "join_with_one_protocol_twice": {
                "alice: JoinGroup v*": {
                    "protocol_name": ("other", "range"),
                    "members[0].metadata": ("bytes ", FIRST_METADATA),
                },
                "alice: SyncGroup v5": {"protocol_name": ("other", "range")},
                "the group described": {
                    "protocol_data": ("other", "range"),
                    "members[0].member_metadata": ("bytes ", FIRST_METADATA),
                },
            },
            "join_with_one_protocol_twice_and_no_other": {
                "alice: JoinGroup v*": {"(all)": (PARKED, joined(1, A, (A, FIRST_METADATA)))},
                "the group described": PHASE_ENDED,
            },
            "join_a_group_with_one_protocol_twice": {
                "alice: JoinGroup v*": {
                    "error_code": (int(ErrorCode.INCONSISTENT_GROUP_PROTOCOL), 0),
                    "generation_id": (-1, 2),
                    "protocol_type": (None, "consumer"),
                    "protocol_name": (either(None, ""), "range"),
                    "leader": ("", A),
                    "members": ([], offering(*subscribed(A), (B, FIRST_METADATA))),
                },
                "bob: JoinGroup v*": {"(all)": (PARKED, joined(2, B))},
                "the group described": PHASE_ENDED,
            },
        },
    ),
    Wanted(
        "a subscription that cannot be read is one to everything (O21); where it claims more elements than it "
        f"holds, Kafka goes wrong: {NEVER_ANSWERED}",
        {
            "a_subscription_that_lies_about_its_size": {
                "alice: JoinGroup v9": {"(all)": (PARKED, joined(1, A, (A, lying)))},
                "the group described": PHASE_ENDED,
            }
        },
    ),
    Wanted(
        "when the last one missing is turned away (81), the phase ends; Kafka waits out the rebalance timeout",
        {
            "in_a_rebalance_parked_joins_are_counted": {
                "carol: JoinGroup v*": {"(all)": (PARKED, joined(3, C))},
                "alice: JoinGroup v*": {"(all)": (PARKED, joined(3, A, *subscribed(A, C)))},
                "the group described": PHASE_ENDED,
            },
            "a_group_over_its_size_is_rebalanced_and_shrinks": {
                "alice: JoinGroup v*": {
                    "(all)": (
                        PARKED,
                        either(joined(3, A, *subscribed(A, B, C, D)), joined(3, A, *subscribed(A, B, C))),
                    )
                }
            },
        },
    ),
    Wanted(
        "a member that leaves gets its parked SyncGroup answered (25); Kafka forgets the request, which blocks "
        "its connection for good",
        {
            "a_member_parked_in_sync_leaves": {
                "bob: SyncGroup v5": {"(all)": (PARKED, sync_refused(ErrorCode.UNKNOWN_MEMBER_ID))}
            }
        },
    ),
    Wanted(
        "a client whose member id would be longer than a text can be is refused (-1); Kafka takes it in, and "
        "from then on can neither describe nor rebalance the group",
        {
            "join_with_ids_that_leave_no_room_for_a_member_id": {
                "client: JoinGroup v* (long *)": {
                    "(all)": (PARKED, join_refused(ErrorCode.UNKNOWN_SERVER_ERROR))
                },
                "the group described": {
                    "error_code": (-1, 0),
                    "group_state": ("", "Stable"),
                    "protocol_type": ("", "consumer"),
                    "protocol_data": ("", "range"),
                    "members": ([], members(A, B)),
                },
            }
        },
    ),
    Wanted(
        "an absent group whose name leaves no room for a message is answered without one (69), and the others of "
        "the request are described; Kafka answers -1 for them all",
        {
            "describe_with_long_ids": {
                "admin: DescribeGroups v6": {
                    "groups[*].error_code": (-1, either(0, int(ErrorCode.GROUP_ID_NOT_FOUND))),
                    "groups[*].group_state": ("", either("Stable", "Dead")),
                    "groups[*].protocol_type": ("", "consumer"),
                    "groups[*].protocol_data": ("", "range"),
                    "groups[*].members": ([], members(A, B)),
                }
            }
        },
    ),
    Wanted(
        "a SyncGroup while its group is loading is answered with 27, join again; Kafka's 14 is one that the Java "
        "client takes for fatal there",
        {
            "while_its_group_is_loaded_a_member_is_put_off": {
                "asker SyncGroup: SyncGroup v5": {
                    "error_code": (
                        int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
                        int(ErrorCode.REBALANCE_IN_PROGRESS),
                    )
                }
            }
        },
    ),
    Wanted(
        "topics and settings are kept in files: the log of metadata, which is not there, is shown as empty, in "
        "epoch 0, and no controller listens",
        {
            "the_quorum_is_this_node": {
                "admin: DescribeQuorum v* (the metadata)": {
                    "topics[*].partitions[*].leader_epoch": ("some", "zero"),
                    "topics[*].partitions[*].high_watermark": ("some", "zero"),
                    "topics[*].partitions[*].current_voters[*].log_end_offset": ("some", "zero"),
                    "nodes[*].listeners": (["CONTROLLER"], []),
                }
            }
        },
    ),
    Wanted(
        "a group that a refused join would change is left as it is, what waits in it included, and a consumer "
        "that comes too early is told to try again (14); Kafka sends back what waits (27), answers -1, for which "
        "a consumer gives up, and forgets an empty group, until it reads its log again (9, A56, A57, A64)",
        {
            "a_join_that_is_refused_as_it_upgrades": {
                "dave: SyncGroup v5": {"(all)": (sync_refused(ErrorCode.REBALANCE_IN_PROGRESS), PARKED)}
            },
            "a_group_in_its_first_rebalance_is_not_upgraded": {
                "new: ConsumerGroupHeartbeat v1": TOO_EARLY,
                "carol: JoinGroup v9": {"(all)": (join_sent_back("carol-#1"), PARKED)},
            },
            "a_group_that_is_about_to_change_its_protocol_is_not_upgraded": {
                "new: ConsumerGroupHeartbeat v1": TOO_EARLY,
                "dave: JoinGroup v9": {"(all)": (join_sent_back("dave-#2"), PARKED)},
            },
            "a_classic_join_with_an_id_finds_no_member_in_an_empty_group": {
                "observer: ConsumerGroupDescribe v1": {
                    "groups[0].error_code": (int(ErrorCode.GROUP_ID_NOT_FOUND), 0),
                    "groups[0].error_message": (lambda got: str(got).endswith(" not found."), None),
                    "groups[0].group_state": ("", "Empty"),
                    "groups[0].group_epoch": (0, 3),
                    "groups[0].assignment_epoch": (0, 2),
                    "groups[0].assignor_name": ("", "uniform"),
                }
            },
        },
    ),
]

assert len(WANTED) <= ROWS_MAX, "more differences than a reader will remember the reasons of"


def reason_for(case: str, difference: Difference) -> Wanted | None:
    """The row that wants all of `difference`, if there is one."""
    return next((row for row in WANTED if row.covers(case, difference)), None)


def stale(seen: Iterable[tuple[str, Wanted, Difference]], names: Collection[str] | None = None) -> list[str]:
    """What of the table none of `seen`, cases with what they needed, did need: to be taken out.

    With `names` only what is about scenarios of these names is looked at.
    """
    used = list(seen)
    return [
        field
        for row in WANTED
        for field in row.unused(
            [(case, difference) for case, wanted, difference in used if wanted is row], names
        )
    ]
