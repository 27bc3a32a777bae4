"""Muster's daemon for tests: `python -m muster serve` as a process on loopback, settings given as overrides.

It has the interface of `kafka_broker.KafkaBroker`, so one test can run against either. Ready means that the
daemon printed its ready line with our address in this life, and answers ApiVersions. Knows nothing of
pytest.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from harness.processes import ServerProcess

ROOT = Path(__file__).resolve().parent.parent
READY = "muster: ready on {address}"
WITH_BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}
"""Let Python write bytecode, as users do: compiling two hundred modules would be half of each start."""

NO_HTTP = {"muster.http.listeners": ""}
"""Many daemons run at once, of which one could have the default port. A test of HTTP asks for `ANY_HTTP`."""
ANY_HTTP = {"muster.http.listeners": "http://127.0.0.1:0"}


def has_http(tree: Path) -> bool:
    """Whether the Muster in this tree knows of HTTP: benches run older ones, which refuse unknown settings."""
    coordinator = tree / "coordinator"
    return (coordinator / "http").is_dir() or not coordinator.is_dir()  # Without it, what is installed runs.


class MusterDaemon(ServerProcess):
    """A Muster daemon with `overrides` (Kafka's option names) over its defaults, data under `data_dir`.

    `terminate()` returns its exit status: 0 for a clean stop. `environment` adds variables for the daemon
    alone; `tree` is the folder with the packages that it runs; `listeners` are those beside PLAINTEXT.
    """

    def __init__(
        self,
        data_dir: Path,
        overrides: Mapping[str, str] | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        python: str = sys.executable,
        tree: Path = ROOT,
        listeners: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(data_dir, listeners)
        self.overrides = {
            **self.listener_settings,
            "log.dirs": str(self.log_dir),
            **(NO_HTTP if has_http(tree) else {}),
            **(overrides or {}),
        }
        self._extra_environment = dict(environment or {})
        self._python = python
        self._tree = tree
        self._log_start = 0

    @property
    def log_dir(self) -> Path:
        return self.data_dir / "logs"

    def _command(self) -> list[str]:
        # -P: the folder that the tests run in is not put on the path, where it would come before `tree`.
        return [self._python, "-P", "-m", "muster", "serve", *self._settings()]

    def _settings(self) -> list[str]:
        return [part for name, value in self.overrides.items() for part in ("--override", f"{name}={value}")]

    def _environment(self) -> Mapping[str, str]:
        # `tree` is on the path also where Muster is not installed; unbuffered, or the ready line would wait.
        return {
            "PYTHONPATH": str(self._tree),
            "PYTHONUNBUFFERED": "1",
            **WITH_BYTECODE,
            **self._extra_environment,
        }

    def _prepare(self) -> None:
        self._log_start = self.log_path.stat().st_size if self.log_path.exists() else 0

    def _is_ready(self) -> bool:
        """Whether the daemon answers and printed its ready line in this run; earlier runs do not count."""
        with self.log_path.open("rb") as log:
            log.seek(self._log_start)
            printed = log.read().decode(errors="replace")
        line = READY.format(address=self.bootstrap)
        # The only listener, or the first of several.
        is_named = f"{line} " in printed or f"{line}, " in printed
        return is_named and super()._is_ready()
