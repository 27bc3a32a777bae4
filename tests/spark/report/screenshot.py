"""The pictures of docs/spark-report.md, made anew: python -m tests.spark.report.screenshot [TABLES]

Without TABLES they are of the tests' sample: ten groups that never were, over a day.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.browser import OpenPage, browser
from tests.spark.report.conftest import page_of
from tests.spark.report.sample import ordinary_day

IMAGES = Path(__file__).resolve().parents[3] / "docs" / "images"
SHOTS = (("light", 0, 1_730), ("dark", 1_730, 1_770))
"""A scheme, and which part of the page is shown in it: pixels from the top, and height."""


def main(tables: Path | None) -> None:
    IMAGES.mkdir(exist_ok=True)
    with TemporaryDirectory() as scratch, browser(Path(scratch, "profile")) as context:
        if tables is None:
            ordinary_day(tables := Path(scratch, "tables"))
        page = context.new_page()
        page.set_viewport_size({"width": 1_280, "height": 900})
        opened = OpenPage(page)
        opened.open(page_of(tables, Path(scratch, "report.html")))
        for scheme, top, height in SHOTS:
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            out = IMAGES / f"spark-report-{scheme}.png"
            clip = {"x": 0.0, "y": float(top), "width": 1_280.0, "height": float(height)}
            page.screenshot(path=out, full_page=True, clip=clip)  # type: ignore[arg-type]
            print(f"{out}: {out.stat().st_size:,} bytes")
        if opened.complaints:
            raise SystemExit("\n".join(opened.complaints))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
