"""Scenarios in which offsets are committed within transactions, played on nodes, which have to refuse all of that.

A script goes on until it is refused, as it knows Kafka alone: with TRANSACTIONAL_ID_AUTHORIZATION_FAILED for
everything in an AddOffsetsToTxn or TxnOffsetCommit, or by the end of the connection in a version that is not
offered. Whatever else such a request is answered counts as taken, and nothing may be held for a transaction.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from tests.conformance.answers import Answer
from tests.conformance.earlier import Question, questions
from tests.conformance.registry import Case
from tests.conformance.run import CLOSED, Asked, Run
from tests.conformance.served import ask_served, listener
from tests.conformance.suite import AT_A_TIME, CASE_TIMEOUT_S
from tests.conformance.targets import Target

REFUSAL: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
KEYS: Final = frozenset({25, 28})
"""AddOffsetsToTxn, TxnOffsetCommit."""


class RefusedError(Exception):
    """The script came to a request that was refused."""


@dataclass
class RefusedRun(Run):
    """A run that ends with the first refusal that its script sees."""

    refused: int = 0
    taken: list[str] = field(default_factory=list)

    async def answer(self, asked: Asked, error: int | None = None, **expected: Any) -> Any:
        before = self.refused
        reply = await super().answer(asked, error, **expected)
        is_transactional = isinstance(asked.request, AddOffsetsToTxnRequest | TxnOffsetCommitRequest)
        if self.refused > before or (is_transactional and reply == CLOSED):
            raise RefusedError(asked.what)
        return reply

    def _take(self, answer: Answer) -> None:
        super()._take(answer)
        errors = _errors_of(answer.message)
        if errors and all(error == REFUSAL for error in errors):
            self.refused += 1
        elif errors:
            self.taken.append(f"{answer.name}: {answer.message}")


def _errors_of(message: Any) -> list[int]:
    """The errors in the answer to a request that would bring offsets into a transaction."""
    if isinstance(message, AddOffsetsToTxnResponse):
        return [message.error_code]
    if isinstance(message, TxnOffsetCommitResponse):
        return [each.error_code for topic in message.topics for each in topic.partitions]
    return []


@dataclass(frozen=True, slots=True)
class Refusal:
    """What came of a case."""

    case: Case
    refused: int
    not_offered: frozenset[Question]
    """What it asked in versions that are not served."""
    wrong: tuple[str, ...]
    """What was taken, or is held, and should not."""
    ended: str
    """How the script ended, for who looks for why it was not refused."""

    @property
    def is_shown(self) -> bool:
        """Whether something was refused and nothing was taken."""
        return bool(self.refused or self.not_offered) and not self.wrong


async def play_refused(cases: Sequence[Case], targets: Sequence[Target]) -> list[Refusal]:
    """Play the cases on the one target of each configuration."""
    gate = asyncio.Semaphore(AT_A_TIME)
    by_configuration = {target.configuration: target for target in targets}
    served = {
        target.configuration: questions(await ask_served(listener(target.bootstrap))) for target in targets
    }

    async def through_the_gate(case: Case) -> Refusal:
        async with gate:
            where = case.scenario.on
            return await _play(case, by_configuration[where], served[where])

    return list(await asyncio.gather(*map(through_the_gate, cases)))


async def _play(case: Case, target: Target, served: frozenset[Question]) -> Refusal:
    name = f"{case.name}/refused"
    run = RefusedRun(name, target.bootstrap, dict(target.topic_ids), None, case.ending)
    run.leaders, run.offsets_topic = target.leaders, target.offsets_topic
    ended = "it ended as if nothing had been refused"
    try:
        async with asyncio.timeout(CASE_TIMEOUT_S):
            await case.play(run)
    except Exception as error:  # Shown by the report if nothing was refused.
        where = traceback.extract_tb(error.__traceback__)[-1]
        ended = f"{type(error).__name__}: {error} ({where.name}:{where.lineno})"
    held = await _held(run)
    run.close()
    not_offered = frozenset(each for each in run.questions - served if each[0] in KEYS)
    return Refusal(case, run.refused, not_offered, (*run.taken, *held), ended)


async def _held(run: Run) -> list[str]:
    """What of the group's offsets is held for a transaction."""
    connection = await run.free_connection("looker")
    groups = [OffsetFetchRequestGroup(group_id=run.group, topics=None)]
    (group,) = (await connection.send(OffsetFetchRequest(groups=groups, require_stable=True), 9)).groups
    errors = [group.error_code, *(each.error_code for topic in group.topics for each in topic.partitions)]
    return [f"held: {group}"] if ErrorCode.UNSTABLE_OFFSET_COMMIT in errors else []
