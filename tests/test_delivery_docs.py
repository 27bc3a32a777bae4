"""docs/delivery.md says what the examples do: their command lines, their numbers, and where they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.clients import test_delivery
from tests.clients.delivery import at_least_once, at_most_once, exactly_once_transactions

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "delivery.md").read_text()
EXAMPLES = sorted((ROOT / "tests" / "clients" / "delivery").glob("[a-z]*.py"))


def usage(example: Path) -> list[str]:
    """The arguments that an example's docstring names, without those that may be left out."""
    line = re.search(rf"^    python {example.name} (.*)$", example.read_text(), re.MULTILINE)
    assert line is not None
    return line[1].partition(" [")[0].split()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_on_the_page_with_all_its_arguments(example: Path) -> None:
    shown = re.findall(rf"^    python tests/clients/delivery/{example.name} (.*)$", PAGE, re.MULTILINE)
    assert [len(arguments.split()) for arguments in shown] == [len(usage(example))]


def test_every_link_leads_somewhere() -> None:
    headings = {
        re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in re.findall("^## (.*)$", PAGE, re.M)
    }
    for target in re.findall(r"\]\(([^)]+)\)", PAGE):
        path, _, heading = target.partition("#")
        assert heading in headings if heading else (ROOT / "docs" / path).exists(), target


def test_the_numbers_on_the_page_are_those_of_the_examples() -> None:
    assert at_least_once.COMMIT_INTERVAL_S == 1, "the page speaks of a second"
    numbers = [
        f"up to {at_most_once.BATCH} rows",
        f"less than a batch of {at_most_once.BATCH} rows for each",
        f"that is `transaction.timeout.ms`, here {exactly_once_transactions.TRANSACTION_TIMEOUT_MS // 1000} s",
        f"with {test_delivery.ROWS:,} rows",
    ]
    text = " ".join(PAGE.split())
    assert [number for number in numbers if number not in text] == []
