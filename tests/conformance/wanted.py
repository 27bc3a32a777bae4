"""Differences that are meant to be: where Muster's answer is better for stock clients than Kafka's.

A row is one scenario: the steps in which it differs, the fields in each, and what either side says there.
Whatever else differs in that scenario is reported, and so is every promise of its script that is broken.
Every row has a reason, and there are at most ten. A field that differed in no case of a complete run is stale.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from protocol.errors import ErrorCode
from tests.conformance.comparison import Difference, Plain
from tests.conformance.run import PARKED

ROWS_MAX: Final = 10

Value = Plain | Callable[[Any], bool]
"""What a side says: just this, or what the call is true of."""
Fields = dict[str, tuple[Value, Value]]
"""By path ("*" stands for any text): what Kafka says, and what Muster says."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One scenario's differences, by step ("*" stands for any text). Nothing but these fields may differ."""

    scenario: str
    reason: str
    steps: dict[str, Fields]

    def covers(self, case: str, difference: Difference) -> bool:
        """Whether each field that differs is meant to, in this step and with these values."""
        is_ours = _is_like(self.scenario, case.split("/", 1)[0])
        return is_ours and all(any(self._uses(difference, change)) for change in difference.fields)

    def unused(self, seen: list[Difference]) -> Iterator[str]:
        """The fields of this row that none of `seen` needed."""
        used = {
            use
            for difference in seen
            for change in difference.fields
            for use in self._uses(difference, change)
        }
        for step, fields in self.steps.items():
            yield from (f"{self.scenario}: {step}: {path}" for path in fields if (step, path) not in used)

    def _uses(self, difference: Difference, change: tuple[str, Any, Any]) -> Iterator[tuple[str, str]]:
        """Which of our fields `change` is."""
        path, kafka, muster = change
        for step, fields in self.steps.items():
            for wanted_path, (of_kafka, of_muster) in fields.items():
                if (
                    _is_like(step, difference.what)
                    and _is_like(wanted_path, path)
                    and _says(of_kafka, kafka)
                    and _says(of_muster, muster)
                ):
                    yield step, wanted_path


def _is_like(pattern: str, text: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), text, re.DOTALL) is not None


def _says(wanted: Value, got: Plain) -> bool:
    return wanted(got) if callable(wanted) else (wanted == got and type(wanted) is type(got))


def text_like(pattern: str) -> Callable[[Any], bool]:
    """A text in which "*" stands for anything."""
    return lambda got: isinstance(got, str) and _is_like(pattern, got)


def either(one: Value, other: Value) -> Callable[[Any], bool]:
    """One thing in some versions, another in others."""
    return lambda got: _says(one, got) or _says(other, got)


def members(*member_ids: str) -> Callable[[Any], bool]:
    """A list of members with these ids."""
    return lambda got: isinstance(got, list) and [each["member_id"] for each in got] == list(member_ids)


def joined(generation_id: int, member_id: str, *listed: str) -> Callable[[Any], bool]:
    """JoinGroup's answer to `member_id` in alice's generation; the leader is told who is `listed`."""
    wanted = {
        "": "JoinGroupResponse",
        "error_code": 0,
        "generation_id": generation_id,
        "protocol_name": "range",
        "leader": "alice-#1",
        "skip_assignment": False,
        "member_id": member_id,
        "members": members(*listed),
    }
    return lambda got: (
        isinstance(got, dict) and all(_says(value, got[name]) for name, value in wanted.items())
    )


def join_refused(error: ErrorCode) -> Callable[[Any], bool]:
    """JoinGroup's refusal of somebody without an id."""
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


A, B, C = "alice-#1", "bob-#2", "carol-#3"
PHASE_ENDED: Final[Fields] = {"group_state": ("PreparingRebalance", "CompletingRebalance")}
NAMED_TWICE: Final = "a protocol named twice counts once; Kafka counts it twice, so that nobody can choose it"
NOBODY_ANSWERED: Final = "its join phase throws and no JoinGroup is ever answered"
TURNED_AWAY: Final = (
    "when the last one missing is turned away (81), the phase ends; Kafka waits out the rebalance timeout"
)
MALFORMED: Final = "This most likely occurs because of a request being malformed by the client library*"
NOT_SERVED: Final = text_like("Th* coordinator *.")

