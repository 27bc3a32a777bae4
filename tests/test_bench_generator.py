"""The load generator in C: what it counts is what a server did, and no wrong answer is an operation."""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bench.pairs import __main__ as bench
from bench.pairs import frames, generator
from bench.pairs.frames import COMMIT, FETCH, HEARTBEAT
from bench.pairs.generator import NoCompiler
from bench.pairs.lanes import Lane, LoadError, ask
from bench.pairs.rounds import MUSTER, Contender
from bench.pairs.servers import cpu_of
from bench.pairs.singles import OFFSET, TOPIC, commit_of, errors_in, lanes_of, make_topic
from harness.daemon import MusterDaemon
from protocol.codec.codec import decode, encode
from protocol.errors import ErrorCode
from protocol.messages import RESPONSES
from protocol.messages.heartbeat import HeartbeatResponse
from tests.conftest import JAVA_IS_REQUIRED

MEMBER = frames.Joined("group", "member", 1)
CONNECTIONS = 20
ROUNDING = 1e-9  # The CPU of each request is a quotient, and its product with their number not exact.
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "muster.flush.policy": "os"}


@pytest.fixture(scope="module", autouse=True)
def program() -> Path:
    """Skipped without a C compiler; where all has to be tested it fails."""
    try:
        return generator.program()
    except NoCompiler as missing:
        if JAVA_IS_REQUIRED:
            pytest.fail(str(missing))
        pytest.skip(f"needs a C compiler: {missing}")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterDaemon]:
    with MusterDaemon(tmp_path_factory.mktemp("daemon"), SETTINGS) as started:
        make_topic(started, partitions=3)
        yield started


def answer(correlation_id: int, error: ErrorCode = ErrorCode.NONE) -> bytes:
    body = correlation_id.to_bytes(4) + b"\0" + encode(HeartbeatResponse(error_code=error), HEARTBEAT[1])
    return len(body).to_bytes(4) + body


Answers = Callable[[int], bytes]
"""What a server sends for its request of this number, the first being 1; none closes the connection."""


def serve(connection: socket.socket, answers: Answers, size: int) -> None:
    came, number = b"", 0
    with connection:
        while data := connection.recv(1 << 16):
            came += data
            while len(came) >= size:
                came, number = came[size:], number + 1
                sent = answers(number)
                if not sent:
                    return
                connection.sendall(sent)


@contextmanager
def answering(
    answers: Answers, served: Callable[[socket.socket, Answers, int], None] = serve
) -> Iterator[Lane]:
    """A lane of heartbeats whose other end, a thread of this process, sends `answers`."""
    frame = frames.heartbeat(MEMBER)
    near, far = socket.socketpair()
    server = threading.Thread(target=served, args=(far, answers, len(frame)))
    server.start()
    with near:
        yield Lane(near, frame, answer(frames.CORRELATION_ID))
        near.shutdown(socket.SHUT_RDWR)
        server.join()


def run(
    lane: Lane, seconds: float = 1.0, in_flight: int = 1, patience_s: float = 10
) -> generator.GeneratedLoad:
    """A load that lasts long enough for a few requests, also where the machine stops it for a part of it."""
    return generator.run([lane], seconds, os.getpid(), in_flight, patience_s=patience_s)


@pytest.mark.parametrize("in_flight", [1, 16])
@pytest.mark.parametrize("partitions", [1, 3])
def test_what_is_counted_is_what_a_daemon_stored(
    daemon: MusterDaemon, partitions: int, in_flight: int
) -> None:
    """Each commit has offsets one higher: what is stored in the end says how many there were."""
    prefix = f"count-{partitions}-{in_flight}"
    lanes = lanes_of(daemon, prefix, CONNECTIONS, commit_of(partitions), COMMIT)
    load = generator.run(lanes, 0.5, daemon.pid, in_flight)
    stored = 0
    for number, lane in enumerate(lanes):
        lane.socket.setblocking(True)
        offsets = {
            offset_of(lane, f"{prefix}-{number:05d}", partition) - OFFSET for partition in range(partitions)
        }
        assert len(offsets) == 1, "the numbers of all partitions go up together"
        stored += offsets.pop()
        lane.socket.close()
    assert 0 < load.operations <= stored <= load.operations + CONNECTIONS * in_flight
    assert load.cpu.total_us > 0
    assert 0 < load.latency_us(0.5) <= load.latency_us(0.99) <= 60e6


