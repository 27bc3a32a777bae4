"""Runs a command of `muster groups`: a failure is a sentence on standard error, and a status."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Annotated, Final, TypeAlias, TypeVar

from cyclopts import Parameter

from muster.cluster import ClusterError
from muster.observe.store import StoreError
from muster.sentences import say
from muster.usage import STATUS_FAILED, STATUS_NOT_UNDERSTOOD, UsageError

AsJson: TypeAlias = Annotated[bool, Parameter(name="--json", negative="", help="print JSON")]

MAX_ASKED_AT_ONCE: Final = 16
"""Groups that are asked about at a time: each has some requests under way, and a broker other clients."""

STATUS_INTERRUPTED: Final = 128 + 2  # As a shell shows a program that SIGINT, signal 2, ended.

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


def run(command: Coroutine[None, None, int], as_json: bool = False) -> int:
    """Run a command and return its exit status; a failure is a sentence on standard error, or JSON with it."""
    try:
        return asyncio.run(command)
    except UsageError as error:
        say(error, as_json)
        return STATUS_NOT_UNDERSTOOD
    except (ClusterError, StoreError) as error:
        say(error, as_json)
        return STATUS_FAILED
    except KeyboardInterrupt:
        return STATUS_INTERRUPTED


async def each(
    ask: Callable[[Asked], Awaitable[Answer]], of: Iterable[Asked], at_once: int = MAX_ASKED_AT_ONCE
) -> list[Answer]:
    """What `ask` returns of each, in order, some asked side by side. Raises what the first that fails raises."""
    room = asyncio.Semaphore(at_once)

    async def one(asked: Asked) -> Answer:
        async with room:
            return await ask(asked)

    return await asyncio.gather(*map(one, of))
