"""An earlier commit's Muster in the place of Kafka: whether answers are still what they were, byte for byte.

`python -m tests.conformance --against COMMIT` plays the scenarios of all configurations without security on both.
Nothing may differ but for what the earlier one does not serve: its table of ApiVersions lacks it, and a scenario
that asks for it is counted as left out, as are those of CORRECTED. What scripts promise of Kafka does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import replace
from typing import Final

from protocol.messages.api_versions import ApiVersionsResponse
from tests.conformance.comparison import Entry

EARLIER: Final = "earlier"
"""The kind of a target that runs the source of another commit."""

CORRECTED: Final = {
    "a_code_of_nothing_ends_the_connection_without_an_authorizer": "such requests were answered 54 (A12)",
}
"""The scenarios in which answers were wrong before, and why; they are as Kafka's now."""

Question = tuple[int, int]
"""An API key and a version."""


def questions(table: ApiVersionsResponse) -> frozenset[Question]:
    """All that is served."""
    return frozenset(
        (row.api_key, version)
        for row in table.api_keys
        for version in range(row.min_version, row.max_version + 1)
    )


def table_differences(earlier: ApiVersionsResponse, now: ApiVersionsResponse) -> Iterator[str]:
    """What is wrong with today's table beside the earlier one: only whole rows may be new, and none may go."""
    ours = {row.api_key: row for row in now.api_keys}
    for row in earlier.api_keys:
        if ours.get(row.api_key) != row:
            yield f"ApiVersions: {row} became {ours.get(row.api_key)}"
    before, after = (replace(each, api_keys=[], throttle_time_ms=0) for each in (earlier, now))
    if before != after:
        yield f"ApiVersions: {before} became {after}"


def without_rows(entries: list[Entry], keys: Set[int]) -> list[Entry]:
    """A transcript in which ApiVersions has no rows of `keys`."""
    return [_without_rows(entry, keys) for entry in entries] if keys else entries


def _without_rows(entry: Entry, keys: Set[int]) -> Entry:
    if not isinstance(entry.seen, ApiVersionsResponse):
        return entry
    rows = [row for row in entry.seen.api_keys if row.api_key not in keys]
    return replace(entry, seen=replace(entry.seen, api_keys=rows), body=None)
