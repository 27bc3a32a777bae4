"""Runs the load generator in C (`generator.c`) on lanes, and builds it from its source when it is first needed.

Each request has a correlation id of its own, and each commit offsets one higher than the one before it, as with
clients. Every answer is compared as a whole with the one that the lane has learned: a wrong error code or
correlation id is a failure, and any failure, connection that was closed or answer that did not come ends the
scenario with a LoadError that shows the first.

With a `Login` all connections shake hands and log in at once, before the clock starts: TLS is of one process, so
the connections of such a load are new and can carry no other. It needs OpenSSL 3 at run time (`secure.c`).
"""

from __future__ import annotations

import ctypes
import re
import shutil
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from bench.pairs.lanes import PATIENCE_S, Lane, LoadError
from bench.pairs.servers import TICK_US, Cpu
from bench.pairs.singles import OFFSET, errors_in
from harness.java_tools import CACHE, locked
from protocol.errors import DecodeError, ErrorCode

HERE: Final = Path(__file__).parent
SOURCES: Final = (HERE / "generator.c", HERE / "secure.c", HERE / "secure.h")
LIBRARIES: Final = ("libssl.so.3", "libcrypto.so.3")
COMPILERS: Final = ("cc", "gcc", "clang")
FLAGS: Final = ("-std=gnu11", "-O2", "-Wall", "-Wextra")
SHOWN_BYTES: Final = 60
_ADDRESS = struct.Struct(">hh")  # API key and version of a request.
_HEAD = struct.Struct("=ddIIII")
_LANE = struct.Struct("=IIIII")
_SIZE = struct.Struct("=I")
_OFFSET = struct.pack(">q", OFFSET)


class NoCompiler(Exception):
    """There is no C compiler, or it cannot build the generator; the message says which."""


class NoOpenSsl(Exception):
    """OpenSSL 3 is not here, or cannot be loaded; the message says why."""


@dataclass(frozen=True, slots=True)
class Login:
    """How each connection logs in behind TLS: by SCRAM-SHA-256, with the keys of a user whose salt is known."""

    authority: bytes
    """Path of the certificate that the server's is verified with."""
    handshake: bytes
    """The frame of SaslHandshake,"""
    first: bytes
    """that of the client's first token, in version 1 as the last one is,"""
    final: bytes
    """and the beginning of that of its last, without the token."""
    bare: bytes
    """What of the first token is signed."""
    keys: bytes = field(repr=False)
    """The client's key, the stored key and the server's, each of 32 bytes (RFC 5802, 3)."""

    @property
    def described(self) -> bytes:
        """As the generator reads it."""
        return b"".join(_SIZE.pack(len(part)) + part for part in astuple(self))


@dataclass(frozen=True, slots=True)
class GeneratedLoad:
    """What one round did, what it cost the server (all its threads), and what the generator itself.

    `latencies` is a histogram: microseconds, ascending and known to 1 %, and how many answers took that long.
    Before it, all logins together took `login_s`, of the server `login_cpu`, and of the generator `login_own_us`.
    """

    operations: int
    seconds: float
    cpu: Cpu
    own_us: float
    latencies: Sequence[tuple[int, int]]
    login_s: float = 0.0
    login_cpu: Cpu = field(default_factory=lambda: Cpu(0.0, 0.0))
    login_own_us: float = 0.0

    @property
    def per_second(self) -> float:
        return self.operations / self.seconds

    def latency_us(self, share: float) -> float:
        """The latency that this share of the requests kept within."""
        left = int(share * self.operations)
        for latency_us, count in self.latencies:
            left -= count
            if left < 0:
                return float(latency_us)
        return float(self.latencies[-1][0]) if self.latencies else 0.0


@cache
def program() -> Path:
    """The generator, built if it has not been from this source. Raises NoCompiler."""
    digest = sha256(b"".join(source.read_bytes() for source in SOURCES)).hexdigest()
    made = CACHE / f"generator-{digest[:16]}"
    CACHE.mkdir(exist_ok=True)
    with locked(CACHE / "generator.lock"):
        if not made.exists():
            build(made)
    return made


