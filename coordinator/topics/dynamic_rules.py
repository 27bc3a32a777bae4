"""Rules for a change of the daemon's settings, beside each value's range: which values fit together, which steps.

They are checked when settings are changed, not when they are read at a start. Knows no requests and no files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from coordinator.topics.broker_options import BROKER_OPTIONS
from coordinator.topics.config_values import InvalidConfig
from coordinator.topics.dynamic_kinds import INTERVALS, THREAD_COUNTS
from coordinator.topics.listener_kinds import LIMITS, option_of

MIN_BYTES_PER_CLEANER = 1 << 20

NO_CONNECTIONS: Final = (
    "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set."
)
EVERY_DIRECTORY: Final = "*"

Lookup = Callable[[str], str | None]
"""Returns the text of the current value of a setting, by name; None if it has no value."""


def check_step(changed: Mapping[str, str], before: Lookup, after: Lookup, log_directory: str) -> None:
    """Raise InvalidConfig, in Kafka's words, if the settings in `changed` may not get these values.

    `before` and `after` return the settings without and with the change.
    """
    for check in (
        _requirement_problems(changed, after, log_directory),
        _interval_problems(changed, after),
        _step_problems(changed, before),
        _local_retention_problems(changed, after),
    ):
        if problem := next(check, None):
            raise InvalidConfig(problem)


def _requirement_problems(changed: Mapping[str, str], after: Lookup, log_directory: str) -> Iterator[str]:
    if "log.cleaner.threads" in changed or "log.cleaner.dedupe.buffer.size" in changed:
        threads = _number(after("log.cleaner.threads"))
        if threads == 0:
            yield "/ by zero"
        elif _number(after("log.cleaner.dedupe.buffer.size")) // threads <= MIN_BYTES_PER_CLEANER:
            yield "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."
    if _number(after("max.connections.per.ip")) == 0 and not after("max.connections.per.ip.overrides"):
        yield f"requirement failed: {NO_CONNECTIONS}"
    cordoned = [part.strip() for part in changed.get("cordoned.log.dirs", "").split(",") if part.strip()]
    for problem in cordon_problems(cordoned, log_directory):
        yield f"requirement failed: {problem}"


def cordon_problems(cordoned: Sequence[str], log_directory: str) -> Iterator[str]:
    """Yield the problems of the entries of `cordoned.log.dirs`; `log_directory` is the only log directory."""
    if EVERY_DIRECTORY in cordoned:
        if len(cordoned) > 1:
            yield "When cordoned.log.dirs is set to *, it must not contain other values"
    elif missing := [entry for entry in cordoned if entry != log_directory]:
        yield (
            "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
            f"Missing entries : {', '.join(missing)}"
        )


def _interval_problems(changed: Mapping[str, str], after: Lookup) -> Iterator[str]:
    for name in INTERVALS:
        if name not in changed:
            continue
        lowest, highest = (name.replace(".assignment", f".{end}.assignment") for end in ("min", "max"))
        if int(changed[name]) < _number(after(lowest)):
            yield f"{name} must be greater than or equal to {lowest}"
        if int(changed[name]) > _number(after(highest)):
            yield f"{name} must be less than or equal to {highest}"


def _step_problems(changed: Mapping[str, str], before: Lookup) -> Iterator[str]:
    """Yield the problems of thread counts that change too much at once, and of limits that admit no client."""
    for name in sorted(THREAD_COUNTS & changed.keys()):
        new, old = int(changed[name]), _number(before(name))
        problem = f"Dynamic thread count update validation failed for {name}={new}, value should "
        if new < old // 2:
            yield _refusal_text(f"{problem}be at least half the current value {old}")
        if new > old * 2:
            yield _refusal_text(f"{problem}not be greater than double the current value {old}")
    if "log.cleaner.threads" in changed:
        new, old = int(changed["log.cleaner.threads"]), _number(before("log.cleaner.threads"))
        problem = "Log cleaner threads cannot be "
        if new < old // 2:
            yield _refusal_text(f"{problem}reduced to less than half the current value {old}")
        if new > old * 2:
            yield _refusal_text(f"{problem}increased to more than double the current value {old}")
    for name in sorted(changed):  # Of the daemon, or of one listener (Q21).
        if (option := option_of(name)) in LIMITS and int(changed[name]) <= 0:
            yield _refusal_text(f"Invalid {option} {int(changed[name])}")


def _local_retention_problems(changed: Mapping[str, str], after: Lookup) -> Iterator[str]:
    """Yield the problems of local retention, which must not exceed retention; -2 stands for the same."""
    hours_ms = _number(BROKER_OPTIONS["log.retention.hours"].default) * 3_600_000
    for unit, default in (("ms", hours_ms), ("bytes", -1)):
        name, whole_name = f"log.local.retention.{unit}", f"log.retention.{unit}"
        if not {name, whole_name} & changed.keys():
            continue
        local, kept = _number(after(name)), _number(after(whole_name), default)
        if kept < 0 or local == -2:
            continue
        if local == -1:
            words = f"Value must not be -1 as {whole_name} value is set as {kept}."
            yield _refusal_text(f"Invalid value {local} for configuration {name}: {words}")
        if local > kept:
            words = f"Value must not be more than {whole_name} property value: {kept}"
            yield _refusal_text(f"Invalid value {local} for configuration {name}: {words}")


def _number(text: str | None, default: int = 0) -> int:
    return default if text is None else int(text)


def _refusal_text(problem: str) -> str:
    return (
        f"Invalid value org.apache.kafka.common.config.ConfigException: {problem} "
        "for configuration Invalid dynamic configuration"
    )
