"""The page in a real browser: charts with all their marks, the filter, both schemes, no request."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page

from harness.processes import wait_until
from tests.browser import OpenPage, browser
from tests.spark.report.conftest import page_of
from tests.spark.report.sample import BEGIN_MS, KINDS, Kind, Sample, write_table

pytestmark = pytest.mark.xdist_group("chromium")

HOSTILE = (
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "<b>bold</b><a href='javascript:document.title=`owned`'>link</a>",
    "@@DATA@@ %{x} ${1} &lt;i&gt; \u202egnp",
    "__proto__",
    "'; DROP TABLE lag; --\n\x00\x1b[2J",
)
DEADLINE_S = 60
Open = Callable[[Path], Page]


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    with browser(tmp_path_factory.mktemp("chromium")) as context:
        yield context


@pytest.fixture
def open_page(chromium: BrowserContext) -> Iterator[Open]:
    """Opens pages at 1280 px in the light scheme; whatever a page complained of by the end fails the test."""
    opened: list[OpenPage] = []

    def open_one(path: Path) -> Page:
        page = chromium.new_page()
        page.set_viewport_size({"width": 1280, "height": 900})
        page.emulate_media(color_scheme="light")
        opened.append(OpenPage(page))
        return opened[-1].open(path)

    yield open_one
    complaints = [complaint for each in opened for complaint in each.complaints]
    for each in opened:
        each.page.close()
    assert complaints == []


@pytest.fixture(scope="module")
def page_of_the_day(
    sample: Sample, tables: Path, chromium: BrowserContext, tmp_path_factory: pytest.TempPathFactory
) -> OpenPage:
    """Opened once: to read its scripts takes a browser a second or more."""
    opened = OpenPage(chromium.new_page())
    opened.open(page_of(tables, tmp_path_factory.mktemp("page") / "report.html"))
    return opened


@pytest.fixture
def day(page_of_the_day: OpenPage) -> Iterator[Page]:
    """The sample's page, of all groups and the whole time, at 1280 px in the light scheme."""
    page = page_of_the_day.page
    page.set_viewport_size({"width": 1280, "height": 900})
    page.emulate_media(color_scheme="light")
    for button in ("#clear", "#unzoom"):
        if page.locator(button).is_visible():
            page.locator(button).click()
    yield page
    assert page_of_the_day.complaints == []


def marks(page: Page, section: str, kind: str = ".bars .point path") -> int:
    """Marks that a chart has drawn, those without any extent as well."""
    return page.locator(f"#{section}-chart {kind}").count()


def texts(page: Page, selector: str) -> list[str]:
    return page.locator(selector).all_inner_texts()