def build(target: Path, compilers: Sequence[str] = COMPILERS) -> None:
    """Have the first C compiler that is there make `target`. Raises NoCompiler."""
    compiler = next(filter(None, map(shutil.which, compilers)), None)
    if compiler is None:
        raise NoCompiler(
            f"The load generator is a C program, and there is no C compiler here ({', '.join(compilers)}): "
            f"install one (Debian: apt-get install gcc libc6-dev), or choose scenarios that do without (--list)."
        )
    scratch = target.with_suffix(".new")
    sources = [str(source) for source in SOURCES if source.suffix == ".c"]
    command = [compiler, *FLAGS, "-o", str(scratch), *sources, "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoCompiler(f"{compiler} cannot build the load generator:\n{done.stderr[-2000:]}")
    scratch.replace(target)


def find_openssl(libraries: Sequence[str] = LIBRARIES) -> None:
    """Raise NoOpenSsl unless there is what the generator needs for TLS."""
    try:
        for name in libraries:
            ctypes.CDLL(name)
    except OSError as missing:
        raise NoOpenSsl(f"the load generator needs OpenSSL 3 for TLS (Debian: libssl3): {missing}") from None


def run(
    lanes: Sequence[Lane],
    seconds: float,
    pid: int,
    in_flight: int = 1,
    *,
    patience_s: float = PATIENCE_S,
    login: Login | None = None,
) -> GeneratedLoad:
    """Keep `in_flight` requests on the way on every lane for `seconds`, then take the answers that are left.

    With `login` the lanes are connected, and nothing more. Raises LoadError if any answer was wrong, did not come,
    a connection was closed, or a login failed.
    """
    head = _HEAD.pack(seconds, patience_s, in_flight, len(lanes), pid, login is not None)
    done = subprocess.run(
        [program()],
        input=b"".join([head, b"" if login is None else login.described, *map(_described, lanes)]),
        pass_fds=[lane.socket.fileno() for lane in lanes],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise LoadError(f"the generator ended with {done.returncode}: {done.stderr.decode().strip()}")
    found = done.stdout.decode()
    figures = {name: float(value) for name, value in re.findall(r"^(\w+) ([\d.]+)$", found, re.MULTILINE)}
    if figures["failures"]:
        raise LoadError(_failures(figures, found, lanes[0]))
    operations = int(figures["operations"])
    cpu = Cpu(figures["user_ticks"] * TICK_US, figures["system_ticks"] * TICK_US)
    return GeneratedLoad(
        operations,
        figures["seconds"],
        cpu.each(max(1, operations)),
        figures["own_us"] / max(1, operations),
        [(int(us), int(count)) for us, count in re.findall(r"^latency (\d+) (\d+)$", found, re.MULTILINE)],
        **_logins(figures),
    )


def _logins(figures: dict[str, float]) -> dict[str, Any]:
    if "login_seconds" not in figures:
        return {}
    cpu = Cpu(figures["login_user_ticks"] * TICK_US, figures["login_system_ticks"] * TICK_US)
    return {"login_s": figures["login_seconds"], "login_cpu": cpu, "login_own_us": figures["login_own_us"]}


def _described(lane: Lane) -> bytes:
    """A lane as the generator reads it; what counts up are the offsets of a commit."""
    numbers = [each.start() for each in re.finditer(re.escape(_OFFSET), lane.frame)]
    places = [*numbers, *lane.free]
    head = _LANE.pack(lane.socket.fileno(), len(lane.frame), len(lane.answer), len(numbers), len(lane.free))
    return b"".join([head, struct.pack(f"={len(places)}I", *places), lane.frame, lane.answer])


def _failures(figures: dict[str, float], found: str, lane: Lane) -> str:
    counted = (
        f"{figures['failures']:.0f} failures beside {figures['operations']:.0f} good answers "
        f"({figures['closed']:.0f} connections closed, {figures['unanswered']:.0f} requests not answered)"
    )
    wrong = re.search(r"^wrong (\d+) (\w+)$", found, re.MULTILINE)
    if wrong is None:
        return counted
    answer = bytes.fromhex(wrong[2])
    return f"{counted}; the first wrong answer: {wrong_because(lane, int(wrong[1]), answer)}"


def wrong_because(lane: Lane, due_id: int, answer: bytes) -> str:
    """What is wrong with an answer: its correlation id, its error codes, or its bytes."""
    came_id = int.from_bytes(answer[4:8])
    if came_id != due_id:
        return f"correlation id {came_id} where {due_id} was due"
    try:
        errors = {
            ErrorCode(each).name for each in errors_in(_ADDRESS.unpack_from(lane.frame, 4), answer) if each
        }
    # Not even an answer to such a request, or a code that is none of Kafka's.
    except (DecodeError, ValueError):
        errors = set()
    return ", ".join(sorted(errors)) or f"{answer[:SHOWN_BYTES].hex(' ')}"
