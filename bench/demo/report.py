"""How the demo looks: progress bars while it runs, and tables at its end. It finds nothing out itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from bench.demo.group import GroupRun
from coordinator.history.rebalances import Rebalance


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the outcome: what was found, and what it had to be (None where anything will do)."""

    what: str
    found: object
    expected: object = None
    note: str = ""

    @property
    def holds(self) -> bool:
        return self.expected is None or self.found == self.expected


def bars(console: Console) -> Progress:
    """Progress bars in the demo's one style; a task's `note` is shown behind its bar."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.completed:,.0f}", justify="right"),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[note]}"),
        console=console,
    )


class GroupBars:
    """A bar for the whole topic, and one for each member."""

    def __init__(self, progress: Progress, run: GroupRun) -> None:
        self._progress = progress
        self._run = run
        self._all = progress.add_task("distinct rows", total=run.rows, note="")
        self._of: dict[str, TaskID] = {}

    def update(self) -> None:
        """Show how things stand."""
        self._progress.update(self._all, completed=self._run.distinct, note=f"{self._twice()} seen twice")
        for member in self._run.members:
            if member.name not in self._of:
                self._of[member.name] = self._progress.add_task(member.name, total=self._run.rows, note="")
            where = " ".join(map(str, member.partitions))
            note = f"{member.state} {where}" if member.state == "reading" else member.state
            self._progress.update(self._of[member.name], completed=len(member.flights), note=note)

    def _twice(self) -> str:
        return f"{self._run.times_read.total() - self._run.distinct:,}"


def outcome_table(title: str, checks: Iterable[Check]) -> Table:
    """One row for each check."""
    table = Table(title=title, title_justify="left", title_style="bold", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column()
    for check in checks:
        mark = "" if check.expected is None else "[green]✓[/]" if check.holds else "[red]✗[/]"
        wanted = "" if check.holds else f"[red]expected {_text(check.expected)}[/] "
        table.add_row(check.what, _text(check.found), f"{mark} {wanted}[dim]{check.note}[/]".strip())
    return table


def rebalance_table(found: Iterable[Rebalance]) -> Table:
    """One row for each rebalance, with its cause and how long both of its phases took."""
    table = Table(title="Rebalances, from the topic __group_events", title_justify="left", title_style="bold")
    for column in ("generation", "cause", "by"):
        table.add_column(column, no_wrap=True)
    for column in ("members", "joining", "assigning"):
        table.add_column(column, justify="right", no_wrap=True)
    for rebalance in found:
        table.add_row(
            _text(rebalance.generation_id),
            rebalance.reason,
            rebalance.client_id or "",
            _text(rebalance.member_count),
            f"{rebalance.join_ms:,} ms",
            f"{rebalance.sync_ms:,} ms",
        )
    return table


def _text(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else str(value)
