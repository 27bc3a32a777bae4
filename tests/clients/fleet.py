"""Starts, watches and ends client processes: every client of these tests is a process of its own.

A `Worker` collects the JSON lines its process prints (see workers/reporting.py); tests wait for what has
been seen, with deadlines, never for time to pass. A `Fleet` kills what is left at the end. Knows no client
library.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from harness import java_tools
from harness.processes import wait_until

ROOT = Path(__file__).resolve().parent.parent.parent
JAVA_SOURCES = Path(__file__).resolve().parent / "java"
EXAMPLES = Path(__file__).resolve().parent / "delivery"
PYTHON_FAMILIES = ("aiokafka", "confluent", "kafka_python")
FAMILIES = (*PYTHON_FAMILIES, "java")
# A worker's libraries take seconds to load on a busy machine; a session takes 6 s to expire.
DEADLINE_S = 90.0
EXCEPTION = re.compile(r"[\w.]+(Error|Exception|Interrupt)\b")
JVM_OPTIONS = ("-Xmx192m", *java_tools.SHORT_LIVED)

Event = dict[str, Any]
T = TypeVar("T")


class Worker:
    """One client process: its events so far, and ways to wait for more and to end it."""

    def __init__(self, name: str, command: list[str], log_dir: Path) -> None:
        self.name = name
        self.events: list[Event] = []
        self._by_kind: defaultdict[str, list[Event]] = defaultdict(list)
        self._stderr_path = log_dir / f"{name}.err"
        with self._stderr_path.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._collect, daemon=True)
        self._reader.start()

    def of(self, event: str) -> list[Event]:
        """The events of this kind so far, oldest first."""
        return list(self._by_kind[event])

    def wait_for(
        self, condition: Callable[[], T], what: str, deadline_s: float = DEADLINE_S, *, may_end: bool = False
    ) -> T:
        """Wait for a truthy `condition`; fails, with what the worker said, if it ends or the time does."""
        try:
            return wait_until(condition, what, deadline_s, lambda: None if may_end else self._ended())
        except (TimeoutError, RuntimeError) as error:
            raise AssertionError(f"{error}\n{self.story()}") from None

    def wait_for_event(self, event: str, deadline_s: float = DEADLINE_S) -> Event:
        """The first event of this kind, waited for."""
        return self.wait_for(lambda: self.of(event), f"{self.name}: {event}", deadline_s)[0]

    def finish(self, deadline_s: float = DEADLINE_S) -> list[Event]:
        """Wait until the process ends by itself with status 0; return its events."""
        self.wait_for(lambda: self._process.poll() is not None, f"{self.name} ends", deadline_s, may_end=True)
        self._reader.join(DEADLINE_S)
        assert self._process.returncode == 0, f"status {self._process.returncode}\n{self.story()}"
        return self.events

    def stop(self, deadline_s: float = DEADLINE_S) -> list[Event]:
        """Ask the process to close its client in good order; wait for that."""
        self.request_stop()
        return self.finish(deadline_s)

    @property
    def status(self) -> int | None:
        """The process's exit status; None while it runs."""
        return self._process.poll()

    @property
    def last_words(self) -> str:
        """The last exception that a Python program wrote to its stderr."""
        lines = self._stderr_path.read_text(errors="replace").splitlines()
        return next((line for line in reversed(lines) if EXCEPTION.match(line)), f"status {self.status}")

    @property
    def text(self) -> str:
        """The lines it printed that are not events: the output of a command line tool."""
        return "\n".join(event["text"] for event in self.of("printed"))

    def write(self, *lines: str) -> None:
        """Write lines to the process's stdin and close it."""
        self._write(*lines)
        self.request_stop()

    def go(self) -> None:
        """Let a worker go on that waits for it: one that was started with `waits=True` or `holds=True`."""
        self._write("go")

    def become(self, **changes: object) -> None:
        """Let a `ledger` member close its consumer and set off another, with these changes of its config."""
        self._write(json.dumps(changes))

    def terminate(self) -> int:
        """SIGTERM, for programs that end in good order on it; waits, and returns the status they end with."""
        self._process.terminate()
        status = self._process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        return status

    def request_stop(self) -> None:
        """Close the process's stdin, which asks it to end; does not wait."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def kill(self) -> None:
        """SIGKILL, as a crash: its client leaves no group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)

    def pause(self) -> None:
        """SIGSTOP: a process that sleeps, as one on a machine that was suspended does."""
        os.killpg(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT, after `pause`."""
        os.killpg(self._process.pid, signal.SIGCONT)

    def story(self) -> str:
        """The last events and the end of stderr, for a failure's message."""
        errors = self._stderr_path.read_text(errors="replace")[-3000:]
        events = "\n".join(json.dumps(event)[:400] for event in self.events[-12:])
        return f"--- {self.name}: last events\n{events}\n--- stderr\n{errors}"

    def _write(self, *lines: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        self._process.stdin.flush()

    def _ended(self) -> str | None:
        status = self._process.poll()
        return None if status is None else f"{self.name} ended with status {status}"

    def _collect(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = _event(line.decode(errors="replace").rstrip("\n"))
            self._by_kind[event["event"]].append(event)
            self.events.append(event)


def _event(line: str) -> Event:
    """The event on a line; any other line, as the tools print them, is an event of its own kind."""
    with contextlib.suppress(ValueError):
        event = json.loads(line)
        if isinstance(event, dict) and "event" in event:
            return event
    return {"event": "printed", "text": line}


class Fleet:
    """The workers of one test, killed at its end."""

    def __init__(self, bootstrap: str, log_dir: Path) -> None:
        self._bootstrap = bootstrap
        self._log_dir = log_dir
        self._workers: list[Worker] = []
        self._numbers = itertools.count(1)
        self._tools: Worker | None = None

    def start(self, family: str, command: str, **config: object) -> Worker:
        """Start `command` of one client library's worker script: member, ledger, produce, read, admin or walk."""
        arguments = [command, json.dumps({"bootstrap": self._bootstrap, **config})]
        return self._start(f"{family}-{command}", [*_program(family), *arguments])

    def start_example(self, name: str, *arguments: str) -> Worker:
        """Start one of the examples of docs/delivery.md on this broker, as a user would."""
        return self._start(name, [sys.executable, str(EXAMPLES / f"{name}.py"), self._bootstrap, *arguments])

    def start_module(self, name: str, **config: object) -> Worker:
        """Start a module of workers/ that is a program of its own."""
        config = {"bootstrap": self._bootstrap, **config}
        return self._start(name, [sys.executable, "-m", f"tests.clients.workers.{name}", json.dumps(config)])

    def start_java(self, main_class: str, sources: Path, jars: Path, *arguments: str) -> Worker:
        """Start a Java program that is compiled from `sources`, with further `jars` beside Kafka's."""
        libraries = f"{jars}/*"
        classes = java_tools.compile_java(sources, libraries=libraries)
        command = [*_jvm(classes, Path(libraries)), main_class, self._bootstrap, *arguments]
        return self._start(main_class, command)

    def start_tool(self, main_class: str, *arguments: str) -> Worker:
        """Start one of Kafka's own tools on this broker, by its class in org.apache.kafka.tools or in kafka."""
        command = [*_jvm(), *self._tool(main_class, *arguments)]
        return self._start(main_class.rpartition(".")[2], command)

    def ask_tool(self, main_class: str, *arguments: str) -> Event:
        """Run a tool to its end: its `text`, its `error` (what it wrote to stderr) and its `status`.

        The tools of a test run in one process, one after the other: each is a second of a JVM's start otherwise.
        """
        if self._tools is None:
            self._tools = self.start("java", "tools")
        tools, before = self._tools, len(self._tools.of("said"))
        tools._write(json.dumps(self._tool(main_class, *arguments)))
        return tools.wait_for(lambda: tools.of("said")[before:], f"{main_class} ends")[0]

    def run_tool(self, main_class: str, *arguments: str) -> str:
        """Run a tool to its end, which must be a good one; return what it printed."""
        said = self.ask_tool(main_class, *arguments)
        assert said["status"] == 0, said
        text: str = said["text"]
        return text.removesuffix("\n")

    def close(self) -> None:
        for worker in self._workers:
            worker.kill()

    def _tool(self, main_class: str, *arguments: str) -> list[str]:
        main = main_class if main_class.startswith("kafka.") else f"org.apache.kafka.tools.{main_class}"
        return [main, "--bootstrap-server", self._bootstrap, *arguments]

    def _start(self, name: str, command: list[str]) -> Worker:
        worker = Worker(f"{name}-{next(self._numbers)}", command, self._log_dir)
        self._workers.append(worker)
        return worker


def _program(family: str) -> list[str]:
    if family == "java":
        return [*_jvm(java_tools.compile_java(JAVA_SOURCES)), "ClientWorker"]
    return [sys.executable, "-m", f"tests.clients.workers.{family}_worker"]


def _jvm(*classes: Path) -> list[str]:
    return [java_tools.java(), *JVM_OPTIONS, "-cp", java_tools.classpath(*classes)]
