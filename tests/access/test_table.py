"""The table of rights as a whole: a row for each API in each version, and what it asks for (A4, A5, A22, F10).

What each API needs is spelled out here once more, by the page of facts; the checks have to come to the same with
each single right, without each, and with a DENY of each beside everything.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from coordinator.access.refusals import REFUSAL
from coordinator.access.table import CHECKS
from coordinator.access.verdict import asks_itself, no_check
from coordinator.security.acls import Operation, Permission
from coordinator.server.access_guard import guarded_apis
from coordinator.server.api_table import api_table
from protocol.codec.codec import spec
from protocol.errors import ErrorCode
from protocol.messages import REQUESTS
from tests.access.world import (
    CLUSTER,
    GROUP,
    TOPIC,
    TRANSACTION,
    TYPES,
    Right,
    World,
    acl,
    answer_rows,
    codes,
    everything,
    named,
)
from tests.conformance.access_requests import REQUESTS_OF

FOR_EVERYBODY: Final = {17, 18, 36, 39, 40, 41, 71, 72}
"""Logins, versions, delegation tokens but for the making, telemetry."""
ASK_THEMSELVES: Final = {1, 33, 38, 44, 75}
"""What is asked for behind a session, or behind checks of form: tests of these handlers look at it."""

OP = Operation
Alternatives = list[tuple[Right, ...]]
OF_CLUSTER: Final = {
    **dict.fromkeys((29, 35, 46, 50, 55), OP.DESCRIBE),
    **dict.fromkeys((30, 31, 34, 43, 45, 51, 57, 64, 80, 81), OP.ALTER),
    49: OP.ALTER_CONFIGS,
    **dict.fromkeys((48, 74), OP.DESCRIBE_CONFIGS),
}
NEEDED: Final[dict[int, Alternatives]] = {
    0: [((OP.WRITE, TOPIC),)],
    2: [((OP.DESCRIBE, TOPIC),)],
    3: [((OP.DESCRIBE, TOPIC),)],
    8: [((OP.READ, GROUP), (OP.READ, TOPIC))],
    9: [((OP.DESCRIBE, GROUP), (OP.DESCRIBE, TOPIC))],
    10: [((OP.DESCRIBE, GROUP),)],
    **{key: [((OP.READ, GROUP),)] for key in (11, 12, 13, 14)},
    15: [((OP.DESCRIBE, GROUP),)],
    19: [((OP.CREATE, CLUSTER),), ((OP.CREATE, TOPIC),)],
    20: [((OP.DELETE, CLUSTER),), ((OP.DELETE, TOPIC),)],
    21: [((OP.DELETE, TOPIC),)],
    22: [((OP.WRITE, TRANSACTION),)],
    23: [((OP.CLUSTER_ACTION, CLUSTER),), ((OP.DESCRIBE, TOPIC),)],
    24: [((OP.CLUSTER_ACTION, CLUSTER),)],  # From version 4 on.
    25: [((OP.WRITE, TRANSACTION), (OP.READ, GROUP))],
    26: [((OP.WRITE, TRANSACTION),)],
    27: [((OP.ALTER, CLUSTER),), ((OP.CLUSTER_ACTION, CLUSTER),)],
    28: [((OP.WRITE, TRANSACTION), (OP.READ, GROUP), (OP.READ, TOPIC))],
    32: [((OP.DESCRIBE_CONFIGS, TOPIC), (OP.DESCRIBE_CONFIGS, GROUP), (OP.DESCRIBE_CONFIGS, CLUSTER))],
    37: [((OP.ALTER, TOPIC),)],
    42: [((OP.DELETE, GROUP),)],
    47: [((OP.DELETE, GROUP), (OP.READ, TOPIC))],
    61: [((OP.READ, TOPIC),)],
    65: [((OP.DESCRIBE, TRANSACTION),)],
    68: [((OP.READ, GROUP), (OP.DESCRIBE, TOPIC))],
    69: [((OP.DESCRIBE, GROUP),)],
    **{key: [((operation, CLUSTER),)] for key, operation in OF_CLUSTER.items()},
}
"""By API key: the rights that let a request pass whole, in each of the ways there are."""
WITHOUT_ERRORS: Final = {16, 60, 66}
"""What shows less without a right, and never an error."""

IMPLIED: Final = {
    OP.DESCRIBE: {OP.DESCRIBE, OP.READ, OP.WRITE, OP.DELETE, OP.ALTER, OP.ALL},
    OP.DESCRIBE_CONFIGS: {OP.DESCRIBE_CONFIGS, OP.ALTER_CONFIGS, OP.ALL},
}
"""By operation, those whose ALLOW allows it (A4)."""
SINGLE_RIGHTS: Final = [
    (operation, resource_type)
    for resource_type in TYPES
    for operation in Operation
    if Operation.ALL <= operation <= Operation.TWO_PHASE_COMMIT
]


def needed(key: int, version: int) -> Alternatives:
    if key == 24 and version < 4:
        return [((OP.WRITE, TRANSACTION), (OP.WRITE, TOPIC))]
    return NEEDED[key]


CASES: Final = [
    pytest.param(key, version, id=f"{REQUESTS[key].__name__.removesuffix('Request')}-v{version}")
    for key in sorted(REQUESTS_OF.keys() - WITHOUT_ERRORS - ASK_THEMSELVES)
    for version in range(spec(REQUESTS[key]).min_version, spec(REQUESTS[key]).max_version + 1)
]


def handler(request: Any, pending: Any) -> None:
    raise AssertionError("nothing is asked here")


def test_every_api_that_could_be_served_has_a_row() -> None:
    assert CHECKS.keys() >= REQUESTS.keys()
    table = guarded_apis(api_table(dict.fromkeys(REQUESTS, handler)), World().rights, World().facts)
    assert table.keys() == REQUESTS.keys()


def test_an_api_without_a_row_is_served_to_no_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(CHECKS, 12)
    with pytest.raises(KeyError):
        guarded_apis(api_table({12: handler}), World().rights, World().facts)


def test_who_needs_no_rights_is_a_row_of_its_own() -> None:
    assert {key for key, check in CHECKS.items() if check is no_check} == FOR_EVERYBODY
    assert {key for key, check in CHECKS.items() if check is asks_itself} == ASK_THEMSELVES - {75}


def test_all_others_are_asked_about_here() -> None:
    asked = {case.values[0] for case in CASES}
    assert asked | WITHOUT_ERRORS | ASK_THEMSELVES | FOR_EVERYBODY == CHECKS.keys() | FOR_EVERYBODY


def passes_whole(world: World, key: int, version: int) -> bool:
    """Whether the handler sees the whole request."""
    request = REQUESTS_OF[key](named(world), version)
    world.asked(request, version, lambda request, pending: None)
    return bool(world.seen == request)


@pytest.mark.parametrize(("key", "version"), CASES)
def test_without_a_right_nothing_reaches_the_handler(key: int, version: int) -> None:
    world = World()
    request = REQUESTS_OF[key](named(world), version)
    answer = world.answered(request, version, answer_rows)
    first = {REFUSAL[alternative[0][1]] for alternative in needed(key, version)}
    shown = codes(answer) - {ErrorCode.INVALID_TOPIC_EXCEPTION}
    if key == 35 and version < 3:
        assert not answer.results, "these versions have no error"
    elif key == 32:
        assert shown == {REFUSAL[resource_type] for resource_type in (TOPIC, GROUP, CLUSTER)}
    else:
        assert shown
        assert shown <= first | {REFUSAL[TOPIC]}
    assert world.seen is None or not _names(world.seen) & set(named(world).all_topics + named(world).groups)


def _names(message: Any) -> set[str]:
    """All texts in the lists of a request."""
    found: set[str] = set()
    todo = [message]
    while todo:
        each = todo.pop()
        if isinstance(each, str):
            found.add(each)
        elif isinstance(each, list | tuple):
            todo += each
        elif hasattr(each, "__dataclass_fields__"):
            todo += [getattr(each, name) for name in each.__dataclass_fields__]
    return found


@pytest.mark.parametrize(("key", "version"), CASES)
def test_each_single_right_lets_pass_what_it_is_for(key: int, version: int) -> None:
    for right in SINGLE_RIGHTS:
        expected = any(
            all(_allows(right, each) for each in alternative) for alternative in needed(key, version)
        )
        assert passes_whole(World([acl(*right)]), key, version) is expected, right


def _allows(given: Right, wanted: Right) -> bool:
    implied = IMPLIED.get(wanted[0], {wanted[0], OP.ALL})
    return given[1] is wanted[1] and given[0] in implied


@pytest.mark.parametrize(("key", "version"), CASES)
def test_a_deny_beside_all_rights_takes_away_what_it_is_for_alone(key: int, version: int) -> None:
    """DENY implies nothing: a DENY of READ leaves DESCRIBE."""
    for right in SINGLE_RIGHTS:
        denied = acl(*right, permission=Permission.DENY)
        expected = any(
            not any(_denies(right, each) for each in alternative) for alternative in needed(key, version)
        )
        if key == 20 and right == (OP.DESCRIBE, TOPIC):
            expected = True  # DELETE of the cluster does for all topics.
        assert passes_whole(World([*everything(), denied]), key, version) is expected, right


def _denies(given: Right, wanted: Right) -> bool:
    return given[1] is wanted[1] and given[0] in (wanted[0], OP.ALL)


@pytest.mark.parametrize(("key", "version"), CASES)
def test_the_rights_together_let_a_request_pass(key: int, version: int) -> None:
    for alternative in needed(key, version):
        assert passes_whole(World([acl(*right) for right in alternative]), key, version)
        for missing in alternative:
            rest = [acl(*right) for right in alternative if right != missing]
            assert not passes_whole(World(rest), key, version), missing


def test_where_all_may_do_everything_nothing_is_taken_out() -> None:
    for key in REQUESTS_OF.keys() - ASK_THEMSELVES:
        version = spec(REQUESTS[key]).max_version
        assert passes_whole(World(everyone=True), key, version), key


def test_kinds_of_resources_are_not_confused() -> None:
    """ALL of a resource of another type is no right at all."""
    for resource_type in TYPES:
        others = [acl(OP.ALL, each) for each in TYPES if each is not resource_type]
        for key, alternatives in NEEDED.items():
            if all(any(right[1] is resource_type for right in each) for each in alternatives):
                version = spec(REQUESTS[key]).max_version
                assert not passes_whole(World(others), key, version), (key, resource_type)