WANTED: Final[list[Wanted]] = [
    Wanted(
        "join_with_one_protocol_twice",
        NAMED_TWICE,
        {
            "alice: JoinGroup v*": {
                "protocol_name": ("other", "range"),
                "members[0].metadata": ("bytes ", f"bytes {b'first'.hex()}"),
            },
            "alice: SyncGroup v5": {"protocol_name": ("other", "range")},
            "the group described": {
                "protocol_data": ("other", "range"),
                "members[0].member_metadata": ("bytes ", f"bytes {b'first'.hex()}"),
            },
        },
    ),
    Wanted(
        "join_with_one_protocol_twice_and_no_other",
        f"{NAMED_TWICE}: {NOBODY_ANSWERED}",
        {
            "alice: JoinGroup v*": {"(all)": (PARKED, joined(1, A, A))},
            "the group described": PHASE_ENDED,
        },
    ),
    Wanted(
        "join_a_group_with_one_protocol_twice",
        f"{NAMED_TWICE}; the members that were there before are refused, and the newcomer never answered",
        {
            "alice: JoinGroup v*": {
                "error_code": (int(ErrorCode.INCONSISTENT_GROUP_PROTOCOL), 0),
                "generation_id": (-1, 2),
                "protocol_type": (None, "consumer"),
                "protocol_name": (either(None, ""), "range"),
                "leader": ("", A),
                "members": ([], members(A, B)),
            },
            "bob: JoinGroup v*": {"(all)": (PARKED, joined(2, B))},
            "the group described": PHASE_ENDED,
        },
    ),
    Wanted(
        "a_subscription_that_lies_about_its_size",
        "a subscription that cannot be read is one to everything (O21); where it claims more elements than it "
        f"holds, Kafka goes wrong: {NOBODY_ANSWERED}",
        {
            "alice: JoinGroup v9": {"(all)": (PARKED, joined(1, A, A))},
            "the group described": PHASE_ENDED,
        },
    ),
    Wanted(
        "in_a_rebalance_parked_joins_are_counted",
        TURNED_AWAY,
        {
            "carol: JoinGroup v*": {"(all)": (PARKED, joined(3, C))},
            "alice: JoinGroup v*": {"(all)": (PARKED, joined(3, A, A, C))},
            "the group described": PHASE_ENDED,
        },
    ),
    Wanted(
        "a_group_over_its_size_is_rebalanced_and_shrinks",
        TURNED_AWAY,
        {"alice: JoinGroup v*": {"(all)": (PARKED, joined(3, A, A, B, C))}},
    ),
    Wanted(
        "a_member_parked_in_sync_leaves",
        "a member that leaves gets its parked SyncGroup answered (25); Kafka forgets the request, which blocks "
        "its connection for good",
        {"bob: SyncGroup v5": {"(all)": (PARKED, sync_refused(ErrorCode.UNKNOWN_MEMBER_ID))}},
    ),
    Wanted(
        "join_with_ids_that_leave_no_room_for_a_member_id",
        "a client whose member id would be longer than a text can be is refused (-1); Kafka takes it in, and "
        "from then on can neither describe nor rebalance the group",
        {
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
        },
    ),
    Wanted(
        "find_*coordinator_of_*",
        "the message of an INVALID_REQUEST says what is not served; Kafka's is the code's own text, or none",
        {
            "admin: FindCoordinator v* (type *)": {
                "error_message": (text_like(MALFORMED), NOT_SERVED),
                "coordinators[*].error_message": (either("", text_like(MALFORMED)), NOT_SERVED),
            }
        },
    ),
]

assert len(WANTED) <= ROWS_MAX, "more differences than anybody will remember the reasons of"


def reason_for(case: str, difference: Difference) -> Wanted | None:
    """The row that wants all of `difference`, if there is one."""
    return next((row for row in WANTED if row.covers(case, difference)), None)


def stale(seen: Iterable[tuple[Wanted, Difference]]) -> list[str]:
    """What of the table nothing needed: to be taken out, after a complete run."""
    used = list(seen)
    return [
        field
        for row in WANTED
        for field in row.unused([difference for wanted, difference in used if wanted is row])
    ]
