"""`muster spark flights` as a process of its own: what it says is passed on, and it is ended for sure."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

END_TIMEOUT_S = 30.0
LOG_TAIL_BYTES = 4_000


class SparkJobError(Exception):
    """The job did not end well; the message holds the end of its log."""


def run_job(bootstrap: str, topic: str, folder: Path, on_rows: Callable[[int], None]) -> Path:
    """Run the job over the whole topic; returns the folder of its Parquet. Raises SparkJobError.

    `on_rows` gets the number of rows read so far, after each micro-batch.
    """
    output, log = folder / "delays.parquet", folder / "spark.log"
    command = [sys.executable, "-m", "muster", "spark", "flights", "--json"]
    command += ["--bootstrap", bootstrap, "--topic", topic]
    command += ["--output", str(output), "--checkpoint", str(folder / "checkpoint")]
    with log.open("wb") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, start_new_session=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            with suppress(ValueError):  # Ivy prints, too, when it fetches the connector.
                on_rows(json.loads(line)["rows"])
        status = process.wait(END_TIMEOUT_S)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if status != 0:
        raise SparkJobError(log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace"))
    return output
