"""The scenarios by name: which lines of docs/kafka.md each shows, in which versions, and on which broker.

`@scenario("3.19", versions=JOIN)` above an `async def name(run, version)` is all there is to adding one.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tests.conformance.run import Run

Script = Callable[..., Awaitable[None]]

SCENARIOS: Final[list[Scenario]] = []


class Ending(StrEnum):
    """How a broker's life ends before it is started again."""

    TERM = "SIGTERM"
    KILL = "SIGKILL"


BOTH: Final = tuple(Ending)


@dataclass(frozen=True, slots=True)
class Case:
    """One scenario in one version, with one choice of what it is tried with, and one way to end the broker."""

    scenario: Scenario
    version: int | None
    choice: Any
    ending: Ending | None = None

    @property
    def name(self) -> str:
        """Unique among all cases, and fit for a group id."""
        return "/".join(part for part in (self.scenario.name, self.variant) if part)

    @property
    def lines(self) -> tuple[str, ...]:
        """What this case shows: "{choice}" in the scenario's lines stands for its own."""
        return tuple(line.replace("{choice}", str(self.choice)) for line in self.scenario.lines)

    @property
    def variant(self) -> str:
        """The choice, the ending and the version, where the scenario has them."""
        parts = [str(each) for each in (self.choice, self.ending) if each is not None]
        if self.version is not None:
            parts.append(f"v{self.version}")
        return "/".join(parts)

    async def play(self, run: Run) -> None:
        arguments = [given for given in (self.version, self.choice) if given is not None]
        await self.scenario.script(run, *arguments)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A script and what it is about. `on` names a broker configuration of `targets`."""

    script: Script
    lines: tuple[str, ...]
    versions: tuple[int, ...]
    choices: tuple[Any, ...]
    on: str
    restarts: tuple[Ending, ...]
    in_turn: str | None
    thin: bool

    @property
    def name(self) -> str:
        return self.script.__name__

    def cases(self) -> list[Case]:
        """Every version with every choice and ending; a second ending in the newest version alone.

        What a broker's end leaves behind does not depend on the version that clients spoke. A `thin` scenario has
        its first choice in every version, and the others in the oldest and the newest.
        """
        return [
            Case(self, version, choice, ending)
            for number, ending in enumerate(self.restarts or (None,))
            for index, choice in enumerate(self.choices or (None,))
            for version in self._versions_of(is_first_choice=not index, is_first_ending=not number) or (None,)
        ]

    def _versions_of(self, *, is_first_choice: bool, is_first_ending: bool) -> tuple[int, ...]:
        if not is_first_ending:
            return self.versions[-1:]
        if is_first_choice or not self.thin:
            return self.versions
        return tuple(dict.fromkeys((*self.versions[:1], *self.versions[-1:])))


def scenario(
    *lines: str,
    versions: Iterable[int] = (),
    choices: Iterable[Any] = (),
    on: str = "plain",
    restarts: Iterable[Ending] = (),
    in_turn: str | None = None,
    thin: bool = False,
) -> Callable[[Script], Script]:
    """Enter a script: it is called with a `Run`, then with a version and a choice where there are any.

    Cases of one word `in_turn` are never played side by side: Kafka's answers to one depend on the others.
    `thin` is for choices that have nothing to do with versions.
    """

    def enter(script: Script) -> Script:
        assert lines, f"{script.__name__} names no line of docs/kafka.md"
        given = (tuple(versions), tuple(choices), on, tuple(restarts), in_turn, thin)
        SCENARIOS.append(Scenario(script, lines, *given))
        return script

    return enter


def all_scenarios() -> list[Scenario]:
    """Every scenario there is, in the order of modules and of lines in them."""
    from tests.conformance import scenarios

    for module in sorted(info.name for info in pkgutil.iter_modules(scenarios.__path__)):
        importlib.import_module(f"{scenarios.__name__}.{module}")
    names = [each.name for each in SCENARIOS]
    twice = {name for name in names if names.count(name) > 1}
    assert not twice, f"scenarios with one name: {twice}"
    return SCENARIOS


def is_about(line: str, wanted: str) -> bool:
    """Whether `wanted` names `line` or a part of the file it stands in: "2.2" is all of "2.2 Join: ..."."""
    return line == wanted or line.startswith((f"{wanted} ", f"{wanted}.", f"{wanted}:", f"{wanted}/"))
