"""A progress bar on standard error if that is a terminal; otherwise nothing is shown."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

Advance: TypeAlias = Callable[[int], None]
"""Called with the amount done since the last call, in the unit of the total."""

_EVERY_S: Final = 0.1


@contextmanager
def progress(what: str, total: int, *, is_bytes: bool = True) -> Iterator[Advance]:
    """Show a progress bar while the block runs; the block calls the yielded function to advance it."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    amount = DownloadColumn() if is_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn())
    with Progress(
        *columns, console=Console(stderr=True), transient=True, refresh_per_second=1 / _EVERY_S
    ) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.advance(task, done)
