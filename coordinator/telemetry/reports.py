"""What clients said of themselves lately, to be looked up when a member of a group goes.

A client is known by the member id that its labels show, else by client id and host where only one client there
reports on that group. Bounded over all clients together. Knows no requests; the time is an argument.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from coordinator.telemetry.payload import Said

MAX_CLIENTS: Final = 10_000
"""Most clients whose last report is kept, some 1 KB each; the one longest without a report goes first."""

MAX_PER_ORIGIN: Final = 2
"""Clients of one client id and host that are looked at: with more than one it is not known which is meant."""

MAX_ORIGIN_CHARS: Final = 256
"""Of a client's id that is kept as it is: there may be thousands, and each may have 32 KB."""


class Origin(NamedTuple):
    """Where clients come from."""

    client_id: str
    client_host: str


def origin_of(client_id: str, client_host: str) -> Origin:
    """Return the origin of a client; of an id that is too long its beginning, and a digest that tells it apart."""
    if len(client_id) > MAX_ORIGIN_CHARS:
        digest = hashlib.sha256(client_id.encode(errors="surrogatepass")).hexdigest()
        client_id = client_id[:MAX_ORIGIN_CHARS] + digest
    return Origin(client_id, client_host)


class MemberOfGroup(NamedTuple):
    """A member that goes."""

    group_id: str
    member_id: str | None
    origin: Origin


@dataclass(frozen=True, slots=True)
class Report:
    """The last push of one client: its figures, when it came, and until when it counts (monotonic ms)."""

    origin: Origin
    said: Said
    at_ms: int
    until_ms: int

    @property
    def member(self) -> tuple[str, str] | None:
        """The group and member id that its labels show."""
        labels = self.said.labels
        if not labels.get("group_id") or not labels.get("group_member_id"):
            return None
        return labels["group_id"], labels["group_member_id"]


class ClientReports:
    """The last report of each client instance."""

    def __init__(self, most: int = MAX_CLIENTS) -> None:
        self._most = most
        self._reports: OrderedDict[bytes, Report] = OrderedDict()  # Longest without a report first.
        self._by_member: dict[tuple[str, str], bytes] = {}
        self._by_origin: dict[Origin, dict[bytes, None]] = {}

    def __len__(self) -> int:
        return len(self._reports)

    def add(self, client_instance_id: bytes, report: Report) -> None:
        """Keep a report in place of the client's last one; of one without figures nothing is kept."""
        self._remove(client_instance_id)
        if not report.said.figures:
            return
        self._reports[client_instance_id] = report
        self._by_origin.setdefault(report.origin, {})[client_instance_id] = None
        if report.member is not None:
            self._by_member[report.member] = client_instance_id
        while len(self._reports) > self._most:
            self._remove(next(iter(self._reports)))

    def latest(self, member: MemberOfGroup, now_ms: int) -> Mapping[str, int] | None:
        """Return the figures that the member's client sent last, and their age; None if nothing is known of it."""
        report = self._of_member(member) or self._of_origin(member, now_ms)
        if report is None or report.until_ms < now_ms:
            return None
        return {"age_ms": max(now_ms - report.at_ms, 0), **report.said.figures}

    def _of_member(self, member: MemberOfGroup) -> Report | None:
        if member.member_id is None:
            return None
        found = self._by_member.get((member.group_id, member.member_id))
        return None if found is None else self._reports[found]

    def _of_origin(self, member: MemberOfGroup, now_ms: int) -> Report | None:
        """The report of the only client of its origin that may be the member, as far as labels show."""
        found: list[Report] = []
        for client_instance_id in self._by_origin.get(member.origin, ()):
            report = self._reports[client_instance_id]
            group_id = report.said.labels.get("group_id", member.group_id)
            if report.until_ms >= now_ms and report.member is None and group_id == member.group_id:
                found.append(report)
                if len(found) == MAX_PER_ORIGIN:
                    return None
        return found[0] if found else None

    def _remove(self, client_instance_id: bytes) -> None:
        report = self._reports.pop(client_instance_id, None)
        if report is None:
            return
        clients = self._by_origin[report.origin]
        del clients[client_instance_id]
        if not clients:
            del self._by_origin[report.origin]
        if report.member is not None and self._by_member.get(report.member) == client_instance_id:
            del self._by_member[report.member]
