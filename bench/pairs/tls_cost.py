"""What TLS costs Muster alone: memory of a connection that is idle, CPU of a small request."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

from bench.pairs import frames, generator
from bench.pairs.frames import HEARTBEAT
from bench.pairs.lanes import Lane
from bench.pairs.plan import Plan
from bench.pairs.rounds import Contender, Section, take_turns
from bench.pairs.secured import CONDITIONS, SecuredRun, encrypted, login, secured, user
from bench.pairs.servers import resident_mb
from bench.pairs.singles import lanes_of
from bench.pairs.steady import GENERATED, close, contender, lines
from bench.pairs.targets import judged
from harness.daemon import MusterDaemon

TRAFFIC_S: Final = 0.5
KIB_OF_A_MB: Final = 1e6 / 1024
MEMORY_TABLE: Final = "| server | a plain connection, KiB | through SASL_SSL, KiB |\n|---|---|---|"


def memory(plan: Plan) -> list[Section]:
    """Resident memory of connections that are idle, after some heartbeats each."""
    count = plan.sizes["logins"]
    found = {}
    for name, tree in plan.builds.items():
        with secured(plan).muster(name, tree=tree) as daemon:
            user().store(daemon)
            found[name] = _memory(daemon, count)
    rows = [f"| {name} | {plain:.1f} | {encrypted:.1f} |" for name, (plain, encrypted) in found.items()]
    target = judged("tls_memory", plan, [encrypted - plain for plain, encrypted in found.values()])
    conditions = (
        f"What resident memory grows by, for each of {count:,} plain connections and then of {count:,} encrypted "
        f"ones, all of which are still open and have been under load for {TRAFFIC_S:g} s. {CONDITIONS}"
    )
    return [Section("TLS: memory of an idle connection", [MEMORY_TABLE, *rows], [target], conditions)]


def _memory(daemon: MusterDaemon, count: int) -> tuple[float, float]:
    """KiB of a plain connection and of an encrypted one. Some of both come and go first, for what is made once."""
    few = lanes_of(daemon, "first", max(1, count // 10), frames.heartbeat, HEARTBEAT)
    generator.run(few, TRAFFIC_S, daemon.pid)
    SecuredRun(daemon)(few, TRAFFIC_S, daemon.pid, 1)
    empty = resident_mb(daemon.pid)
    plain = lanes_of(daemon, "plain", count, frames.heartbeat, HEARTBEAT)
    generator.run(plain, TRAFFIC_S, daemon.pid)
    with_plain = resident_mb(daemon.pid)
    with encrypted(daemon, plain) as fresh:
        generator.run(fresh, TRAFFIC_S, daemon.pid, login=login())
        with_both = resident_mb(daemon.pid)
    _close(few)
    _close(plain)
    each = KIB_OF_A_MB / count
    return (with_plain - empty) * each, (with_both - with_plain) * each


def _close(lanes: Sequence[Lane]) -> None:
    for lane in lanes:
        lane.socket.close()


def request(plan: Plan) -> list[Section]:
    """CPU of a heartbeat through SASL_SSL beside one on a plain listener of the same daemon."""
    with ExitStack() as stack:
        pairs = []
        for name, tree in plan.builds.items():
            daemon = stack.enter_context(secured(plan).muster(name, tree=tree))
            user().store(daemon)
            lanes = lanes_of(daemon, "cost", plan.connections, frames.heartbeat, HEARTBEAT)
            plain = contender(f"{name}, plain", daemon, lanes)
            pairs.append((plain, Contender(f"{name}, SASL_SSL", daemon, lanes, SecuredRun(daemon))))
        contenders = [each for pair in pairs for each in pair]
        take_turns(contenders, plan.rounds, plan.seconds, 1, plan.warm_s)
        close(contenders)
    target = judged("tls_request", plan, [tls.cpu_us - plain.cpu_us for plain, tls in pairs])
    conditions = (
        f"Heartbeats on {plan.connections:,} connections, 1 in flight: {plan.rounds} rounds of {plan.seconds:g} s "
        f"in turns, after a second of each; the difference of the medians. {GENERATED} {CONDITIONS}"
    )
    return [Section("TLS: CPU of a small request", lines(contenders), [target], conditions)]
