"""Delegation tokens as a broker answers that has no secret for them (A18 to A20)."""

from __future__ import annotations

from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from tests.conformance import acl_scenes as acls
from tests.conformance.acl_scenes import acl, give, take_of, until
from tests.conformance.admin_lines import TOKEN_TIMES, TOKENS
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.scenarios.acls import WILDCARDS
from tests.conformance.secured import SECURED

OWNERS_SINCE: Final = 3
DENIED: Final = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
MAKER: Final = "token_rights"

Owner = tuple[str | None, str | None]


def creation(*renewers: str, owner: Owner | None = None) -> CreateDelegationTokenRequest:
    made = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(principal_type=kind, principal_name="renewer") for kind in renewers],
        max_lifetime_ms=-1,
    )
    if owner is not None:
        made.owner_principal_type, made.owner_principal_name = owner
    return made


async def asked(run: Run, actor: str, request: Any, version: int, note: str) -> Any:
    return await run.answer(await run.send(actor, request, version, note))


async def create_all(run: Run, actor: str, version: int) -> None:
    """Ask for tokens of all kinds of owners and renewers."""
    for renewers in ((), ("User",), ("Group",), ("User", ""), ("user",)):
        await asked(run, actor, creation(*renewers), version, f"renewed by {renewers}")
    if version < OWNERS_SINCE:
        return
    for owner in ((None, None), ("User", None), ("User", ""), (None, ""), (None, "bob"), ("", "bob")):
        await asked(run, actor, creation(owner=owner), version, f"owned by {owner}")
    for owner in (("User", "bob"), ("User", "alice"), ("User", "ANONYMOUS"), ("user", "alice"), ("A:b", "c")):
        await asked(run, actor, creation("Group", owner=owner), version, f"renewed by a group, of {owner}")


async def change_all(run: Run, actor: str, version: int) -> None:
    """Ask for tokens to live longer and shorter."""
    for hmac in (b"", b"no token", bytes(64)):
        for period_ms in (-1, 0, 1, 2**62):
            note = f"{hmac!r} {period_ms}"
            renewal = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
            await asked(run, actor, renewal, version, note)
            expiry = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
            await asked(run, actor, expiry, version, note)


async def describe_all(run: Run, actor: str, version: int) -> None:
    """Ask for the tokens of all owners, of none and of one."""
    one = DescribeDelegationTokenOwner(principal_type="User", principal_name="alice")
    for owners in (None, [], [one]):
        await asked(run, actor, DescribeDelegationTokenRequest(owners=owners), version, f"of {owners}")


@scenario("6 CreateDelegationToken", "security A18", versions=TOKENS)
async def a_plain_listener_makes_no_tokens(run: Run, version: int) -> None:
    await create_all(run, "client", version)


@scenario("6 RenewDelegationToken", "6 ExpireDelegationToken", "security A18", versions=TOKEN_TIMES)
async def a_plain_listener_changes_no_tokens(run: Run, version: int) -> None:
    await change_all(run, "client", version)


@scenario("6 DescribeDelegationToken", "security A18", versions=TOKENS)
async def a_plain_listener_describes_no_tokens(run: Run, version: int) -> None:
    await describe_all(run, "client", version)


@scenario("security A19", "security A20", on=SECURED, versions=TOKENS)
async def users_are_made_no_tokens(run: Run, version: int) -> None:
    for actor in ("alice", "admin"):
        run.logs_in(actor)
        await create_all(run, actor, version)
        await describe_all(run, actor, version)


@scenario("security A20", on=SECURED, versions=TOKEN_TIMES)
async def users_change_no_tokens(run: Run, version: int) -> None:
    run.logs_in("alice")
    await change_all(run, "alice", version)


@scenario("security A3", "security A4", "security A19", on=SECURED, in_turn=WILDCARDS)
async def tokens_of_others_need_a_right_on_them(run: Run) -> None:
    """No right implies this one; a wildcard is given last, since it is for all users."""
    run.logs_in(MAKER)
    name = f"User:{run.group}"
    hers: dict[str, Any] = {"resource_type": acls.USER, "principal": f"User:{MAKER}"}
    rights = {
        "create tokens": acl(name, **hers, operation=acls.CREATE_TOKENS),
        "all": acl(name, **hers, operation=acls.ALL),
        "alter": acl(name, **hers, operation=acls.ALTER),
        "of a prefix": acl(
            name[:-1],
            **hers,
            operation=acls.CREATE_TOKENS,
            resource_pattern_type=acls.PREFIXED,
        ),
        "of all": acl("*", **hers, operation=acls.CREATE_TOKENS),
    }
    request = creation("User", owner=("User", run.group))
    marked = creation("User", owner=("User", f"{run.group} marker"))
    marker = acl(f"{name} marker", **hers, operation=acls.CREATE_TOKENS, host="127.0.0.1")
    reply = await asked(run, MAKER, request, OWNERS_SINCE, "without a right")
    run.expect(reply.error_code == DENIED, "it is needed")
    for note, right in rights.items():
        await give(run, right, marker)
        await until(run, MAKER, marked, OWNERS_SINCE, lambda reply: reply.error_code != DENIED)
        reply = await asked(run, MAKER, request, OWNERS_SINCE, note)
        run.expect((reply.error_code == DENIED) == (note == "alter"), f"{note}: {reply.error_code}")
        await take_of(run, MAKER)
        await until(run, MAKER, marked, OWNERS_SINCE, lambda reply: reply.error_code == DENIED)
        reply = await asked(run, MAKER, request, OWNERS_SINCE, f"without: {note}")
        run.expect(reply.error_code == DENIED, f"{note}: it went")
