"""What a rule of `why` consists of."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from coordinator.groups.causes import CauseKind
from muster.groups.why.cases import Case
from muster.groups.why.evidence import Evidence


class Rule(NamedTuple):
    """One row."""

    kind: CauseKind
    name: str
    because: str
    evidence: tuple[Evidence, ...] = ()
    advice: str = ""
    when: Callable[[Case], bool] | None = None  # None: always.
    is_guess: bool = False
    # It takes members for one client that came back: a guess if several look alike.
    same_client: bool = False
