"""The table of ApiVersions beside that of a running 4.3.1 node: key by key, version by version, and its features.

What is missing is named here, and nothing else may be. A name of what is served cannot stand here, so the lists
only get shorter.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, TypeVar

from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.conformance.answers import Answer
from tests.conformance.connection import Connection
from tests.conformance.encrypted import TLS_LISTENERS, OnAnswer, client, connect

SHARE_AND_STREAMS_GROUPS: Final = frozenset({*range(76, 80), *range(83, 93)})
LATER: Final = SHARE_AND_STREAMS_GROUPS
"""API keys that are not served; docs/apis.md names them."""

FEATURES_LATER: Final = frozenset({"share.version", "streams.version"})
"""Features that come with the APIs of LATER."""

FEATURES_OF_QUORUMS: Final = frozenset(
    {"eligible.leader.replicas.version", "kraft.version", "metadata.version"}
)
"""Features of what is not here: replicas, a Raft quorum, a metadata log (docs/apis.md)."""

MISSING_FEATURES: Final = FEATURES_LATER | FEATURES_OF_QUORUMS
VERSIONS: Final = range(5)
NAMED_SINCE: Final = 3

Range = tuple[int, int]
K = TypeVar("K", int, str)


Open = Callable[[OnAnswer], Awaitable[Connection]]
"""Opens a connection on which nothing was said yet."""


def listener(bootstrap: str, name: str = "") -> Open:
    """How a client connects to the listener of that name at the address: through TLS where it has that."""
    if name in TLS_LISTENERS:
        context = client(ssl.TLSVersion.TLSv1_3, shown="good")
        return lambda on_answer: connect(bootstrap, context, on_answer)
    return lambda on_answer: Connection.open(bootstrap, "served", on_answer)


async def compare_served(kafka: Open, muster: Open) -> list[str]:
    """What differs between the tables of two brokers, in every version of ApiVersions."""
    found: list[str] = []
    for version in VERSIONS:
        theirs, their_surplus = await _ask(kafka, version)
        ours, our_surplus = await _ask(muster, version)
        found += [f"ApiVersions v{version}: {what}" for what in differences(theirs, ours)]
        if their_surplus != our_surplus:
            found.append(f"ApiVersions v{version}: kafka {their_surplus!r}, muster {our_surplus!r}")
    return found


def missing(muster: ApiVersionsResponse) -> Iterator[str]:
    """What of the node's table is not served, as lines for people."""
    served = {api.api_key for api in muster.api_keys}
    if absent := sorted(LATER - served):
        yield f"API keys not served: {', '.join(map(str, absent))}"


def differences(kafka: ApiVersionsResponse, muster: ApiVersionsResponse) -> Iterator[str]:
    """What is not as Kafka reports it, but for what the lists above name."""
    if muster.error_code or kafka.error_code:
        yield f"error: kafka {kafka.error_code}, muster {muster.error_code}"
    yield from _differing("API key", _keys(kafka), _keys(muster), LATER)
    order = [api.api_key for api in muster.api_keys]
    if order != [api.api_key for api in kafka.api_keys if api.api_key in set(order)]:
        yield f"the keys come in another order: {order}"
    for kind, theirs, ours in (
        ("supported feature", _supported(kafka), _supported(muster)),
        ("finalized feature", _finalized(kafka), _finalized(muster)),
    ):
        yield from _differing(kind, theirs, ours, MISSING_FEATURES)
    if (kafka.finalized_features_epoch < 0) != (muster.finalized_features_epoch < 0):
        yield f"epoch: kafka {kafka.finalized_features_epoch}, muster {muster.finalized_features_epoch}"
    if kafka.zk_migration_ready != muster.zk_migration_ready:
        yield f"zk_migration_ready: kafka {kafka.zk_migration_ready}, muster {muster.zk_migration_ready}"


def _differing(
    kind: str, kafka: dict[K, Range], muster: dict[K, Range], absent: frozenset[K]
) -> Iterator[str]:
    for name in sorted(kafka.keys() | muster.keys()):
        theirs, ours = kafka.get(name), muster.get(name)
        if ours is not None and name in absent:
            yield f"{kind} {name} is served: it must not be named as missing"
        if theirs != ours and not (ours is None and name in absent):
            yield f"{kind} {name}: kafka {theirs}, muster {ours}"


def _keys(response: ApiVersionsResponse) -> dict[int, Range]:
    return {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}


def _supported(response: ApiVersionsResponse) -> dict[str, Range]:
    return {each.name: (each.min_version, each.max_version) for each in response.supported_features}


def _finalized(response: ApiVersionsResponse) -> dict[str, Range]:
    return {
        each.name: (each.min_version_level, each.max_version_level) for each in response.finalized_features
    }


async def ask_served(broker: Open) -> ApiVersionsResponse:
    """The table of a broker, in the newest version."""
    response, _ = await _ask(broker, VERSIONS[-1])
    return response


async def _ask(broker: Open, version: int) -> tuple[ApiVersionsResponse, str]:
    """The answer in `version`, and the bytes in it that no field accounts for."""
    answers: list[Answer] = []
    connection = await broker(answers.append)
    named = {"client_software_name": "served", "client_software_version": "1"}
    request = ApiVersionsRequest(**named) if version >= NAMED_SINCE else ApiVersionsRequest()
    await connection.send(request, version)
    connection.close()
    (answer,) = answers
    assert isinstance(answer.message, ApiVersionsResponse)
    return answer.message, answer.surplus
