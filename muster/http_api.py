"""The HTTP of a Muster, as the command line asks it: found by DescribeConfigs, spoken with h11 over asyncio.

Other clusters have none, and it may be switched off or out of reach: whoever asks has another way. What it answers
is JSON, and a stream of events that is gone on with after a restart of the daemon, from where it was.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode, urlsplit

import h11

from muster.client_properties import ClientSettings
from muster.cluster import Cluster, ClusterError
from protocol.messages.describe_configs import (
    ConfigResourceType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)

OPTION: Final = "muster.http.listeners"
TIMEOUT_S: Final = 5.0
"""Longest wait for an answer, and for a connection."""

SILENCE_S: Final = 30.0
"""Longest silence of a stream, which shows every 10 s that it lives."""

TRY_AGAIN_S: Final = (0.2, 0.5, 1.0, 2.0)
"""Pauses between attempts to go on with a stream; the last one is repeated."""

READ_BYTES: Final = 1 << 16
BEFORE_ALL: Final = "-1"
"""The id of a stream that began while the topic was empty."""

PORT_MAX: Final = 65_535
_URL: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>[^/@:\s\[\]]+|\[[0-9a-fA-F:.]+\]):(?P<port>[0-9]{1,5})/?"
)
_EVERY_INTERFACE: Final = frozenset({"0.0.0.0", "::"})


class NoHttp(Exception):
    """Raised where the HTTP of a Muster gives no answer that is one."""


class StreamedEvent(NamedTuple):
    """One event of the stream: its kind, its offset on `__group_events`, and what it says."""

    kind: str
    offset: int | None
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class HttpApi:
    """Where a Muster serves HTTP."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    token: str | None = field(default=None, repr=False)

    async def get(self, path: str, **query: str) -> Any:
        """Return the JSON of an answer. Raises NoHttp, also for an answer that is a refusal."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await self._get(path, query)
        except (OSError, TimeoutError, h11.RemoteProtocolError, ValueError) as error:
            raise NoHttp(f"{path}: {error!r}") from None

    async def _get(self, path: str, query: dict[str, str]) -> Any:
        answer = await _Answer.of(self, path, query, {})
        try:
            body = b"".join([part async for part in answer.body()])
        finally:
            answer.close()
        if answer.status != 200:
            raise NoHttp(f"{path}: {answer.status}")
        return json.loads(body)

    async def events(self, start: str = "latest", **query: str) -> AsyncIterator[StreamedEvent | None]:
        """Yield events from `start` on, without end: a stream that breaks is gone on with. None: it broke.

        Raises NoHttp if it cannot be begun.
        """
        last_id: int | None = None
        failures = 0
        is_begun = False
        while True:
            headers = {} if last_id is None else {"Last-Event-ID": str(last_id)}
            try:
                answer = await self._begin({**query, "from": start}, headers)
                is_begun = True
                try:
                    async for kind, offset, data in _frames(answer):
                        failures = 0
                        last_id = last_id if offset is None else offset
                        if data is not None:
                            yield StreamedEvent(kind, offset, data)
                finally:
                    answer.close()
            except NoHttp:
                if not is_begun:
                    raise
            if not failures:
                yield None
            await asyncio.sleep(TRY_AGAIN_S[min(failures, len(TRY_AGAIN_S) - 1)])
            failures += 1

    async def _begin(self, query: dict[str, str], headers: dict[str, str]) -> _Answer:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                answer = await _Answer.of(self, "/api/v1/events", query, headers)
        except (OSError, TimeoutError, h11.RemoteProtocolError) as error:
            raise NoHttp(f"events: {error!r}") from None
        if answer.status != 200:
            answer.close()
            raise NoHttp(f"events: {answer.status}")
        return answer


class _Answer:
    """An answer whose head was read."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._http = h11.Connection(h11.CLIENT)
        self.status = 0

    @classmethod
    async def of(cls, api: HttpApi, path: str, query: dict[str, str], headers: dict[str, str]) -> _Answer:
        """Ask, and read the head of the answer. Raises OSError and RemoteProtocolError."""
        answer = cls(*await asyncio.open_connection(api.host, api.port, ssl=api.tls))
        host = f"[{api.host}]" if ":" in api.host else api.host
        target = f"{path}?{urlencode(query)}" if query else path
        all_headers = {"Host": f"{host}:{api.port}", "Connection": "close", **headers}
        if api.token is not None:
            all_headers["Authorization"] = f"Bearer {api.token}"
        request = h11.Request(method="GET", target=target, headers=list(all_headers.items()))
        try:
            for event in (request, h11.EndOfMessage()):
                answer._writer.write(answer._http.send(event) or b"")
            await answer._writer.drain()
            head = await answer._next()
            if not isinstance(head, h11.Response):
                raise ConnectionError("it hung up")
            answer.status = head.status_code
        except BaseException:
            answer.close()
            raise
        return answer

    async def _next(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            async with asyncio.timeout(SILENCE_S):
                self._http.receive_data(await self._reader.read(READ_BYTES))
        return event

    async def body(self) -> AsyncIterator[bytes]:
        """The parts of the body."""
        while isinstance(event := await self._next(), h11.Data):
            yield bytes(event.data)

    def close(self) -> None:
        self._writer.close()


async def _frames(answer: _Answer) -> AsyncIterator[tuple[str, int | None, dict[str, Any] | None]]:
    """What comes on a stream until it breaks: kind, offset and data of each frame, or the offset alone."""
    rest = b""
    with suppress(OSError, TimeoutError, h11.RemoteProtocolError):
        async for part in answer.body():
            *frames, rest = (rest + part).split(b"\n\n")
            for frame in frames:
                yield _read(frame)


def _read(frame: bytes) -> tuple[str, int | None, dict[str, Any] | None]:
    kind, offset, data = "message", None, None
    for line in frame.decode("utf-8", "replace").split("\n"):
        name, _, value = line.partition(": ")
        if name == "id" and (value == BEFORE_ALL or value.isdigit()):
            offset = int(value)
        elif name == "event":
            kind = value
        elif name == "data":
            with suppress(ValueError):
                data = json.loads(value)
    return kind, offset, data if isinstance(data, dict) else None


async def find_http(cluster: Cluster, node_id: int | None = None) -> HttpApi | None:
    """Where a node, by default the first, serves HTTP that can be reached from here; None where none does."""
    asked = cluster.node_ids[0] if node_id is None else node_id
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=ConfigResourceType.BROKER,
                resource_name=str(asked),
                configuration_keys=[OPTION],
            )
        ]
    )
    try:
        answer = await cluster.send(asked, request)
    except ClusterError:
        return None  # It may be forbidden, and then there is another way.
    listeners = [
        config.value for result in answer.results for config in result.configs if config.name == OPTION
    ]
    addresses = [text for value in listeners if value for text in value.split(",")]
    broker = cluster.address(asked).rpartition(":")[0]
    found = (_reachable(text, broker, cluster.settings) for text in addresses)
    return next((api for api in found if api is not None), None)


def _reachable(text: str, broker: str, settings: ClientSettings) -> HttpApi | None:
    """How to reach a listener; None if it is on the loopback of another machine.

    The address is what the cluster says it is: a token is shown over https, and on this machine, and not in clear
    to others.
    """
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if host is None or port is None:
        return None
    if host in _EVERY_INTERFACE:
        host = broker
    elif _is_loopback(host) and not _is_loopback(broker):
        return None
    return _spoken_to(host, port, settings, has_tls=parts.scheme == "https")


def http_at(url: str, settings: ClientSettings) -> HttpApi:
    """The HTTP at `http://host:port` or `https://host:port`, as a user gives it. Raises ValueError: a sentence."""
    found = _URL.fullmatch(url)
    if found is None or int(found["port"]) > PORT_MAX:
        raise ValueError(f"{url} is neither http://host:port nor https://host:port")
    host, port = found["host"].strip("[]"), int(found["port"])
    return _spoken_to(host, port, settings, has_tls=found["scheme"] == "https")


def _spoken_to(host: str, port: int, settings: ClientSettings, *, has_tls: bool) -> HttpApi:
    tls = settings.security.https_context() if has_tls else None
    return HttpApi(host, port, tls, settings.http_token if tls or _is_loopback(host) else None)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
