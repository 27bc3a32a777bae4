"""Which TLS handshakes are refused by an alert, and who those are that are let in (T4 to T31)."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.framing import encode_request
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.delegation_tokens import CreateDelegationTokenRequest
from tests.conformance.encrypted import (
    ALERT,
    HUNG_UP,
    MUTUAL,
    TLS,
    TLS_LOGIN,
    answer_to_bytes,
    client,
    connect,
    refusal,
)
from tests.conformance.logins import log_in, plain
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.secured import PASSWORDS, SASL_LISTENER, SECURED

VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
QUIET_S: Final = 0.5
"""How long a connection has to stay open that is not closed by itself."""
SHOWN: Final = ("", "good", "odd name")
TOKENS_VERSION: Final = 3
AUTHENTICATED: Final = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
ANONYMOUS: Final = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


async def whoami(run: Run, connection: Any, note: str) -> Any:
    """The answer to a request for a token, which says in whose name it was made (A20)."""
    request = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)
    reply = await connection.send(request, TOKENS_VERSION)
    run.saw(f"CreateDelegationToken v{TOKENS_VERSION} {note}", reply)
    connection.close()
    return reply


@scenario("security T5", "security T30", "security T31", "security A18", on=SECURED, choices=VERSIONS)
async def a_certificate_says_who_the_client_is(run: Run, choice: str) -> None:
    for shown in SHOWN:
        connection = await connect(run.other_bootstraps[TLS], client(VERSIONS[choice], shown))
        reply = await whoami(run, connection, f"with {shown or 'no'} certificate")
        run.expect(reply.error_code == (AUTHENTICATED if shown else ANONYMOUS), f"{shown}: as it should be")
        name = reply.principal_name
        run.expect(name == "ANONYMOUS" if not shown else "CN=" in name, f"{shown}: the subject")


@scenario("security T6", "security T32", on=SECURED, choices=VERSIONS)
async def who_insists_on_a_certificate_lets_one_in(run: Run, choice: str) -> None:
    connection = await connect(run.other_bootstraps[MUTUAL], client(VERSIONS[choice], "good"))
    reply = await whoami(run, connection, "")
    run.expect(
        (reply.error_code, reply.principal_name) == (AUTHENTICATED, "ALICE"), "it has the name of the rule"
    )


@scenario("security T32", on=SECURED, choices=VERSIONS)
async def a_client_that_no_rule_names_is_closed_at_its_first_request(run: Run, choice: str) -> None:
    connection = await connect(run.other_bootstraps[MUTUAL], client(VERSIONS[choice], "odd name"))
    silent = asyncio.ensure_future(connection.next_frame())
    await asyncio.wait([silent], timeout=QUIET_S)
    run.saw("before it asks", "closed" if silent.done() else "open")
    run.expect(not silent.done(), "it is open until it asks")
    connection.write(encode_request(ApiVersionsRequest(), 0, 7, "client"))
    try:
        async with asyncio.timeout(10):
            await silent
        seen = "an answer"
    except ConnectionError:
        seen = HUNG_UP
    run.saw("its first request", seen)
    run.expect(seen == HUNG_UP, "it is closed")
    connection.close()


@scenario("security T5", "security T6", "security T7", "security T18", on=SECURED, choices=VERSIONS)
async def certificates_that_do_not_verify_are_refused_by_an_alert(run: Run, choice: str) -> None:
    refused = [(MUTUAL, "")] + [
        (listener, shown) for listener in (TLS, MUTUAL) for shown in ("of another authority", "expired")
    ]
    for listener, shown in refused:
        seen = await refusal(run.other_bootstraps[listener], client(VERSIONS[choice], shown))
        run.saw(f"{listener}: {shown or 'no'} certificate", seen)
        run.expect(seen == ALERT, f"{listener}, {shown}: an alert")


@scenario("security T18", on=SECURED, choices=(TLS, MUTUAL, TLS_LOGIN))
async def what_has_no_version_or_suite_in_common_is_refused_by_an_alert(run: Run, choice: str) -> None:
    for what, context in (
        ("TLS 1.1", client(ssl.TLSVersion.TLSv1_1, ciphers="ALL:@SECLEVEL=0")),
        ("suites for another kind of key", client(ssl.TLSVersion.TLSv1_2, ciphers="AES128-GCM-SHA256")),
    ):
        seen = await refusal(run.other_bootstraps[choice], context)
        run.saw(what, seen)
        run.expect(seen == ALERT, f"{what}: an alert")


@scenario("security T16", on=SECURED, choices=(TLS, MUTUAL, TLS_LOGIN))
async def plaintext_on_a_listener_with_tls_gets_an_alert(run: Run, choice: str) -> None:
    hello = encode_request(ApiVersionsRequest(), 0, 7, "client")
    for what, data in (("a request", hello), ("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")):
        seen = await answer_to_bytes(run.other_bootstraps[choice], data)
        run.saw(what, seen)
        run.expect(seen == ALERT, f"{what}: an alert")


@scenario("security T16", on=SECURED)
async def tls_on_a_plain_listener_is_hung_up_on(run: Run) -> None:
    for name, bootstrap in (("plain", run.bootstrap), ("SASL", run.other_bootstraps[SASL_LISTENER])):
        assert bootstrap is not None
        try:
            (await connect(bootstrap, client(ssl.TLSVersion.TLSv1_3))).close()
            seen = "a handshake"
        except ConnectionError:
            seen = HUNG_UP
        run.saw(name, seen)
        run.expect(seen == HUNG_UP, f"{name}: it is closed")


@scenario("security T4", "security S11", on=SECURED, choices=VERSIONS)
async def behind_tls_a_login_says_who_the_client_is(run: Run, choice: str) -> None:
    """Whatever certificate it has; the general ssl.client.auth is none of such a listener's."""
    for shown in ("", "good"):
        connection = await connect(run.other_bootstraps[TLS_LOGIN], client(VERSIONS[choice], shown))
        await log_in(connection, plain("alice", PASSWORDS["alice"]))
        reply = await whoami(run, connection, f"with {shown or 'no'} certificate")
        run.expect((reply.error_code, reply.principal_name) == (AUTHENTICATED, "alice"), "it is alice")


@scenario("security S2", on=SECURED)
async def behind_tls_nothing_is_served_before_the_login(run: Run) -> None:
    connection = await connect(run.other_bootstraps[TLS_LOGIN], client(ssl.TLSVersion.TLSv1_3))
    request = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)
    try:
        async with asyncio.timeout(10):
            seen = await connection.send(request, TOKENS_VERSION)
    except ConnectionError:
        seen = HUNG_UP
    run.saw("a request before the login", seen)
    run.expect(seen == HUNG_UP, "it is closed")
    connection.close()
