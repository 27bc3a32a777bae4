"""A short walk through an installation: a daemon serves, a group commits, is listed, and the daemon stops."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.daemon import MusterDaemon
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

GROUP: Final = "walkers"
TOPIC: Final = "steps"
COMMAND_TIMEOUT_S: Final = 60


def walk(python: Path, folder: Path, environment: Mapping[str, str]) -> Path:
    """Take the walk with what `python` imports, all data in `folder`; return where its `coordinator` lies.

    Raises AssertionError where a step goes wrong.
    """
    # An empty folder in the place of the checkout, of which the daemon would import what is not installed.
    nothing = folder / "nothing"
    nothing.mkdir()
    with MusterDaemon(folder, environment=environment, python=str(python), tree=nothing) as daemon:
        with WireClient(daemon.bootstrap) as client:
            _commit(client)
        listing = ("-m", "muster", "groups", "list", "--bootstrap", daemon.bootstrap)
        listed = _said(python, *listing, environment=environment, at=nothing)
        assert GROUP in listed, listed
        assert daemon.terminate() == 0, daemon.log_tail()
    where = "import coordinator; print(coordinator.__file__)"
    return Path(_said(python, "-c", where, environment=environment, at=nothing).strip())


def _commit(client: WireClient) -> None:
    topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
    assert client.ask(CreateTopicsRequest(topics=[topic]), 5).topics[0].error_code == ErrorCode.NONE
    offsets = [OffsetCommitRequestPartition(partition_index=0, committed_offset=7)]
    committed = [OffsetCommitRequestTopic(name=TOPIC, partitions=offsets)]
    answer = client.ask(OffsetCommitRequest(group_id=GROUP, topics=committed), 8)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE, answer


def _said(python: Path, *arguments: str, environment: Mapping[str, str], at: Path) -> str:
    """Return the standard output of `python` with these arguments, run in the folder `at`."""
    done = subprocess.run(
        [python, "-P", *arguments],
        cwd=at,
        env={**os.environ, "PYTHONPATH": "", **environment},
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout
