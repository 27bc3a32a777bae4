"""`muster observe`: what users type, the signals that end it, and where its events go."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import App, Parameter

from muster.cluster import Cluster, ClusterError
from muster.connection import Endpoint
from muster.groups.history import read_topic
from muster.observe.follow import TOPIC, Follower, Log, Progress, Sink, find_log, wait_for_log
from muster.observe.sinks import PrintSink, Reported, SeveralSinks, StoreSink, TopicSink, make_topic
from muster.observe.store import TOTAL_BYTES, Store, StoreError
from muster.sentences import counted, remark, say
from muster.usage import STATUS_FAILED, STATUS_NOT_UNDERSTOOD, UsageError

app = App(name="observe")
app.command(
    "muster.observe.export_command:export",
    name="export",
    help="Write the events of a store to a topic, where the Spark jobs read them.",
)

_MIB: Final = 1 << 20
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The options that say where events go; without any of them they are printed."""

    store: Annotated[Path | None, Parameter(help="keep the events, and how far was read, in DIR")] = None
    store_mib: Annotated[int, Parameter(help="the size of the store; its oldest events go")] = (
        TOTAL_BYTES // _MIB
    )
    to_topic: Annotated[
        bool, Parameter(negative="", help="write the events to __group_events of that cluster")
    ] = False
    as_json: Annotated[bool, Parameter(name="--json", negative="", help="print the events as JSON lines")] = (
        False
    )


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The options that say what is read."""

    begin: Annotated[
        Literal["earliest", "latest"],
        Parameter(name="--from", help="report all that is on the log, or what comes from now on"),
    ] = "earliest"
    until_end: Annotated[
        bool, Parameter(negative="", help="stop at the end that the log has now, instead of following it")
    ] = False


@app.default
def observe(
    *,
    endpoint: Endpoint = Endpoint(),
    output: Output = Output(),
    extent: Extent = Extent(),
) -> int:
    """Keep the history of the groups of an existing Kafka, read only, until it is stopped.

    It reads __consumer_offsets, joins no group and commits nothing. Causes that are only inferred say so.
    """
    try:
        if output.store_mib < 1:
            raise UsageError(f"--store-mib {output.store_mib} must be at least 1")
        return asyncio.run(_observe(endpoint, output, extent))
    except UsageError as error:
        say(error)
        return STATUS_NOT_UNDERSTOOD
    except (ClusterError, StoreError) as error:
        say(error)
        return STATUS_FAILED


async def _observe(endpoint: Endpoint, output: Output, extent: Extent) -> int:
    stop = _stop_on_signals()
    async with endpoint.connected() as cluster:
        log = await _log(cluster, stop, until_end=extent.until_end)
        if log is None:
            return 0
        async with _opened(cluster, log, output) as (sink, progress):
            follower = Follower(log, progress, sink)
            from_latest = extent.begin == "latest" and not progress.positions
            await follower.run(cluster, stop, from_latest=from_latest, until_end=extent.until_end)
    _say_what_is_missing(progress)
    return 0


async def _log(cluster: Cluster, stop: asyncio.Event, *, until_end: bool) -> Log | None:
    """The log to follow, waited for; None if there is none, and none is to be waited for any more."""
    log = await find_log(cluster)
    if log is not None:
        return log
    if until_end:
        remark(f"this cluster has no topic {TOPIC}: it has had no group yet")
        return None
    remark(f"this cluster has no topic {TOPIC} yet: waiting for its first group")
    return await wait_for_log(cluster, stop)


@asynccontextmanager
async def _opened(cluster: Cluster, log: Log, output: Output) -> AsyncIterator[tuple[Sink, Progress]]:
    """The sink that was asked for, and the progress that it goes on from."""
    sinks: list[Sink] = []
    progress = Progress()
    async with AsyncExitStack() as stack:
        if output.as_json or (output.store is None and not output.to_topic):
            sinks.append(PrintSink(as_json=output.as_json))
        if output.to_topic:
            await make_topic(cluster)
            if output.store is None:
                progress = await _progress_of_topic(cluster)
            sinks.append(TopicSink(await stack.enter_async_context(cluster.writer())))
        if output.store is not None:  # The last: its checkpoint says that the others have it.
            store = Store(output.store, log.source, total_bytes=output.store_mib * _MIB)
            stack.callback(store.close)
            sinks.append(StoreSink(store))
            if store.state is not None:
                progress = Progress.load(store.state)
        yield SeveralSinks(sinks), progress


async def _progress_of_topic(cluster: Cluster) -> Progress:
    """Where the topic's events end. The log is read from its start all the same, as what comes is compared."""
    reported = Reported()
    await read_topic(cluster, reported.add)
    return Progress(reported_from=reported.offsets, reported_there=reported.counts)


def _stop_on_signals() -> asyncio.Event:
    """An event that SIGINT or SIGTERM sets; a second one ends the process at once."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def on_first_signal() -> None:
        stop.set()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_first_signal)
    return stop


def _say_what_is_missing(progress: Progress) -> None:
    fold = progress.fold
    if fold.unreadable:
        remark(f"{counted(fold.unreadable, 'record')} could not be decoded")
    if fold.forgotten:
        remark(f"{counted(fold.forgotten, 'group')} heard of longest ago had to be forgotten")
