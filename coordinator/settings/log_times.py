"""Times of topics' logs that several options give, each in a unit of its own: the one in force."""

from __future__ import annotations

from typing import Final, Protocol

MS_PER_MINUTE: Final = 60_000
MS_PER_HOUR: Final = 3_600_000


class LogTimeOptions(Protocol):
    """The options, as `Settings` has them."""

    @property
    def log_retention_ms(self) -> int | None: ...
    @property
    def log_retention_minutes(self) -> int | None: ...
    @property
    def log_retention_hours(self) -> int: ...
    @property
    def log_flush_interval_ms(self) -> int | None: ...
    @property
    def log_flush_scheduler_interval_ms(self) -> int: ...
    @property
    def log_roll_ms(self) -> int | None: ...
    @property
    def log_roll_hours(self) -> int: ...
    @property
    def log_roll_jitter_ms(self) -> int | None: ...
    @property
    def log_roll_jitter_hours(self) -> int: ...


class LogTimes:
    """The times in force. It has no annotated attributes: `Settings` would take them for options."""

    @property
    def retention_ms(self: LogTimeOptions) -> int:
        """How long topics keep records, from the option with the finest unit that was given; -1: for ever."""
        if self.log_retention_ms is not None:
            return self.log_retention_ms
        if self.log_retention_minutes is not None:
            return _scaled(self.log_retention_minutes, MS_PER_MINUTE)
        return _scaled(self.log_retention_hours, MS_PER_HOUR)

    @property
    def flush_interval_ms(self: LogTimeOptions) -> int:
        """The longest time between syncs of a topic's log; the scheduler's interval if none is given."""
        given = self.log_flush_interval_ms
        return self.log_flush_scheduler_interval_ms if given is None else given

    @property
    def roll_ms(self: LogTimeOptions) -> int:
        """The age at which a segment is closed, from the option with the finest unit that was given."""
        return self.log_roll_hours * MS_PER_HOUR if self.log_roll_ms is None else self.log_roll_ms

    @property
    def roll_jitter_ms(self: LogTimeOptions) -> int:
        """The most by which a segment is closed before that age, from the option with the finest unit given."""
        given = self.log_roll_jitter_ms
        return self.log_roll_jitter_hours * MS_PER_HOUR if given is None else given


def _scaled(amount: int, unit_ms: int) -> int:
    return amount if amount < 0 else amount * unit_ms