def offset_of(lane: Lane, group_id: str, partition: int) -> int:
    fetched = decode(
        RESPONSES[FETCH[0]], FETCH[1], ask(lane.socket, frames.fetch(group_id, TOPIC, partition)), 9
    )
    return int(fetched.groups[0].topics[0].partitions[0].committed_offset)


def test_heartbeats_of_a_daemon(daemon: MusterDaemon) -> None:
    lanes = lanes_of(daemon, "beat", CONNECTIONS, frames.heartbeat, HEARTBEAT)
    load = generator.run(lanes, 1.0, daemon.pid, 4)
    assert load.per_second > 100
    assert 0 < load.own_us < 1_000
    lanes[0].socket.setblocking(True)
    assert errors_in(HEARTBEAT, ask(lanes[0].socket, lanes[0].frame)) == [0], "nothing is left of the load"
    for lane in lanes:
        lane.socket.close()


def test_a_refusal_of_a_daemon_is_a_failure(daemon: MusterDaemon) -> None:
    """The lane has learned the answer to a commit that was taken; then the group has another generation."""
    (lane,) = lanes_of(daemon, "refused", 1, frames.heartbeat, HEARTBEAT)
    lane.frame = frames.heartbeat(frames.Joined("refused-00000", "unknown", 1))
    with pytest.raises(LoadError, match=r"beside 0 good answers .* UNKNOWN_MEMBER_ID$"):
        generator.run([lane], 0.1, daemon.pid)
    lane.socket.close()


def test_the_cpu_is_that_of_all_threads_of_the_server() -> None:
    """The server is a thread of this process, whose main thread only waits."""
    before = cpu_of(os.getpid())
    with answering(answer) as lane:
        load = run(lane, 0.5)
    spent = cpu_of(os.getpid()).since(before)
    assert load.operations > 100
    assert 0.5 * spent.total_us < load.cpu.total_us * load.operations <= spent.total_us * (1 + ROUNDING)


def serve_in_pieces(connection: socket.socket, size: int, answered: list[int]) -> None:
    """All that came is answered at once, but the last bytes come after the others were read.

    Nothing is kept back until a request that may never be sent: the load ends at any number of them.
    """
    came = b""
    with connection:
        while data := connection.recv(1 << 16):
            came += data
            count, first = len(came) // size, len(answered) + 1
            came = came[count * size :]
            answered.extend(range(first, first + count))
            whole = b"".join(answer(number) for number in answered[first - 1 :])
            connection.sendall(whole[:-5])
            time.sleep(0.002)
            connection.sendall(whole[-5:])


@pytest.mark.parametrize("in_flight", [1, 3])
def test_answers_in_pieces_and_several_at_once_are_counted_once(in_flight: int) -> None:
    answered: list[int] = []
    with answering(answer, lambda far, _answers, size: serve_in_pieces(far, size, answered)) as lane:
        load = run(lane, in_flight=in_flight)
    assert 10 < load.operations <= len(answered) <= load.operations + in_flight


def wrong_at(number: int, wrong: bytes) -> Answers:
    return lambda each: wrong if each == number else answer(each)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (answer(7, ErrorCode.ILLEGAL_GENERATION), "ILLEGAL_GENERATION"),
        (answer(9), "correlation id 9 where 7 was due"),
        (answer(7)[:3] + b"\x0d" + answer(7)[4:] + b"\0", "00 00 00 0d 00 00 00 07"),
    ],
    ids=["error code", "correlation id", "size"],
)
def test_one_wrong_answer_is_counted_and_fails_the_load(wrong: bytes, named: str) -> None:
    with answering(wrong_at(7, wrong)) as lane, pytest.raises(LoadError) as failed:
        run(lane)
    assert str(failed.value).startswith("1 failures beside ")
    assert "(0 connections closed, 0 requests not answered)" in str(failed.value)
    assert named in str(failed.value)


