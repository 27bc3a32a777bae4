"""The rules of `why`: which case is explained by which words, on which evidence, with what advice.

The first row that fits a case is the one: rows of a cause stand together, the one without a condition last, so
that every cause has an answer. A row that concludes what no event says is marked as a guess, and shown as one.
"""

from __future__ import annotations

from typing import Final

from muster.groups.why.cases import Case
from muster.groups.why.membership_rules import DEPARTURES, JOINS
from muster.groups.why.observed_rules import OBSERVED
from muster.groups.why.other_rules import CHANGES, GROUPS, PHASES, TIMEOUTS
from muster.groups.why.rule import Rule

RULES: Final = (*JOINS, *DEPARTURES, *CHANGES, *TIMEOUTS, *PHASES, *GROUPS, *OBSERVED)


def rule_of(case: Case) -> Rule | None:
    """The first row that fits; None for a cause that this version does not know."""
    rows = (rule for rule in RULES if rule.kind is case.kind)
    return next((rule for rule in rows if rule.when is None or rule.when(case)), None)
