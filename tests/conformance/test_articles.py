"""What `docs/articles.md` says is shown by scenarios that there are, played against both brokers."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conformance.registry import all_scenarios

PAGE = Path(__file__).resolve().parents[2] / "docs" / "articles.md"


def named_by_claim() -> dict[str, list[str]]:
    """The scenarios that each claim of the page names."""
    claims = PAGE.read_text().split("\n## ")[1:]
    return {claim.split("\n")[0]: re.findall(r"^- `(\w+)`$", claim, re.MULTILINE) for claim in claims}


def test_every_claim_is_shown_by_scenarios_that_there_are() -> None:
    there_are = {scenario.name for scenario in all_scenarios()}
    named = named_by_claim()
    assert len(named) == 4
    for claim, names in named.items():
        assert names, f"nothing shows what is wrong with {claim}"
        assert set(names) <= there_are, claim
