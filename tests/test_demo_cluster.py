"""`make demo-cluster` ends well, and shows what docs/cluster.md says of a node that is killed."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from bench.demo_cluster import PATIENCE_S
from harness.daemon import ROOT

pytestmark = pytest.mark.xdist_group("gateway")


@pytest.mark.usefixtures("java")
def test_groups_go_on_when_their_node_is_killed_and_do_not_rebalance() -> None:
    command = [sys.executable, "-m", "bench.demo_cluster"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=4 * PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No group rebalanced for it." in done.stdout
    assert re.search(r"Other nodes have its groups after \d+\.\d s\.", done.stdout)