def test_every_chart_is_drawn_with_a_mark_for_all_that_there_is(day: Page, sample: Sample) -> None:
    page, rows = day, sample.rows
    assert texts(page, "#tiles strong")[:2] == [str(len(KINDS)), str(len(rows["rebalances"]))]
    assert texts(page, "#tiles strong")[-1] == "23"
    assert page.locator("#groups-table tbody tr").count() == len(KINDS)
    assert marks(page, "lag", ".scatterlayer .trace path.js-line") == 2 * 8, (
        "the 8 furthest behind, in two measures"
    )
    assert page.locator("#lag-legend button").count() == 8
    assert marks(page, "timeline") == 2 * len(rows["rebalances"]), "a join and a sync phase of each"
    assert page.locator("#causes-list .item").count() == len({row["cause"] for row in rows["rebalances"]})
    width = 20 * 60_000
    assert marks(page, "pace") == len(
        {(row["ended_at"] // width, row["cause"]) for row in rows["rebalances"]}
    )
    assert marks(page, "storms") == len(rows["storms"]) > 0
    assert page.locator("#churn-list .item").count() == 8
    assert marks(page, "lengths") > 3
    of_busiest = [row for row in rows["members"] if row["group_id"] == "inventory-sync"]
    assert marks(page, "sessions") == len(of_busiest) > 20
    assert page.locator("#noisy-list .item").count() == 8
    reasons = {(row["job"], row["reason"]) for row in rows["dead_letters"]}
    assert page.locator("#letters-list .item").count() == len(reasons)
    assert [text for text in texts(page, ".empty") if text] == []


def test_bars_have_extent_and_the_colours_of_their_causes(day: Page) -> None:
    page = day
    sizes = page.eval_on_selector_all(
        "#timeline-chart .bars .point path",
        "paths => paths.map(path => { const box = path.getBBox(); return box.height; })",
    )
    assert min(sizes) > 5
    shades = page.eval_on_selector_all(
        "#timeline-chart .bars .point path", "paths => [...new Set(paths.map(path => path.style.fill))]"
    )
    assert len(shades) == 7, "a colour for each of the sample's causes"


def test_the_filter_works_on_all_charts(day: Page, sample: Sample) -> None:
    page = day

    def of(table: str) -> list[dict[str, Any]]:
        return [row for row in sample.rows[table] if row["group_id"] == "fraud-scoring"]

    page.get_by_role("button", name="fraud-scoring").first.click()
    assert page.locator("#picker-summary").inner_text() == "1 group"
    assert texts(page, "#tiles strong")[1] == str(len(of("rebalances")))
    assert marks(page, "timeline") == 2 * len(of("rebalances"))
    assert marks(page, "lag", ".scatterlayer .trace path.js-line") == 2
    assert page.locator("#causes-list .item").count() == len({row["cause"] for row in of("rebalances")})
    assert marks(page, "sessions") == len(of("members"))
    assert page.locator("#noisy-list .item").count() == 1
    assert page.locator("#storms .empty").inner_text().startswith("No storms: none of the chosen groups")
    assert not page.locator("#storms-chart").is_visible()
    page.locator("#picker-summary").click()
    page.get_by_label("Find a group").fill("audit")
    assert texts(page, "#picker-list li:visible") == ["audit-log"]
    page.locator("#picker-list li:visible input").check()
    assert page.locator("#chips button").count() == 2
    page.locator("#clear").click()
    assert marks(page, "timeline") == 2 * len(sample.rows["rebalances"])


def test_a_stretch_of_time_that_is_drawn_over_is_every_charts(day: Page) -> None:
    page = day
    chart = page.locator("#timeline-chart .nsewdrag").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 300, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 500, box["y"] + 65, steps=4)
    page.mouse.up()
    page.locator("#unzoom").wait_for(state="visible")
    ranges = """() => ['lag', 'timeline', 'pace', 'sessions'].map(name => {
        const {range, r2l} = document.getElementById(name + '-chart')._fullLayout.xaxis;
        return range.map(r2l); })"""
    first, *others = page.evaluate(ranges)
    assert all(other == pytest.approx(first, abs=1_000) for other in others)
    assert first[1] - first[0] < 8 * 3_600_000
    page.locator("#unzoom").click()
    assert page.evaluate(ranges)[0][0] <= BEGIN_MS


def test_hover_shows_what_is_known_of_a_rebalance(day: Page, sample: Sample) -> None:
    page = day
    page.get_by_role("button", name="audit-log").first.click()
    page.locator("#timeline-chart .bars .point path").first.hover(force=True)
    page.locator("#timeline-chart .hovertext").wait_for()
    shown = page.locator("#timeline-chart .hovertext").text_content() or ""
    row = next(row for row in sample.rows["rebalances"] if row["group_id"] == "audit-log")
    for words in (row["cause"].replace("_", " "), "in audit-log", "UTC", "join ", "sync ", row["client_id"],
                  row["client_host"], "waited for: ", "generation or epoch ", "then Stable"):  # fmt: skip
        assert words in shown, shown


def test_both_schemes_and_both_widths_have_colours_and_widths_of_their_own(day: Page) -> None:
    page = day
    look = """() => [getComputedStyle(document.body).backgroundColor,
        document.querySelector('#timeline-chart .bars .point path').style.fill,
        document.querySelector('#lag-chart .xtick text').style.fill]"""
    light = page.evaluate(look)
    page.emulate_media(color_scheme="dark")
    wait_until(lambda: page.evaluate(look)[2] != light[2], "the charts are drawn again", DEADLINE_S)
    assert all(dark != bright for dark, bright in zip(page.evaluate(look), light, strict=True))
    page.set_viewport_size({"width": 390, "height": 800})
    width = "document.querySelector('#timeline-chart svg').clientWidth"
    wait_until(lambda: page.evaluate(width) < 390, "the charts have become narrow", DEADLINE_S)
    assert page.evaluate("document.documentElement.scrollWidth") == 390, "nothing sticks out"


def test_hostile_names_are_text_wherever_they_are_shown(tmp_path: Path, open_page: Open) -> None:
    sample = Sample(5, minutes=300)
    for name in HOSTILE:
        sample.add(Kind(name, name, 3, 20, 30_000, 900, halts=(10, 60)))
    sample.add_dead_letters(3)
    for letter in sample.rows["dead_letters"]:
        letter["reason"] = HOSTILE[0]
    out = page_of(sample.write(tmp_path / "tables"), tmp_path / "page.html")
    page = open_page(out)
    shown = {re.sub(r"\s+", " ", text) for text in texts(page, "#groups-table td:first-child")}
    expected = {name.replace("\u202e", "\\u202e") for name in HOSTILE[:-1]}
    assert shown == expected | {"'; DROP TABLE lag; --\\u000a\\u0000\\u001b[2J"}
    assert set(page.locator("#timeline-chart .annotation-text").all_text_contents()) == shown
    assert page.locator("#letters-list .item-name").first.inner_text() == HOSTILE[0]
    assert page.locator("svg a, main img, main b:not(.item), main script").count() == 0
    for each in page.locator("#groups-table td:first-child button").all():
        each.click()
    assert page.locator("#chips button").count() == len(HOSTILE)
    for chart, mark in (("timeline", ".bars .point path"), ("sessions", ".bars .point path")):
        bar = page.locator(f"#{chart}-chart {mark}").nth(2)
        bar.scroll_into_view_if_needed()
        bar.hover(force=True)
        page.locator(f"#{chart}-chart .hovertext").wait_for()
        assert page.locator(f"#{chart}-chart .hovertext a").count() == 0
    assert page.title() == "Consumer groups"
    assert page.evaluate("document.querySelectorAll('script').length") == 3


def test_a_length_that_is_not_known_is_said_to_be_unknown(tmp_path: Path, open_page: Open) -> None:
    sample = Sample(3)
    changes = sample._changes(KINDS[0])[:3]
    half = {"duration_ms": None, "join_ms": None}
    rows = [changes[0] | {"cause": "member_joined"}, changes[1] | half | {"cause": "member_joined"}]
    rows.append(changes[2] | half | {"cause": "member_gone"})
    write_table(tmp_path / "tables", "rebalances", rows)
    page = open_page(page_of(tmp_path / "tables", tmp_path / "page.html"))
    figures = dict(
        zip(texts(page, "#causes-list .item-name"), texts(page, "#causes-list .item-figure"), strict=True)
    )
    assert figures["member gone"] == "unknown"
    assert figures["member joined"] not in ("unknown", "0 ms")
    more = texts(page, "#causes-list .item-more")
    assert "1 rebalance, all of unknown length" in more
    assert any("2 rebalances" in each and "1 of unknown length" in each for each in more)
    assert "2 of unknown length" in texts(page, "#tiles p")[1]
    assert marks(page, "timeline") == 2 * len(rows)
    page.locator("#timeline-chart .bars .point path").nth(5).hover(force=True)
    page.locator("#timeline-chart .hovertext").wait_for()
    words = page.locator("#timeline-chart .hovertext").text_content() or ""
    assert "unknown: join unknown, sync" in words


def test_empty_tables_and_damage_are_reported_in_sentences(tmp_path: Path, open_page: Open) -> None:
    (tmp_path / "lag").mkdir()
    (tmp_path / "lag" / "<b>.parquet").write_bytes(b"")
    page = open_page(page_of(tmp_path, tmp_path / "page.html"))
    sentences = [text for text in texts(page, ".empty") if text]
    assert len(sentences) == page.locator("section.card").count() == 11
    assert all(sentence.endswith(".") for sentence in sentences)
    assert page.locator(".chart:visible, .list:visible, .legend:visible").count() == 0
    assert "lag/<b>.parquet could not be read to its end" in page.locator(".warning").inner_text()
    assert "The tables have nothing in this time." in page.locator("#span").inner_text()