def test_what_may_differ_in_an_answer_may_and_nothing_else() -> None:
    """Eight bytes that count on, as an offset does; the error code behind them is still looked at."""

    def counting(number: int) -> bytes:
        error = ErrorCode.NOT_COORDINATOR if number == wrong_one else ErrorCode.NONE
        body = answer(number, error)[4:] + number.to_bytes(8)
        return len(body).to_bytes(4) + body

    wrong_one = 0
    free = [len(counting(1)) - 8]
    with answering(counting) as lane:
        assert run(replace(lane, answer=counting(1), free=free)).operations > 10
    wrong_one = 7
    with answering(counting) as lane, pytest.raises(LoadError, match=r"^1 failures beside .*NOT_COORDINATOR"):
        run(replace(lane, answer=counting(1), free=free))


def test_a_wrong_answer_after_the_end_fails_the_load_too() -> None:
    """What is still in flight when the time is up is looked at, and is no operation."""

    def late(number: int) -> bytes:
        time.sleep(0.3)
        return answer(number, ErrorCode.NOT_COORDINATOR)

    with answering(late) as lane, pytest.raises(LoadError, match=r"^1 failures beside 0 .*NOT_COORDINATOR$"):
        run(lane, 0.1)


def test_an_answer_after_the_end_is_no_operation() -> None:
    def late(number: int) -> bytes:
        time.sleep(2)
        return answer(number)

    with answering(late) as lane:
        assert run(lane, 0.1).operations == 0


def test_a_connection_that_is_closed_is_a_failure() -> None:
    with answering(wrong_at(5, b"")) as lane, pytest.raises(LoadError) as failed:
        run(lane)
    assert str(failed.value) == (
        "1 failures beside 4 good answers (1 connections closed, 0 requests not answered)"
    )


def test_an_answer_that_does_not_come_is_a_failure() -> None:
    halves = [answer(3)[:6]]
    with (
        answering(lambda number: answer(number) if number < 3 else halves[0]) as lane,
        pytest.raises(LoadError, match=r"^1 failures beside 2 good .*1 requests not answered"),
    ):
        run(lane, patience_s=0.5)


def test_a_missing_answer_fails_what_is_measured(tmp_path: Path) -> None:
    """The scenario ends with it: no figures come of a load with a failure."""
    with answering(wrong_at(7, answer(7, ErrorCode.UNKNOWN_MEMBER_ID))) as lane:
        contender = Contender(MUSTER, OwnProcess(tmp_path), [lane], generator.run)
        with pytest.raises(LoadError, match=r"UNKNOWN_MEMBER_ID"):
            contender.load(1.0, 1)
        assert contender.loads == []


class OwnProcess(MusterDaemon):
    """This process in the place of a server."""

    @property
    def pid(self) -> int:
        return os.getpid()


def test_without_a_compiler_there_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoCompiler, match=r"no C compiler here .no-such-cc.: install one"):
        generator.build(tmp_path / "generator", ["no-such-cc"])
    monkeypatch.setattr(generator, "CACHE", tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    generator.program.cache_clear()
    with pytest.raises(SystemExit) as ended:
        bench.main(["--quick", "--only", "commits"])
    generator.program.cache_clear()
    assert "there is no C compiler here (cc, gcc, clang)" in str(ended.value)


def test_a_source_that_cannot_be_built_shows_what_the_compiler_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken.c"
    broken.write_text("int main(void) { return nowhere; }\n")
    monkeypatch.setattr(generator, "SOURCES", [broken])
    with pytest.raises(NoCompiler, match=r"nowhere"):
        generator.build(tmp_path / "generator")
    assert not (tmp_path / "generator").exists()
