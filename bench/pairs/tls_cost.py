"""What TLS costs Muster alone: memory of a connection that is idle, CPU of a small request."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final

from bench.pairs import frames, generator
from bench.pairs.frames import HEARTBEAT
from bench.pairs.plan import Plan
from bench.pairs.rounds import Contender, Section, take_turns
from bench.pairs.secured import CONDITIONS, SecuredRun, connected, login, secured, tls_port, user
from bench.pairs.servers import resident_mb
from bench.pairs.singles import lanes_of
from bench.pairs.steady import GENERATED, close, close_lanes, contender, lines
from bench.pairs.targets import judged
from harness.daemon import MusterDaemon

TRAFFIC_S: Final = 0.05
KIB_OF_A_MB: Final = 1e6 / 1024
AT_A_TIME: Final = 50
"""Clients that connect at once while memory is asked for."""

MEMORY_TABLE: Final = (
    "| server | a plain connection, KiB | through SASL_SSL, KiB | where all logged in at once, KiB |\n"
    "|---|---|---|---|"
)


def memory(plan: Plan) -> list[Section]:
    """Resident memory of connections that are idle, after some heartbeats each."""
    count = plan.sizes["logins"]
    found = {}
    for name, tree in plan.builds.items():
        with secured(plan).muster(name, tree=tree) as daemon:
            user().store(daemon)
            found[name] = _memory(daemon, count)
    rows = [
        f"| {name} | {plain:.1f} | {tls:.1f} | {at_once:.1f} |"
        for name, (plain, tls, at_once) in found.items()
    ]
    target = judged("tls_memory", plan, [tls - plain for plain, tls, _ in found.values()])
    conditions = (
        f"What resident memory grows by for each of {count:,} plain connections, of {count:,} encrypted ones that "
        f"come {AT_A_TIME} at a time, and of {count:,} more that all shake hands at once: what OpenSSL frees then "
        f"is used again, but not given back. All stay open, and have sent some heartbeats. {CONDITIONS}"
    )
    return [Section("TLS: memory of an idle connection", [MEMORY_TABLE, *rows], [target], conditions)]


def _memory(daemon: MusterDaemon, count: int) -> tuple[float, float, float]:
    """KiB of a plain connection, of an encrypted one, and of one of many that came at once.

    Some of both kinds come and go first, for what is made once.
    """
    lanes = lanes_of(daemon, "memory", count, frames.heartbeat, HEARTBEAT)
    few = lanes[:AT_A_TIME]
    with connected(daemon.port, few) as fresh:
        generator.run(fresh, TRAFFIC_S, daemon.pid)
    SecuredRun(daemon)(few, TRAFFIC_S, daemon.pid, 1)
    before = resident_mb(daemon.pid)
    grown = []
    with ExitStack() as stack:
        for port, at_a_time, how in (
            (daemon.port, AT_A_TIME, None),
            (tls_port(daemon), AT_A_TIME, login()),
            (tls_port(daemon), count, login()),
        ):
            for start in range(0, count, at_a_time):
                fresh = stack.enter_context(connected(port, lanes[start : start + at_a_time]))
                generator.run(fresh, TRAFFIC_S, daemon.pid, login=how)
            now = resident_mb(daemon.pid)
            grown.append((now - before) * KIB_OF_A_MB / count)
            before = now
    close_lanes(lanes)
    plain, tls, at_once = grown
    return plain, tls, at_once


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
