"""How a daemon with TLS starts and stops: what ends its start, with which exit status, and what does not."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from harness.daemon import MusterDaemon
from harness.processes import wait_until
from tests.security.tls.test_tls_daemon import started

ROOT = Path(__file__).resolve().parents[3]


def launched(daemon: MusterDaemon, *arguments: str, hangup: str = "default") -> subprocess.Popen[str]:
    """The daemon's own command, which is not waited for until it is ready.

    A test run that was started by nohup ignores SIGHUP, and so would what it starts.
    """
    pipe = subprocess.PIPE
    environment = {**os.environ, **daemon._environment()}
    command = ["env", f"--{hangup}-signal=HUP", *daemon._command(), *arguments]
    return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True)


def cares_for_sighup(process: subprocess.Popen[str]) -> bool:
    """Whether the process has blocked SIGHUP, ignores it, or has a handler for it.

    Before it is `env`, which may still ignore what it is to set to its default.
    """
    if Path(f"/proc/{process.pid}/comm").read_text() == "env\n":
        return False
    status = Path(f"/proc/{process.pid}/status").read_text()
    masks = re.findall(r"^Sig(?:Blk|Ign|Cgt):\t(\w+)$", status, re.MULTILINE)
    assert len(masks) == 3
    return any(int(mask, 16) >> (signal.SIGHUP - 1) & 1 for mask in masks)


def test_sighup_ends_no_start_and_no_stop(tmp_path: Path) -> None:
    """It asks for what is read anyway; without TLS it is the end, as ever."""
    daemon = started(tmp_path)
    with launched(daemon) as process:
        wait_until(lambda: cares_for_sighup(process), "its first lines have run", 20, interval_s=0.001)
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


def test_sighup_is_held_back_before_what_takes_time_is_imported() -> None:
    script = (
        "import signal, sys\n"
        "def on_event(event, details):\n"
        "    if event == 'import' and details[0] == 'muster.serve':\n"
        "        print(signal.SIGHUP in signal.pthread_sigmask(signal.SIG_BLOCK, []), 'pydantic' in sys.modules)\n"
        "sys.addaudithook(on_event)\n"
        "sys.argv[1:] = ['serve', '--help']\n"
        "from muster.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("True False\nusage: muster serve")


@pytest.mark.parametrize(
    ("has_tls", "hangup", "ends_by"),
    [(True, "default", 0), (False, "default", -signal.SIGHUP), (False, "ignore", 0)],
)
def test_sighup_before_the_settings_are_read_waits_for_them(
    tmp_path: Path, has_tls: bool, hangup: str, ends_by: int
) -> None:
    """The daemon's settings come through a pipe, so that it is known when the signal comes."""
    settings = tmp_path / "pipe"
    os.mkfifo(settings)
    daemon = started(tmp_path) if has_tls else MusterDaemon(tmp_path / "data")
    with launched(daemon, "--config", str(settings), hangup=hangup) as process:
        with settings.open("w") as writing:  # Returns when the daemon has opened it.
            process.send_signal(signal.SIGHUP)
            writing.write("log.retention.hours=1\n")
        assert process.stdout is not None
        ready = process.stdout.readline()
        process.terminate()
        _, errors = process.communicate(timeout=30)
    assert process.returncode == ends_by, errors
    assert ready.startswith("muster: ready") == (ends_by == 0), errors


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
