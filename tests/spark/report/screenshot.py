"""The pictures of docs/spark-report.md, taken again: python -m tests.spark.report.screenshot [TABLES]

Without TABLES they are of the tests' sample: ten groups that never were, over a day.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import FloatRect, Page

from tests.browser import OpenPage, browser
from tests.spark.report.conftest import page_of
from tests.spark.report.sample import ordinary_day

IMAGES = Path(__file__).resolve().parents[3] / "docs" / "images"
SHOTS = (("light", "tiles", "timeline"), ("dark", "causes", "sessions"))
"""A scheme, and the first and the last part of the page that are shown in it."""
MARGIN = 12


def main(tables: Path | None) -> None:
    IMAGES.mkdir(exist_ok=True)
    with TemporaryDirectory() as scratch, browser(Path(scratch, "profile")) as context:
        if tables is None:
            ordinary_day(tables := Path(scratch, "tables"))
        page = context.new_page()
        page.set_viewport_size({"width": 1_280, "height": 900})
        opened = OpenPage(page)
        opened.open(page_of(tables, Path(scratch, "report.html")))
        for scheme, first, last in SHOTS:
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            out = IMAGES / f"spark-report-{scheme}.png"
            top = 0 if first == "tiles" else edge(page, first, "top") - MARGIN
            height = edge(page, last, "bottom") + MARGIN - top
            clip: FloatRect = {"x": 0.0, "y": top, "width": 1_280.0, "height": height}
            page.screenshot(path=out, full_page=True, clip=clip)
            print(f"{out}: {out.stat().st_size:,} bytes")
        if opened.complaints:
            raise SystemExit("\n".join(opened.complaints))


def edge(page: Page, part: str, side: str) -> float:
    """Where a part of the page begins or ends, in pixels from its top."""
    return float(page.evaluate(f"document.getElementById('{part}').getBoundingClientRect().{side} + scrollY"))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
