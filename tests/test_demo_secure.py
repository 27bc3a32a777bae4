"""`make demo-secure` does what docs/security.md says: the walk succeeds, and all else is refused."""

from __future__ import annotations

import subprocess
import sys

from bench.demo_secure import FILES, KEY, PAGE, ROOT


def test_the_page_has_what_the_demo_takes_from_it() -> None:
    text = PAGE.read_text()
    assert {name for name, _ in FILES.findall(text)} == {
        "server.properties",
        "admin.properties",
        "alice.properties",
    }
    assert KEY.search(text)


def test_the_walk_of_the_page_ends_well() -> None:
    command = [sys.executable, "-m", "bench.demo_secure"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("refused, as it has to be") == 6
