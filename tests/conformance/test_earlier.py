"""Muster beside an earlier Muster: nothing may differ but for APIs that the earlier one has not."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from protocol.messages.heartbeat import HeartbeatResponse
from tests.conformance.comparison import Entry
from tests.conformance.earlier import EARLIER, questions, table_differences, without_rows
from tests.conformance.registry import all_scenarios
from tests.conformance.report import lines_of
from tests.conformance.run import Run
from tests.conformance.suite import Outcome, play
from tests.conformance.targets import MUSTER, Target, new_target

BEFORE = ApiVersionsResponse(
    api_keys=[ApiVersion(api_key=key, min_version=0, max_version=4) for key in (3, 12)]
)
NEW = ApiVersion(api_key=38, min_version=1, max_version=3)
NOW = replace(BEFORE, api_keys=[*BEFORE.api_keys, NEW])


def test_new_rows_may_come_and_nothing_else_may_change() -> None:
    assert list(table_differences(BEFORE, BEFORE)) == []
    assert list(table_differences(BEFORE, NOW)) == []
    (lost,) = table_differences(NOW, BEFORE)
    assert "api_key=38" in lost
    wider = replace(
        BEFORE, api_keys=[BEFORE.api_keys[0], ApiVersion(api_key=12, min_version=0, max_version=5)]
    )
    (changed,) = table_differences(BEFORE, wider)
    assert "api_key=12" in changed
    (other,) = table_differences(BEFORE, replace(NOW, finalized_features_epoch=7))
    assert "finalized_features_epoch=7" in other


def test_what_is_new_is_known_by_key_and_version() -> None:
    assert questions(NOW) - questions(BEFORE) == {(38, 1), (38, 2), (38, 3)}


def test_new_rows_alone_are_taken_out_of_transcripts() -> None:
    beat = Entry("a heartbeat", HeartbeatResponse(), body=b"same")
    (table, kept) = without_rows([Entry("a table", NOW, body=b"bytes"), beat], {38})
    assert table.seen.api_keys == BEFORE.api_keys
    assert kept is beat
    (whole,) = without_rows([Entry("a table", NOW, body=b"bytes")], set())
    assert whole.seen.api_keys == NOW.api_keys
    assert whole.body == b"bytes"


@pytest.mark.parametrize(("asks", "is_equal"), [((12, 4), False), ((38, 3), True)])
def test_what_an_earlier_commit_does_not_serve_is_left_out_and_counted(
    tmp_path: Path, asks: tuple[int, int], is_equal: bool
) -> None:
    targets: list[Target] = [new_target(kind, "plain", tmp_path, tmp_path) for kind in (EARLIER, MUSTER)]
    targets[0].unserved = questions(NOW) - questions(BEFORE)
    words = iter(("one", "another"))

    async def script(run: Run) -> None:
        run.questions.add(asks)
        run.saw("a word", next(words))

    scenario = replace(all_scenarios()[0], script=script, versions=(), choices=(), restarts=())
    outcome: Outcome = asyncio.run(play(scenario.cases()[0], targets, {}))
    assert outcome.is_equal is is_equal
    lines = list(lines_of([outcome], verbose=False))
    assert any(line.startswith("left out") and "API keys 38" in line for line in lines) is is_equal
    assert any("(all): earlier 'one', muster 'another'" in line for line in lines) is not is_equal
