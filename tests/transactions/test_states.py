"""The table of states: complete, and every step that it lacks is refused."""

from __future__ import annotations

from itertools import product

import pytest

from coordinator.transactions import steps
from coordinator.transactions.states import (
    COMPLETE_COMMIT,
    ONGOING,
    VALID_PREVIOUS,
    IllegalTransactionStep,
    TransactionStatus,
    check_transition,
)
from coordinator.transactions.transaction import Transaction


@pytest.mark.parametrize(("before", "after"), list(product(TransactionStatus, repeat=2)))
def test_every_step_is_allowed_or_refused(before: TransactionStatus, after: TransactionStatus) -> None:
    if before in VALID_PREVIOUS[after]:
        check_transition("t", before, after)
    else:
        with pytest.raises(IllegalTransactionStep, match="t: "):
            check_transition("t", before, after)


def test_a_step_that_there_is_not_is_a_bug_of_ours() -> None:
    with pytest.raises(IllegalTransactionStep):
        steps.complete(Transaction("t", 1, 0, 1_000, ONGOING), 0)
    with pytest.raises(IllegalTransactionStep):
        steps.prepare_end(
            Transaction("t", 1, 0, 1_000, COMPLETE_COMMIT),
            is_commit=True,
            client_version=2,
            next_producer_id=-1,
            wall_ms=0,
        )
