"""One sample for all tests of the report, and its page."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from muster.spark.report.page import html_page, write_page
from muster.spark.report.reading import Selection
from muster.spark.report.report import Report, make_report
from tests.spark.report.sample import Sample, ordinary_day

MADE_AT = datetime(2026, 3, 3, 7, tzinfo=UTC)


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables")


@pytest.fixture(scope="session")
def sample(tables: Path) -> Sample:
    """An ordinary day, as it is written in `tables`."""
    return ordinary_day(tables)


@pytest.fixture(scope="session")
def report(sample: Sample, tables: Path) -> Report:
    return make_report(tables, Selection())


def page_of(tables: Path, out: Path, groups: tuple[str, ...] = ()) -> Path:
    write_page(html_page(make_report(tables, Selection(groups)), "Consumer groups", MADE_AT), out)
    return out
