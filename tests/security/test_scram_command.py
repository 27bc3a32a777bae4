"""`muster scram` as users run it (S44), and a daemon on the file that it writes; what is refused."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.security.scram_credentials import BY_NAME, ScramCredential
from coordinator.security.scram_file import FILE_NAME, ScramFile
from harness.daemon import ROOT, MusterDaemon
from harness.wire import WireClient
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from storage.files import Files

PASSWORD = "canary-of-a-password"
BOTH = {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096}
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
COMMAND = [sys.executable, "-m", "muster", "scram"]


def scram(*arguments: object, given: str = f"{PASSWORD}\n") -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=ENVIRONMENT,
    )
    assert PASSWORD not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def listed(directory: Path) -> dict[str, dict[str, int]]:
    done = scram("list", directory, "--json")
    assert done.returncode == 0, done.stderr
    users: dict[str, dict[str, int]] = json.loads(done.stdout)
    return users


def is_right(directory: Path, user: str, mechanism: str, password: str) -> bool:
    """Whether the file has the user, with this password."""
    table = ScramFile(directory, Files()).read()
    assert table is not None
    kept = table.users[user][BY_NAME[mechanism]]
    salted = BY_NAME[mechanism].salted_password(password.encode(), kept.salt, kept.iterations)
    return kept == ScramCredential.of(BY_NAME[mechanism], salted, kept.salt, kept.iterations)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "muster-data"


def test_users_come_and_go(directory: Path) -> None:
    """The directory of the daemon that is to come is made (S44)."""
    assert scram("add", directory, "alice").returncode == 0
    assert (
        scram("add", directory, "bob", "--mechanism", "SCRAM-SHA-512", "--iterations", 8192).returncode == 0
    )
    assert listed(directory) == {"alice": BOTH, "bob": {"SCRAM-SHA-512": 8192}}
    shown = scram("list", directory).stdout.splitlines()
    assert shown == [
        "alice: SCRAM-SHA-256 (4096 iterations), SCRAM-SHA-512 (4096 iterations)",
        "bob: SCRAM-SHA-512 (8192 iterations)",
    ]
    assert stat.S_IMODE((directory / FILE_NAME).stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert scram("delete", directory, "alice", "--mechanism", "SCRAM-SHA-256").returncode == 0
    assert scram("delete", directory, "bob").returncode == 0
    assert listed(directory) == {"alice": {"SCRAM-SHA-512": 4096}}


@pytest.mark.parametrize("mechanism", BOTH)
@pytest.mark.parametrize("line", [f"{PASSWORD}\n", f"{PASSWORD}\r\n", PASSWORD, f"{PASSWORD}\nand more\n"])
def test_the_password_is_the_first_line(directory: Path, mechanism: str, line: str) -> None:
    assert scram("add", directory, "alice", given=line).returncode == 0
    assert is_right(directory, "alice", mechanism, PASSWORD)
    assert not is_right(directory, "alice", mechanism, PASSWORD + " ")


def test_a_new_password_replaces_the_old_one(directory: Path) -> None:
    scram("add", directory, "alice", given="old\n")
    before = ScramFile(directory, Files()).read()
    scram("add", directory, "alice", given="new\n")
    after = ScramFile(directory, Files()).read()
    assert before is not None
    assert after is not None
    assert after.decoy_key == before.decoy_key
    salts = {each.salt for table in (before, after) for each in table.users["alice"].values()}
    assert len(salts) == 4
    assert is_right(directory, "alice", "SCRAM-SHA-256", "new")
    assert not is_right(directory, "alice", "SCRAM-SHA-256", "old")


@pytest.mark.parametrize(
    ("arguments", "given", "said"),
    [
        (("alice",), "", "an empty password"),
        (("alice",), "\n", "an empty password"),
        (("alice",), "x" * 1001, "at most"),
        (("é",), "x\n", "ASCII"),
        (("",), "x\n", "ASCII"),
        (("x" * 1001,), "x\n", "at most 1000"),
        (("alice", "--iterations", "4095"), "x\n", "4096 to 16384"),
        (("alice", "--iterations", "16385"), "x\n", "4096 to 16384"),
        (("alice", "--mechanism", "PLAIN"), "x\n", "PLAIN"),
        (("alice", PASSWORD + "-as-an-argument"), "x\n", "Unused"),
    ],
)
def test_what_cannot_be_a_user_is_refused(
    directory: Path, arguments: tuple[str, ...], given: str, said: str
) -> None:
    done = subprocess.run(
        [*COMMAND, "add", str(directory), *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=ENVIRONMENT,
    )
    assert done.returncode == 2
    assert said in done.stderr
    assert not (directory / FILE_NAME).exists()


def test_what_is_not_there_cannot_go(directory: Path) -> None:
    scram("add", directory, "alice", "--mechanism", "SCRAM-SHA-256")
    for arguments in (("bob",), ("alice", "--mechanism", "SCRAM-SHA-512")):
        done = scram("delete", directory, *arguments)
        assert (done.returncode, "no such credential" in done.stderr) == (1, True)
    assert listed(directory) == {"alice": {"SCRAM-SHA-256": 4096}}


def test_a_directory_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    done = scram("add", tmp_path, "alice")
    assert (done.returncode, "no log directory" in done.stderr) == (2, True)
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.tex"]
    for command in ("list", "add", "delete"):
        missing = scram(command, tmp_path / "not" / "there", *(["alice"] if command != "list" else []))
        assert missing.returncode == 2


def test_a_terminal_is_asked_twice_and_shows_nothing(directory: Path) -> None:
    """The two have to be equal."""
    for again, status in ((PASSWORD, 0), (PASSWORD + "2", 2)):
        process, terminal = pty.fork()
        if process == 0:
            os.execvpe(COMMAND[0], [*COMMAND, "add", str(directory), "alice"], ENVIRONMENT)
        shown = b""
        for prompt, answer in ((b"Password for alice: ", PASSWORD), (b"Again: ", again)):
            while not shown.endswith(prompt):
                shown += os.read(terminal, 1024)
            os.write(terminal, answer.encode() + b"\n")
        shown += b"".join(rest_of(terminal))
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == status, shown
        assert PASSWORD.encode() not in shown
    assert is_right(directory, "alice", "SCRAM-SHA-512", PASSWORD)


def rest_of(terminal: int) -> Iterator[bytes]:
    try:
        while data := os.read(terminal, 1024):
            yield data
    except OSError:  # Linux says so when the other side has closed.
        return
    finally:
        os.close(terminal)


def test_a_running_daemon_keeps_its_directory(tmp_path: Path) -> None:
    """It has the users that were made before its start, and a kill loses none that it has answered for."""
    daemon = MusterDaemon(tmp_path)
    assert scram("add", daemon.log_dir, "alice").returncode == 0
    with daemon:
        done = scram("add", daemon.log_dir, "bob")
        assert (done.returncode, "kafka-configs" in done.stderr) == (2, True)
        assert scram("delete", daemon.log_dir, "alice").returncode == 2
        assert listed(daemon.log_dir) == {"alice": BOTH}
        upsertion = ScramCredentialUpsertion(
            name="carol", mechanism=1, iterations=5000, salt=b"salt", salted_password=PASSWORD.encode()
        )
        with_carol = AlterUserScramCredentialsRequest(upsertions=[upsertion])
        answer = WireClient(daemon.bootstrap).ask(with_carol, 0)
        assert [(each.user, each.error_code) for each in answer.results] == [("carol", 0)]
        daemon.kill()
        assert listed(daemon.log_dir).keys() == {"alice", "carol"}
        daemon.start()
        described = WireClient(daemon.bootstrap).ask(DescribeUserScramCredentialsRequest(users=None), 0)
        assert {each.user for each in described.results} == {"alice", "carol"}
        assert daemon.terminate() == 0
        assert PASSWORD not in daemon.log_path.read_text()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda file: file.chmod(0o644), "others may use it (mode 644)"),
        (lambda file: file.write_bytes(file.read_bytes()[:-40]), "not a file of SCRAM users"),
        (lambda file: file.write_bytes(b""), "not a file of SCRAM users"),
        (lambda file: file.write_bytes(b"\xff" + file.read_bytes()), "not a file of SCRAM users"),
        (lambda file: file.write_text(file.read_text().replace("4096", "4097", 1)), "its checksum is wrong"),
    ],
    ids=["readable", "torn", "empty", "no text", "altered"],
)
def test_a_daemon_does_not_start_on_a_bad_file(tmp_path: Path, damage: object, said: str) -> None:
    """One sentence without the file's content, and status 1; the command refuses it as well."""
    daemon = MusterDaemon(tmp_path)
    scram("add", daemon.log_dir, "alice")
    file = daemon.log_dir / FILE_NAME
    salt = json.loads(file.read_text())["users"]["alice"]["SCRAM-SHA-256"]["salt"]
    assert callable(damage)
    damage(file)
    with pytest.raises(RuntimeError) as raised:
        daemon.start()
    assert said in str(raised.value)
    assert FILE_NAME in str(raised.value)
    assert "Traceback" not in str(raised.value)
    assert salt[:12] not in daemon.log_path.read_text()
    refused = scram("add", daemon.log_dir, "bob")
    assert (refused.returncode, said in refused.stderr) == (2, True)
