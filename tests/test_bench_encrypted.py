"""The load generator behind TLS: it logs in, it counts what a server did, and what is not right is no login."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench.pairs import __main__ as bench
from bench.pairs import frames, generator
from bench.pairs.encrypted import PARTITIONS, PRODUCED, producers
from bench.pairs.frames import COMMIT, FETCH, HEARTBEAT
from bench.pairs.generator import GeneratedLoad, Login, NoCompiler, NoOpenSsl
from bench.pairs.lanes import Lane, LoadError, ask, connect
from bench.pairs.plan import Plan
from bench.pairs.scenarios import SCENARIOS
from bench.pairs.secured import encrypted, login, secured, user
from bench.pairs.singles import OFFSET, TOPIC, commit_of, lanes_of, make_topic
from harness.daemon import MusterDaemon
from harness.secured import Certificates
from harness.wire import WireClient
from protocol.codec.codec import decode
from protocol.messages import RESPONSES
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.conftest import JAVA_IS_REQUIRED

CONNECTIONS = 20
LATEST = -1
LIST_VERSION = 6
AUTHENTICATION_FAILED = 58


@pytest.fixture(scope="module", autouse=True)
def program() -> Path:
    """Skipped without a C compiler or OpenSSL; where all has to be tested it fails."""
    try:
        generator.find_openssl()
        return generator.program()
    except (NoCompiler, NoOpenSsl) as missing:
        if JAVA_IS_REQUIRED:
            pytest.fail(str(missing))
        pytest.skip(f"needs a C compiler and OpenSSL: {missing}")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterDaemon]:
    plan = secured(Plan(tmp_path_factory.mktemp("bench"), initial_delay_ms=0))
    with plan.muster(overrides={"muster.flush.policy": "os"}) as started:
        user().store(started)
        make_topic(started, partitions=3)
        yield started


@pytest.fixture(scope="module")
def beats(daemon: MusterDaemon) -> Iterator[list[Lane]]:
    """Lanes of heartbeats on plain connections."""
    lanes = lanes_of(daemon, "beat", CONNECTIONS, frames.heartbeat, HEARTBEAT)
    yield lanes
    for lane in lanes:
        lane.socket.close()


def run(
    daemon: MusterDaemon, lanes: list[Lane], seconds: float, in_flight: int = 1, given: Login | None = None
) -> GeneratedLoad:
    with encrypted(daemon, lanes) as fresh:
        return generator.run(fresh, seconds, daemon.pid, in_flight, patience_s=20.0, login=given or login())


@pytest.mark.parametrize("in_flight", [1, 8])
def test_what_is_counted_is_what_a_daemon_stored(daemon: MusterDaemon, in_flight: int) -> None:
    """Each commit has an offset that is one higher, whichever of its connections it came on."""
    prefix = f"count-{in_flight}"
    lanes = lanes_of(daemon, prefix, CONNECTIONS, commit_of(1), COMMIT)
    load = run(daemon, lanes, 0.5, in_flight)
    stored = 0
    for number, lane in enumerate(lanes):
        answer = ask(lane.socket, frames.fetch(f"{prefix}-{number:05d}", TOPIC, 0))
        fetched = decode(RESPONSES[FETCH[0]], FETCH[1], answer, 9)
        stored += fetched.groups[0].topics[0].partitions[0].committed_offset - OFFSET
        lane.socket.close()
    assert 0 < load.operations <= stored <= load.operations + CONNECTIONS * in_flight


def test_logins_are_before_the_clock_and_have_their_own(daemon: MusterDaemon, beats: list[Lane]) -> None:
    load = run(daemon, beats, 0.5)
    assert load.seconds >= 0.5
    assert load.login_s > 0
    assert load.login_cpu.total_us > 0
    assert 0 < load.login_own_us / CONNECTIONS < 50_000
    assert 0 < load.own_us < 5_000


def test_a_load_of_no_time_is_logins_and_a_heartbeat_of_each(daemon: MusterDaemon, beats: list[Lane]) -> None:
    """No operation, since nothing counts once the time is over; but a wrong answer to it is a failure."""
    assert run(daemon, beats, 0.0).operations == 0
    unknown = frames.heartbeat(frames.Joined("beat-00000", "unknown", 1))
    with pytest.raises(LoadError, match=rf"^{CONNECTIONS} failures beside 0 .*UNKNOWN_MEMBER_ID$"):
        run(daemon, [replace(lane, frame=unknown) for lane in beats], 0.0)


def test_each_record_is_one_operation(daemon: MusterDaemon) -> None:
    """The answers to them have offsets that count on: that is all in them that may differ."""
    lanes = producers(daemon, CONNECTIONS)
    before = end_offsets(daemon)
    load = run(daemon, lanes, 0.5)
    stored = end_offsets(daemon) - before
    for lane in lanes:
        lane.socket.close()
    assert 0 < load.operations <= stored <= load.operations + CONNECTIONS


def end_offsets(daemon: MusterDaemon) -> int:
    wanted = [ListOffsetsPartition(partition_index=each, timestamp=LATEST) for each in range(PARTITIONS)]
    topic = ListOffsetsTopic(name=PRODUCED, partitions=wanted)
    with WireClient(daemon.bootstrap) as client:
        answer = client.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), LIST_VERSION)
    return sum(partition.offset for partition in answer.topics[0].partitions)


def other_key(number: int) -> Login:
    """A login with another key in the place of one of the three."""
    right = login()
    keys = [right.keys[start : start + 32] for start in range(0, 96, 32)]
    keys[number] = os.urandom(32)
    return replace(right, keys=b"".join(keys))


@pytest.mark.parametrize("number", [0, 1], ids=["client's key", "stored key"])
def test_a_wrong_password_is_no_login(daemon: MusterDaemon, beats: list[Lane], number: int) -> None:
    with pytest.raises(LoadError, match=rf"the login was refused: error code {AUTHENTICATION_FAILED}$"):
        run(daemon, beats[:1], 0.1, given=other_key(number))


def test_a_server_without_the_keys_is_not_believed(daemon: MusterDaemon, beats: list[Lane]) -> None:
    with pytest.raises(LoadError, match=r"the server does not have the keys$"):
        run(daemon, beats[:1], 0.1, given=other_key(2))


def test_a_server_of_another_authority_is_not_believed(
    daemon: MusterDaemon, beats: list[Lane], tmp_path: Path
) -> None:
    other = str(Certificates(tmp_path).authority).encode()
    with pytest.raises(LoadError, match=r"the TLS handshake failed: .*certificate verify failed"):
        run(daemon, beats[:1], 0.1, given=replace(login(), authority=other))


def test_an_authority_that_is_not_there_has_a_sentence(daemon: MusterDaemon, beats: list[Lane]) -> None:
    with pytest.raises(LoadError, match=r"the authority: .*"):
        run(daemon, beats[:1], 0.1, given=replace(login(), authority=b"/nowhere"))


def test_a_plain_listener_is_no_load_behind_tls(daemon: MusterDaemon, beats: list[Lane]) -> None:
    with (
        connect(daemon.port) as connection,
        pytest.raises(LoadError, match=r"the TLS handshake failed: "),
    ):
        generator.run([replace(beats[0], socket=connection)], 0.1, daemon.pid, login=login())


def test_a_connection_that_is_closed_is_a_failure(daemon: MusterDaemon, beats: list[Lane]) -> None:
    """Not the end of the generator by a signal, as OpenSSL writes to a socket."""
    near, far = socket.socketpair()
    far.close()
    with near, pytest.raises(LoadError, match=r"the TLS handshake failed: the server closed the connection$"):
        generator.run([replace(beats[0], socket=near)], 0.1, daemon.pid, login=login())


def test_keys_are_not_shown() -> None:
    assert repr(login().keys) not in repr(login())


def test_without_openssl_what_needs_it_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(NoOpenSsl, match=r"needs OpenSSL 3 for TLS .*no-such-library"):
        generator.find_openssl(["no-such-library.so.3"])

    def missing() -> None:
        raise NoOpenSsl("there is none")

    monkeypatch.setattr(generator, "find_openssl", missing)
    with pytest.raises(SystemExit, match="nothing is left to play"):
        bench.main(["--quick", "--only", "secured_heartbeats,tls_memory"])
    assert capsys.readouterr().out == "skipped: secured_heartbeats, tls_memory: there is none\n"


def test_what_is_encrypted_is_generated() -> None:
    """So that both are looked for before anything starts."""
    assert [name for name, each in SCENARIOS.items() if each.is_encrypted and not each.is_generated] == []
