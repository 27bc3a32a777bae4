"""`muster serve`: reads the settings, sets up the log, and runs the daemon until a signal stops it.

Whatever keeps it from starting becomes a sentence on standard error: status 2 for settings, 1 for the
rest. Standard output carries one line, when the daemon is ready. The flags are read with argparse: the rest of the
command line's library would cost a tenth of the start; see `__main__`. This module knows nothing of what the
daemon does.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from coordinator.daemon.startup import StartupError
from coordinator.settings.backing import BOOTSTRAP, GATEWAY, PREFIX
from coordinator.settings.http_listeners import http_listener
from coordinator.settings.model import Settings
from coordinator.settings.sources import LoadedSettings, SettingsError, load
from coordinator.settings.unusable import UnusableSettings
from muster.hangup import HeldHangup
from muster.log_output import configure_log, structlog  # Before any import of structlog.
from muster.sentences import cut, say

if TYPE_CHECKING:
    from muster.client_properties import ClientSettings

STATUS_FAILED: Final = 1
STATUS_NOT_UNDERSTOOD: Final = 2
_NEVER: Final = 2**31 - 1
"""Collections of the middle generation between two of the oldest: more than ever happen."""
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

Serve = Callable[..., Awaitable[None]]
"""Serves with these settings until it is told to stop; `ready`, `stop` and `explain` are given by name."""

_EPILOG: Final = """\
A setting is taken from the first of: a flag, the environment (group.max.size is MUSTER_GROUP_MAX_SIZE),
the file given by --config, its default. All settings: docs/settings.md.
"""


def serve_command(arguments: Sequence[str], started_s: float, hangup: HeldHangup) -> int:
    """Run the daemon with these command line arguments; return the exit status.

    `started_s` is the monotonic time at which the process began, and `hangup` its SIGHUP, held back since then.
    """
    flags = _parser().parse_args(arguments)
    try:
        loaded = load(overrides_of(flags), os.environ, flags.config)
        backing = client_of(loaded.backing)
        if backing is None and loaded.settings.muster_clients == GATEWAY:
            raise SettingsError(
                [f"muster.clients={GATEWAY} needs {BOOTSTRAP}: the brokers that clients reach"]
            )
    except SettingsError as error:
        for problem in error.problems:
            say(problem)
        return STATUS_NOT_UNDERSTOOD
    # It asks for renewed certificates, also of a daemon that is starting or stopping.
    hangup.release(is_ignored=_has_tls(loaded.settings))
    configure_log(loaded.settings.muster_log_level)
    _log_ignored_settings(loaded)
    return _run(loaded.settings, backing, started_s)


def parsed_overrides(arguments: Sequence[str]) -> dict[str, str | None]:
    """The settings in these command line arguments. Exits with status 2 if they are not understood."""
    return overrides_of(_parser().parse_args(arguments))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        super().error(cut(message))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="muster serve",
        description="Run the daemon in the foreground.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="a properties file; a Kafka broker's will do"
    )
    parser.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set one setting, under Kafka's name for it; may be repeated",
    )
    parser.add_argument("--listeners", metavar="LIST", help="short for --override listeners=LIST")
    parser.add_argument("--advertised-listeners", metavar="LIST", help="likewise for advertised.listeners")
    parser.add_argument("--log-dirs", metavar="DIRECTORY", help="likewise for log.dirs")
    return parser


def overrides_of(flags: argparse.Namespace) -> dict[str, str | None]:
    """The settings that the flags give, by name; None for an --override without a value."""
    parts = [text.partition("=") for text in flags.override]
    overrides: dict[str, str | None] = {name.strip(): value for name, equals, value in parts if equals}
    overrides |= {name: None for name, equals, _ in parts if not equals}
    for name in ("listeners", "advertised.listeners", "log.dirs"):
        text = getattr(flags, name.replace(".", "_"))
        if text is not None:
            overrides[name] = text
    return overrides


def client_of(properties: Mapping[str, str]) -> ClientSettings | None:
    """How to connect to the cluster that has the logs; None: this daemon has them. Raises SettingsError."""
    if not properties:
        return None
    from muster.client_properties import ClientPropertiesError, client_settings

    try:
        client = client_settings(properties)
    except ClientPropertiesError as error:
        raise SettingsError([f"settings behind {PREFIX}: {error}"]) from None
    if not client.bootstrap:
        raise SettingsError([f"{BOOTSTRAP} is needed by the other settings behind {PREFIX}"])
    return client


def _has_tls(settings: Settings) -> bool:
    return any(each.protocol.has_tls for each in settings.endpoints) or any(
        http_listener(each).is_tls for each in settings.muster_http_listeners
    )


def _log_ignored_settings(loaded: LoadedSettings) -> None:
    log = structlog.get_logger()
    if loaded.ignored:
        log.warning("settings of Kafka's that mean nothing here are ignored", names=", ".join(loaded.ignored))
    if loaded.foreign_variables:
        log.info("variables that name no setting", names=", ".join(map(cut, loaded.foreign_variables)))


def _run(settings: Settings, backing: ClientSettings | None, started_s: float) -> int:
    serve = _imported(backing)
    loop_factory = _loop_factory()
    _begin_to_collect()
    if loop_factory is not None:  # asyncio's own loop leaves cycles behind, in its transports.
        _leave_full_collections_to_the_daemon()
    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(_serve_until_signalled(serve, settings, backing, started_s))
    except UnusableSettings as error:
        say(error)
        return STATUS_NOT_UNDERSTOOD
    except StartupError as error:
        say(error)
        return STATUS_FAILED
    return 0


def _imported(backing: ClientSettings | None) -> Serve:
    """What serves. After the settings, as a mistake in them is reported sooner, and before collection begins."""
    if backing is None:
        from coordinator.daemon.daemon import serve

        return serve
    from coordinator.daemon.node import serve_node  # With aiokafka: most daemons need none.
    from coordinator.daemon.node_backing import BackingClient

    async def serve_backed(settings: Settings, **how: Any) -> None:
        assert backing.bootstrap is not None
        client = BackingClient(backing.bootstrap, backing.security.for_aiokafka())
        await serve_node(settings, client, **how)

    return serve_backed


def _begin_to_collect() -> None:
    """Turn collection on, which `__main__` has switched off during the imports; what they made is left out of it.

    The first collection would look at all of it, for 25 ms of a start.
    """
    gc.freeze()
    gc.enable()


def _leave_full_collections_to_the_daemon() -> None:
    """Let Python collect garbage among young objects as always, and never among all objects.

    A full collection would hold up the event loop for 240 ms with 20,000 members, at any moment.
    `coordinator.runtime.collector` does it bit by bit.
    """
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _NEVER)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # uvloop has no wheel for every platform; asyncio's loop is slower.
        return None
    return uvloop.new_event_loop


async def _serve_until_signalled(
    serve: Serve, settings: Settings, backing: ClientSettings | None, started_s: float
) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)

    def ready(address: str) -> None:
        took_s = time.monotonic() - started_s
        place = settings.data_directory if backing is None else settings.muster_offsets_topic
        where = "" if backing is None else f" of {backing.bootstrap}"
        print(f"muster: ready on {address} (log in {place}{where}, started in {took_s:.2f} s)", flush=True)

    await serve(settings, ready=ready, stop=stop, explain=_explain)


def _explain(group: Any) -> dict[str, Any]:
    """Why a group rebalanced, in the command line's words, for HTTP; called on a thread.

    They are imported when they are first asked for: it takes 0.3 s.
    """
    from muster.groups.why.by_events import explain

    known = (group.group_id, group.now_ms, group.events)
    return explain(*known, is_whole=group.is_whole, described=group.described, document=group.document)


def stop_on_signals(stop: asyncio.Event) -> None:
    """Set `stop` on SIGTERM or SIGINT; a second signal ends the process at once."""
    loop = asyncio.get_running_loop()

    def on_first_signal() -> None:
        stop.set()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_first_signal)
