"""Server processes under test: started in their own process group, logged to a file, killed for sure.

`ServerProcess` is what the Apache Kafka harness (`kafka_broker.py`) and the Muster harness (`daemon.py`) have
in common, so that one test can run against either. It knows nothing of pytest, of groups or of topics, and
speaks one Kafka request by hand (ApiVersions v0), so that a harness never leans on the code it tests.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import select
import signal
import socket
import struct
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Self, TypeVar

HOST = "127.0.0.1"
# Below Linux's ephemeral range (32768 and up): a port handed out from inside it can be taken by an outgoing
# connection while a killed server is down, and a client that reconnects may even connect to itself there.
PORT_RANGE = range(20_000, 32_000)
POLL_INTERVAL_S = 0.02
READY_INTERVAL_S = 0.004  # Starts of a quarter of a second are measured.
PLAINTEXT = "PLAINTEXT"
LOG_TAIL_BYTES = 6_000  # Enough for a stack trace, little enough to read in a test report.

T = TypeVar("T")

_given: set[int] = set()
"""The ports that this process was given."""


def free_port(others: Collection[int] = ()) -> int:
    """A loopback port, none of `others`, on which nothing listens now; it is given to nobody else here.

    A server listens seconds later, and does not while it is restarted: no other test may have its port meanwhile.
    """
    for _ in range(1000):
        port = random.choice(PORT_RANGE)
        if port in others or port in _given or not _is_reserved(port):
            continue
        _given.add(port)
        with socket.socket() as probe:
            # As servers do: a port with connections in TIME_WAIT counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind((HOST, port))
                return port
    raise RuntimeError(f"no free port in {PORT_RANGE}")


def _is_reserved(port: int) -> bool:
    """Whether this process has the port now, which it then has to its end, however that comes about."""
    try:
        fcntl.lockf(_register(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False  # Another process has it.
    return True


@cache
def _register() -> int:
    """A file without content: who has the lock on a byte has that port. Not in TMPDIR, which some tests watch."""
    return os.open(f"/tmp/muster-ports-{os.getuid()}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def wait_until(
    condition: Callable[[], T | None],
    what: str,
    deadline_s: float,
    give_up: Callable[[], str | None] = lambda: None,
    interval_s: float = POLL_INTERVAL_S,
) -> T:
    """Return the first truthy value of `condition`, polled until `deadline_s` seconds have passed.

    Raises TimeoutError naming `what` and the last value seen. `give_up` returns a reason to stop early.
    """
    deadline = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if reason := give_up():
            raise RuntimeError(f"{what}: {reason}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {deadline_s} s, last seen: {value!r}")
        time.sleep(interval_s)


def answers_api_versions(host: str, port: int) -> bool:
    """Whether a Kafka server at this address answers ApiVersions (key 18) v0 without an error."""
    request = struct.pack(">hhih", 18, 0, 7, -1)
    try:
        with socket.create_connection((host, port), timeout=2) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            reply = connection.makefile("rb").read(10)
    except OSError:
        return False
    return len(reply) == 10 and struct.unpack(">ih", reply[4:]) == (7, 0)


def unread(command: Sequence[str], timeout_s: float = 60) -> tuple[int, str]:
    """Run a program whose stdout has no reader; return its exit status and what it wrote to stderr."""
    reading, writing = os.pipe()
    os.close(reading)
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    try:
        done = subprocess.run(
            command,
            env=buffered,  # As users have it: the interpreter then writes what is left at its end.
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    finally:
        os.close(writing)
    return done.returncode, done.stderr


class ServerProcess(ABC):
    """One server on loopback: start, terminate (SIGTERM), kill (SIGKILL), restart on the same port and data.

    As a context manager it starts on entry and is killed on exit. `log_path` holds stdout and stderr of all
    its runs. `listeners` names the security protocols of listeners beside PLAINTEXT, each on a port of its own.
    """

    start_timeout_s = 60.0
    stop_timeout_s = 60.0

    def __init__(self, data_dir: Path, listeners: Mapping[str, str] | None = None) -> None:
        self.data_dir = data_dir
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self.log_path = data_dir / "server.log"
        self.port = free_port()
        self._protocols = {PLAINTEXT: PLAINTEXT, **(listeners or {})}
        self._ports = {PLAINTEXT: self.port}
        for name in listeners or {}:
            self._ports[name] = free_port(self._ports.values())
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """The server's address for clients' `bootstrap.servers`."""
        return f"{HOST}:{self.port}"

    def bootstrap_of(self, listener: str) -> str:
        """The address of another listener, one of those given by name."""
        return f"{HOST}:{self._ports[listener]}"

    @property
    def listener_settings(self) -> dict[str, str]:
        """The settings `listeners` and, if there are others than PLAINTEXT, which protocol each one speaks."""
        listeners = ",".join(f"{name}://{HOST}:{port}" for name, port in self._ports.items())
        if len(self._ports) == 1:
            return {"listeners": listeners}
        protocols = ",".join(f"{name}:{protocol}" for name, protocol in self._protocols.items())
        return {"listeners": listeners, "listener.security.protocol.map": protocols}

    @property
    @abstractmethod
    def log_dir(self) -> Path:
        """The folder in which the server keeps its partitions, a directory for each."""

    @property
    def pid(self) -> int:
        """The process id of the running server. Raises RuntimeError while there is none."""
        if self._process is None:
            raise RuntimeError(f"{self} is not running")
        return self._process.pid

    def start(self) -> Self:
        """Start, and wait until requests are answered; RuntimeError, with the log's end, if that fails."""
        self._prepare()
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                env={**os.environ, **self._environment()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            wait_until(
                self._is_ready, f"{self} ready", self.start_timeout_s, self._exit_reason, READY_INTERVAL_S
            )
        except Exception as error:  # Raised again, with what the process wrote.
            self.kill()
            raise RuntimeError(f"{error}\n{self.log_tail()}") from error
        return self

    def prepare(self) -> None:
        """Do ahead of the first start what it does on the disk, for those who measure the start."""
        self._prepare()

    def terminate(self) -> int:
        """SIGTERM, wait, return the exit status. Raises subprocess.TimeoutExpired if it does not stop."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to the process group; returns when the process is gone. Harmless if it is not running."""
        if self._process is not None:
            self._end(signal.SIGKILL)

    def pause(self) -> None:
        """SIGSTOP to the process group: the server keeps its connections and answers nothing, until `resume`."""
        os.killpg(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.killpg(self.pid, signal.SIGCONT)

    def restart(self) -> Self:
        """Stop (SIGTERM) if running, and start again on the same port and data."""
        if self._process is not None:
            self.terminate()
        return self.start()

    def log_tail(self) -> str:
        """The last lines of the log, for the message of a failure."""
        if not self.log_path.exists():
            return "(no log)"
        text = self.log_path.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")
        return f"--- end of {self.log_path}\n{text}"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.bootstrap})"

    @abstractmethod
    def _command(self) -> list[str]: ...

    def _environment(self) -> Mapping[str, str]:
        return {}

    def _prepare(self) -> None:
        """Do what has to happen on the disk before the process starts; by default nothing."""
        return

    def _is_ready(self) -> bool:
        return answers_api_versions(HOST, self.port)

    def _exit_reason(self) -> str | None:
        status = self._process.poll() if self._process else None
        return None if status is None else f"the process ended with status {status}"

    def _end(self, with_signal: signal.Signals) -> int:
        process = self._process
        if process is None:
            raise RuntimeError(f"{self} is not running")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, with_signal)
        status = _exit_status(process, self.stop_timeout_s)
        self._process = None
        return status


def _exit_status(process: subprocess.Popen[bytes], timeout_s: float) -> int:
    """Wait for the process to end. `Popen.wait` looks every 50 ms, a tenth of the lives that a bench measures."""
    if not hasattr(os, "pidfd_open"):  # Not on Linux.
        return process.wait(timeout_s)
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(process.pid)
        try:
            ended = select.poll()
            ended.register(descriptor, select.POLLIN)
            ended.poll(timeout_s * 1000)
        finally:
            os.close(descriptor)
    return process.wait(0)
