"""A real Chromium for tests of pages, driven by Playwright, that reports everything that goes wrong in it.

Where it is missing the test is skipped, or fails with MUSTER_REQUIRE_JAVA=1, where everything is required.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import pytest
from playwright.sync_api import BrowserContext, Page, sync_playwright

from tests.conftest import JAVA_IS_REQUIRED

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DRAWN_WITHIN_MS = 60_000


@dataclass
class OpenPage:
    """A page as it was opened; `complaints` are errors on its console and in its scripts, and requests it made."""

    page: Page
    complaints: list[str] = field(default_factory=list)

    def open(self, path: Path) -> Page:
        self.page.on("console", lambda message: self._hear(message.type, message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(f"page error: {error}"))
        self.page.on("request", lambda request: self._asked(request.url, path))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-drawn=yes]", state="attached", timeout=DRAWN_WITHIN_MS)
        return self.page

    def _hear(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(f"{kind} on the console: {text}")

    def _asked(self, url: str, path: Path) -> None:
        if url != path.as_uri() and not url.startswith("data:,"):
            self.complaints.append(f"request: {url[:200]}")


def without_chromium(reason: str) -> NoReturn:
    """Skip, or fail where everything is required."""
    if JAVA_IS_REQUIRED:
        pytest.fail(f"MUSTER_REQUIRE_JAVA=1: {reason}")
    pytest.skip(f"needs Chromium: {reason}")


def chromium() -> str:
    """The first of PROGRAMS on PATH."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    return found or without_chromium(f"none of {', '.join(PROGRAMS)} is on PATH")


@contextmanager
def browser(user_data_dir: Path) -> Iterator[BrowserContext]:
    """A headless browser with a profile of its own. Asynchronous tests cannot run while it is open."""
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            user_data_dir,
            executable_path=chromium(),
            headless=True,
            chromium_sandbox=os.geteuid() != 0,
            args=QUIET,
            viewport={"width": 1280, "height": 900},
        )
        try:
            yield context
        finally:
            context.close()
