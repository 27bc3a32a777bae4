"""How a daemon with TLS starts and stops: what ends its start, with which exit status, and what does not."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from harness.daemon import MusterDaemon
from harness.processes import wait_until
from tests.security.tls.test_tls_daemon import started


def launched(daemon: MusterDaemon) -> subprocess.Popen[str]:
    """The daemon's own command, which is not waited for until it is ready.

    A test run that was started by nohup ignores SIGHUP, and so would what it starts.
    """
    pipe = subprocess.PIPE
    environment = {**os.environ, **daemon._environment()}
    command = ["env", "--default-signal=HUP", *daemon._command()]
    return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True)


def test_sighup_ends_no_start_and_no_stop(tmp_path: Path) -> None:
    """It asks for what is read anyway; without TLS it is the end, as ever."""
    daemon = started(tmp_path)
    with launched(daemon) as process:
        wait_until(daemon.log_dir.exists, "its settings are known, and it is starting", 20)
        is_over = threading.Event()

        def signals() -> None:
            while not is_over.is_set() and process.poll() is None:
                process.send_signal(signal.SIGHUP)
                is_over.wait(0.002)

        sender = threading.Thread(target=signals)
        sender.start()
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            process.terminate()
            _, errors = process.communicate(timeout=30)
        finally:
            is_over.set()
            sender.join()
    assert ready.startswith("muster: ready"), errors
    assert process.returncode == 0, errors


def test_without_tls_sighup_is_the_end(tmp_path: Path) -> None:
    with launched(MusterDaemon(tmp_path / "data")) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("muster: ready")
        process.send_signal(signal.SIGHUP)
        try:
            process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == -signal.SIGHUP


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"ssl.key.password": "CANARY-of-a-password"},
            "the listener TLS has no TLS: the key of .*key.pem cannot be used: its",
        ),
        (
            {"ssl.keystore.location": "/dev/zero"},
            "the listener TLS has no TLS: /dev/zero cannot be read: it is no file",
        ),
        (
            {"ssl.keystore.location": __file__},
            "the listener TLS has no TLS: .* cannot be read: at least one certificate",
        ),
        (
            {
                "ssl.keystore.location": __file__,
                "ssl.keystore.type": "JKS",
                "ssl.keystore.password": "CANARY",
            },
            "the listener TLS has no TLS: .* cannot be read: ",
        ),
        ({"ssl.keystore.location": ""}, "ssl.keystore.location"),
        ({"muster.http.listeners": "https://127.0.0.1:0"}, "HTTP cannot be served: "),
        (
            {"muster.http.listeners": "http://127.0.0.1:0", "muster.http.token.file": __file__},
            "the token of HTTP must",
        ),
    ],
)
def test_a_store_that_cannot_be_used_is_one_sentence_and_exit_status_2(
    tmp_path: Path, settings: dict[str, str], sentence: str
) -> None:
    """F6, F11: as for a setting that is not understood, without its content and the password."""
    daemon = started(tmp_path)
    daemon.overrides.update(settings)
    with launched(daemon) as process:
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 2, errors
    assert output == ""
    assert re.match(rf"muster: .*{sentence}", errors.splitlines()[-1]), errors
    assert [line for line in errors.splitlines() if not line.startswith("{")] == errors.splitlines()[-1:]
    assert "CANARY" not in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        (
            "ssl.keystore.location",
            r"the listener TLS has no TLS: .*/a\\x00b cannot be read: no file can have that name",
        ),
        ("log.dirs", r"log.dirs=.*/a\\x00b: no directory can have that name"),
    ],
)
def test_a_path_with_a_nul_is_one_sentence_and_exit_status_2(
    tmp_path: Path, setting: str, sentence: str
) -> None:
    """A file of settings may have one, as a backslash and its number."""
    daemon = started(tmp_path)
    del daemon.overrides[setting]
    file = tmp_path / "server.properties"
    file.write_text(f"{setting}={tmp_path}/a\\u0000b\n")
    command = [*daemon._command(), "--config", str(file)]
    done = subprocess.run(
        command, env={**os.environ, **daemon._environment()}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert re.fullmatch(f"muster: {sentence}", done.stderr.splitlines()[-1]), done.stderr
    assert "Traceback" not in done.stderr
