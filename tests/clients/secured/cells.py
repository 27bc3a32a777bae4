"""The cells of the matrix: client libraries, the ways in which clients say who they are, and what they meet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from harness.processes import ServerProcess
from tests.clients.secured.issuer import Issuer
from tests.clients.secured.world import (
    ALLOWED,
    BRIEF,
    FORBIDDEN,
    LISTENERS,
    MECHANISMS,
    MTLS,
    PASSWORD,
    SESSION_MS,
    USER,
    WAYS,
    WRONG_PASSWORD,
    Certificates,
)

SESSIONS: Final = 2.6
"""How many sessions a member stays for."""
TOKEN: Final = "OAUTHBEARER"
REFUSED_S: Final = 6.0
"""How long a library tries to find its cluster that tries on after a refusal."""
PATIENCE_S: Final = 120.0
"""How long a busy machine may take for what comes for certain."""


@dataclass(frozen=True, slots=True)
class Column:
    """What a client does, where, and with what."""

    name: str
    does: str = "connects"
    credentials: str = "right"
    topic: str = ALLOWED
    group: str = ALLOWED
    group_protocol: str = "classic"
    ways: tuple[str, ...] = WAYS
    is_encrypted: bool = True
    trusts_the_server: bool = True

    @property
    def is_let_in(self) -> bool:
        return self.credentials == "right" and self.trusts_the_server


COLUMNS: Final = (
    Column("right"),
    Column("right, without TLS", ways=MECHANISMS, is_encrypted=False),
    Column("wrong", credentials="wrong"),
    Column("wrong, without TLS", credentials="wrong", ways=MECHANISMS, is_encrypted=False),
    Column("expired", credentials="expired"),
    Column("a server of another authority", trusts_the_server=False, ways=(MTLS,)),
    Column("29 writing", "writes", topic=FORBIDDEN),
    Column("29 reading", "reads", topic=FORBIDDEN),
    Column("30", "reads", group=FORBIDDEN),
    Column("29 reading, KIP-848", "reads", topic=FORBIDDEN, group_protocol="consumer"),
    Column("30, KIP-848", "reads", group=FORBIDDEN, group_protocol="consumer"),
    Column("re-authenticated", "stays"),
)
"""Who stays comes last, when libraries are loaded and the machine is not so busy that it logs in too late."""


def named_cells() -> Iterator[tuple[str, str, Column]]:
    """The name of each cell, with its row and its column."""
    for column in COLUMNS:
        for way in column.ways:
            yield f"{way}: {column.name}", way, column


@dataclass(frozen=True, slots=True)
class World:
    """What clients of one broker are given."""

    server: ServerProcess
    certificates: Certificates
    issuer: Issuer

    def cell(self, library: str, way: str, column: Column, waits_s: float) -> dict[str, Any]:
        """A cell as a worker is given it (workers/secured.py)."""
        listener = _listener(way, column)
        certificates = self.certificates
        trusted = certificates.authority if column.trusts_the_server else certificates.other_authority
        name = f"{way}: {column.name}"
        return {
            "name": name,
            "does": column.does,
            "bootstrap": self.server.bootstrap_of(listener),
            "protocol": LISTENERS[listener],
            "authority": str(trusted),
            "topic": column.topic,
            "group": group_of(library, name, column),
            "group_protocol": column.group_protocol,
            "lasts_s": SESSIONS * SESSION_MS / 1000,
            "session_s": SESSION_MS / 1000,
            "bootstrap_s": PATIENCE_S if column.is_let_in else REFUSED_S,
            "waits_s": waits_s,
            **self._credentials(library, way, column),
        }

    def _credentials(self, library: str, way: str, column: Column) -> dict[str, str]:
        if way == MTLS:
            return {"certificate": str(self.certificates.of_clients[column.credentials])}
        if way == TOKEN:
            kind = "brief" if column.does == "stays" else column.credentials
            return {"mechanism": way, "token_url": self.issuer.url(kind)}
        if column.credentials == "right":
            return {"mechanism": way, "user": USER, "password": PASSWORD}
        # A user of the library's own: the passwords tried for one user delay each other (F3).
        return {"mechanism": way, "user": library, "password": WRONG_PASSWORD}


def group_of(library: str, name: str, column: Column) -> str:
    """Each cell's own: cells are played at the same time."""
    return f"{column.group} of {library}, {name}"


def _listener(way: str, column: Column) -> str:
    if column.does == "stays":
        return BRIEF[way]
    if way == MTLS:
        return "MTLS"
    return "TLS" if column.is_encrypted else "SASL"
