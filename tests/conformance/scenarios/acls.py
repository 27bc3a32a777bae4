"""CreateAcls, DescribeAcls and DeleteAcls where there is an authorizer, and what it decides (A2 to A15)."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages.acls import AclCreation, CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.conformance import acl_scenes as acls
from tests.conformance.acl_scenes import acl, deletion, filter_fields, give, shown, take, take_of, until
from tests.conformance.admin_lines import ACLS
from tests.conformance.registry import scenario
from tests.conformance.run import CLOSED, Run
from tests.conformance.secured import SECURED, WITHOUT_RIGHTS
from tests.conformance.topic_scenes import ADMIN, ask, quietly

FIND_VERSION: Final = 4
DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
WILDCARDS: Final = "wildcards"
"""An ACL of all names is shown by each description of what concerns a name."""
DECIDED: Final = "decided_rights"
HERS: Final = f"User:{DECIDED}"
ALL_GROUPS: Final = "wildcard_rights"


@scenario(
    *("security A2", "security A11", "security A14", "security A15"),
    on=SECURED,
    versions=ACLS,
    in_turn=WILDCARDS,
)
async def acls_are_made_shown_and_removed(run: Run, version: int) -> None:
    name = run.group
    world = [
        acl(name),
        acl(name, operation=acls.ALL, permission_type=acls.DENY, host="127.0.0.1"),
        acl(name, principal="User:*", resource_pattern_type=acls.PREFIXED),
        acl(f"{name}/longer", resource_type=acls.GROUP),
        acl(name, resource_type=acls.USER, operation=acls.CREATE_TOKENS),
        acl(name[:-1], resource_pattern_type=acls.PREFIXED, principal="Other:alice"),
    ]
    await ask(run, CreateAclsRequest(creations=[*world, world[0]]), version)
    await ask(run, CreateAclsRequest(creations=world), version, "there already")
    for named in (name, f"{name}/longer", name[:-1]):
        at_hand = sum(each.resource_name == named for each in world)
        await shown(run, at_hand, resource_name_filter=named)
    filters = [
        filter_fields(resource_name_filter=name, pattern_type_filter=kind)
        for kind in (acls.ANY, acls.MATCH, acls.LITERAL, acls.PREFIXED)
    ]
    filters += [filter_fields(resource_name_filter=f"{name}/longer", pattern_type_filter=acls.MATCH)]
    for field, value in (
        ("principal_filter", "User:alice"),
        ("principal_filter", "User:*"),
        ("host_filter", "127.0.0.1"),
        ("operation", acls.READ),
        ("permission_type", acls.DENY),
        ("resource_type_filter", acls.USER),
    ):
        filters.append(filter_fields(resource_name_filter=name, **{field: value}))
    for number, each in enumerate(filters):
        await ask(run, DescribeAclsRequest(**each), version, f"filter {number}")
    removed = [deletion(**each) for each in (filters[3], filters[0], filters[4])]
    nothing = deletion(resource_name_filter=f"{name}/nothing")
    await ask(run, DeleteAclsRequest(filters=[*removed, nothing]), version)
    await ask(run, DeleteAclsRequest(filters=[*removed, nothing]), version, "gone already")
    await shown(run, 0, resource_name_filter=name)
    await ask(run, DescribeAclsRequest(**filters[1]), version, "what is left")


@scenario("security A12", on=SECURED, versions=ACLS)
async def a_code_of_nothing_ends_the_connection(run: Run, version: int) -> None:
    """Whoever asks: nothing is looked at, no right either."""
    run.logs_in(WITHOUT_RIGHTS)
    for actor in (ADMIN, WITHOUT_RIGHTS):
        await _ask_with_codes_of_nothing(run, actor, version)
    request = DescribeAclsRequest(**filter_fields(resource_name_filter=run.group))
    await ask(run, request, version, "none was made")


@scenario("security A12", versions=ACLS)
async def a_code_of_nothing_ends_the_connection_without_an_authorizer(run: Run, version: int) -> None:
    await _ask_with_codes_of_nothing(run, ADMIN, version)


async def _ask_with_codes_of_nothing(run: Run, actor: str, version: int) -> None:
    name = run.group
    requests: dict[str, Any] = {}
    for field in ("resource_type", "resource_pattern_type", "operation", "permission_type"):
        requests[f"create {field}"] = CreateAclsRequest(creations=[acl(name), acl(name, **{field: 0})])
    for field in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"):
        requests[f"describe {field}"] = DescribeAclsRequest(**filter_fields(**{field: 0}))
        requests[f"delete {field}"] = DeleteAclsRequest(
            filters=[deletion(resource_name_filter=name), deletion(resource_name_filter=name, **{field: 0})]
        )
    for note, request in requests.items():
        reply = await run.answer(await run.send(actor, request, version, note))
        run.expect(reply == CLOSED, f"{note} of {actor}: closed")
        run.hang_up(actor)


@scenario("security A12", "security A13", on=SECURED, versions=ACLS)
async def bad_acls_are_refused_in_three_ways(run: Run, version: int) -> None:
    name = run.group
    bad: dict[str, AclCreation] = {
        "cluster": acl(name, resource_type=acls.CLUSTER),
        "no name": acl(""),
        "no colon": acl(name, principal="alice"),
        "no principal": acl(name, principal=""),
    }
    for field, codes in {
        "resource_type": (8, 100, -1),
        "resource_pattern_type": (5, -1),
        "operation": (16, 127, -128),
        "permission_type": (4, -1),
    }.items():
        bad |= {f"{field} {code}": acl(name, **{field: code}) for code in codes}
    for note, entry in bad.items():
        await ask(run, CreateAclsRequest(creations=[entry]), version, note)
    only_for_filters = [
        acl(name, **{field: acls.ANY})
        for field in ("resource_type", "resource_pattern_type", "operation", "permission_type")
    ]
    only_for_filters.append(acl(name, resource_pattern_type=acls.MATCH))
    for number, entry in enumerate(only_for_filters):
        request = CreateAclsRequest(creations=[acl(name), *bad.values(), entry])
        await ask(run, request, version, f"fit for a filter {number}")
    await ask(run, DescribeAclsRequest(**filter_fields(resource_name_filter=name)), version, "none was made")
    odd = [acl(name, host="no host at all"), acl(name, principal=":"), acl(name, operation=acls.CREATE)]
    await ask(run, CreateAclsRequest(creations=[*bad.values(), *odd]), version, "good ones beside bad ones")
    await shown(run, len(odd), resource_name_filter=name)
    filters = [
        deletion(resource_name_filter=name, **{field: code})
        for field, code in (
            ("resource_type_filter", 8),
            ("pattern_type_filter", -1),
            ("operation", 16),
            ("permission_type", 4),
        )
    ]
    await ask(
        run,
        DeleteAclsRequest(filters=[*filters, deletion(resource_name_filter=name)]),
        version,
        "bad filters",
    )
    await ask(run, CreateAclsRequest(creations=[]), version, "nothing")
    await ask(run, DeleteAclsRequest(filters=[]), version, "nothing")


@scenario("security A12", on=SECURED, versions=ACLS)
async def a_description_of_unknown_codes_is_empty(run: Run, version: int) -> None:
    await give(run, acl(run.group))
    await shown(run, 1, resource_name_filter=run.group)
    for field in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"):
        for code in (99, -1):
            request = DescribeAclsRequest(**filter_fields(resource_name_filter=run.group, **{field: code}))
            await ask(run, request, version, f"{field} {code}")


@scenario("security A14", on=SECURED)
async def too_many_acls_at_once_are_refused(run: Run) -> None:
    """10,001 that would be made; bad ones do not count, and stay as they are."""
    entries = [acl(f"{run.group}/{number}") for number in range(10_001)]
    answer = await quietly(run, CreateAclsRequest(creations=[*entries, acl("")]), acls.VERSION)
    counts = Counter((result.error_code, result.error_message) for result in answer.results)
    run.saw("how many of each", [f"{key} {count}" for key, count in sorted(counts.items())])
    request = DescribeAclsRequest(**filter_fields(resource_name_filter=f"{run.group}/0"))
    await ask(run, request, acls.VERSION, "none was made")


def cases(name: str) -> dict[str, tuple[bool, list[AclCreation]]]:
    """What is decided, by the end of the group's name: whether DECIDED may DESCRIBE it, and the ACLs of it.

    Her host is 127.0.0.1. A4: what implies DESCRIBE, where it allows; A3, A5, A8.
    """

    def group(end: str, **changes: Any) -> AclCreation:
        fields = {"resource_type": acls.GROUP, "operation": acls.DESCRIBE, "principal": HERS, **changes}
        return acl(f"{name}/{end}", **fields)

    deny, prefixed = {"permission_type": acls.DENY}, {"resource_pattern_type": acls.PREFIXED}
    found: dict[str, tuple[bool, list[AclCreation]]] = {"nothing": (False, [])}
    for operation in range(acls.ALL, 16):
        implying = operation in (acls.ALL, acls.READ, acls.WRITE, acls.DELETE, acls.ALTER, acls.DESCRIBE)
        end = f"allow {operation}"
        found[end] = (implying, [group(end, operation=operation)])
        end = f"deny {operation}"
        is_left = operation not in (acls.ALL, acls.DESCRIBE)
        found[end] = (is_left, [group(end), group(end, operation=operation, **deny)])
    for principal, is_hers in {
        "User:*": True,
        "User:Decided_rights": False,
        "User:bob": False,
        f"Group:{DECIDED}": False,
        f"{HERS} ": False,
        "user:*": False,
    }.items():
        end = f"for {principal}"
        found[end] = (is_hers, [group(end, principal=principal)])
        end = f"deny for {principal}"
        found[end] = (not is_hers, [group(end), group(end, principal=principal, **deny)])
    for host, is_hers in {
        "127.0.0.1": True,
        "10.0.0.7": False,
        "localhost": False,
        "127.0.0.0/8": False,
    }.items():
        end = f"at {host}"
        found[end] = (is_hers, [group(end, host=host)])
        end = f"deny at {host}"
        found[end] = (not is_hers, [group(end), group(end, host=host, **deny)])
    return found | {
        "prefix whole": (True, [group("prefix whole", **prefixed)]),
        "prefix part": (True, [group("prefix p", **prefixed)]),
        "prefix": (False, [group("prefix that is longer", **prefixed)]),
        "deny prefix part": (False, [group("deny prefix part"), group("deny pre", **prefixed, **deny)]),
        "a topic": (False, [group("a topic", resource_type=acls.TOPIC)]),
        "literal par": (False, [group("literal p")]),
    }


@scenario(
    "security A3", "security A4", "security A5", "security A7", "security A8", "security A9", on=SECURED
)
async def rights_are_decided_by_acls(run: Run) -> None:
    """Many groups and who may look for their coordinators, in one request; then all ACLs go."""
    run.logs_in(DECIDED)
    run.logs_in("admin")
    wanted = cases(run.group)
    marker = f"{run.group}/marker"
    await give(
        run,
        *itertools.chain.from_iterable(given for _, given in wanted.values()),
        acl(
            run.group,
            resource_type=acls.GROUP,
            principal="User:admin",
            permission_type=acls.DENY,
            operation=2,
        ),
        acl(marker, resource_type=acls.GROUP, principal=HERS),
    )
    await until(run, DECIDED, find(marker), FIND_VERSION, lambda reply: not is_denied(reply.coordinators[0]))
    names = [f"{run.group}/{end}" for end in wanted]
    reply = await run.answer(await run.send(DECIDED, find(*names), FIND_VERSION, "by ACLs"))
    for (end, (is_allowed, _)), found in zip(wanted.items(), reply.coordinators, strict=True):
        run.expect(is_denied(found) != is_allowed, f"{end}: allowed is {is_allowed}")
    reply = await run.answer(await run.send("admin", find(run.group), FIND_VERSION, "a super user"))
    run.expect(not is_denied(reply.coordinators[0]), "a DENY does not hold for a super user")
    await take(run, [*names, *(f"{run.group}/{end}" for end in ("prefix p", "deny pre")), marker])
    await until(run, DECIDED, find(marker), FIND_VERSION, lambda reply: is_denied(reply.coordinators[0]))
    reply = await run.answer(await run.send(DECIDED, find(*names), FIND_VERSION, "without ACLs"))
    run.expect(all(map(is_denied, reply.coordinators)), "nothing is left")


def find(*groups: str) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(coordinator_keys=list(groups))


def is_denied(found: Any) -> bool:
    return bool(found.error_code == DENIED)


@scenario("security A3", "security A5", on=SECURED, in_turn=WILDCARDS)
async def an_acl_of_all_names_concerns_each(run: Run) -> None:
    """A literal `*` is all names, a prefixed one those that begin with it; a DENY of one name wins."""
    run.logs_in(ALL_GROUPS)
    hers = {"resource_type": acls.GROUP, "principal": f"User:{ALL_GROUPS}", "operation": acls.DESCRIBE}
    name, denied, marker = (f"{run.group}{end}" for end in ("", "/denied", "/marker"))
    starred = f"*{run.group}"  # Kafka's literal `*` does not concern such names (A3).
    for note, pattern, asked, wanted in (
        ("literal", acls.LITERAL, (name, denied), [False, True]),
        ("prefixed", acls.PREFIXED, (name, denied, starred), [True, True, False]),
    ):
        given = acl("*", resource_pattern_type=pattern, **hers)
        await give(run, given, acl(denied, permission_type=acls.DENY, **hers), acl(marker, **hers))
        await until(
            run, ALL_GROUPS, find(marker), FIND_VERSION, lambda reply: not is_denied(reply.coordinators[0])
        )
        reply = await run.answer(await run.send(ALL_GROUPS, find(*asked), FIND_VERSION, note))
        run.expect([is_denied(each) for each in reply.coordinators] == wanted, note)
        await take_of(run, ALL_GROUPS)
        await until(
            run, ALL_GROUPS, find(marker), FIND_VERSION, lambda reply: is_denied(reply.coordinators[0])
        )
