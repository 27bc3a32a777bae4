"""Gathers the settings from flags, environment and file, and reports all problems at once.

A source gives a layer of texts by option name, each with its origin; `Settings` parses the texts. Names are
checked in every layer, a value only if no higher layer overrides it. This module knows where values come from,
but not what they mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from coordinator.settings.kafka_names import IGNORED, RETIRED, is_ignored
from coordinator.settings.model import OPTIONS, Settings, attribute_name, option_name
from coordinator.settings.properties import PropertiesError, Property, read_properties_file
from coordinator.settings.rules import ConflictsError

ENVIRONMENT_PREFIX: Final = "MUSTER_"
_OWN_PREFIX: Final = "muster."
_CLOSE_ENOUGH: Final = 0.8  # difflib's ratio: one or two letters wrong in a name of this length.


class SettingsError(Exception):
    """Raised if the daemon must not start with these settings; `problems` holds a sentence for each reason."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Checked settings, and the names that were given but have no effect."""

    settings: Settings
    ignored: tuple[str, ...] = ()  # Kafka's options without an effect here.
    foreign_variables: tuple[str, ...] = ()  # MUSTER_... variables whose names resemble no setting.


@dataclass(frozen=True, slots=True)
class _SourcedText:
    text: str
    origin: str


@dataclass(slots=True)
class _Gathering:
    """The texts of known options by layer, the names without effect, and the problems found so far."""

    layers: list[dict[str, _SourcedText]] = field(default_factory=list)
    ignored: set[str] = field(default_factory=set)
    foreign_variables: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    doubtful: set[str] = field(default_factory=set)  # Options whose text could not be read or is not valid.

    def add_layer(self, given: Iterable[tuple[str, _SourcedText]]) -> None:
        layer: dict[str, _SourcedText] = {}
        for name, value in given:
            if name in OPTIONS:
                layer[name] = value  # Of a name given twice the later value counts, as in Java.
            elif is_ignored(name):
                self.ignored.add(name)
            else:
                self.problems.append(_unknown_name_problem(name, value.origin))
        self.layers.append(layer)

    def winning(self) -> dict[str, str]:
        """Return the text of each given option, from the first layer that has the option."""
        return {option: value.text for layer in reversed(self.layers) for option, value in layer.items()}

    def origin_of(self, option: str) -> str:
        return next((layer[option].origin for layer in self.layers if option in layer), "default")


def load(
    overrides: Mapping[str, str | None] | None = None,
    environment: Mapping[str, str] | None = None,
    config: Path | None = None,
) -> LoadedSettings:
    """Return the settings, each from the first of `overrides` (flags), `environment`, the file `config`, defaults.

    Raises SettingsError with everything that is wrong: flags without a value (None), malformed escapes, unknown
    names, mistyped and out-of-range values, and settings that do not fit together.
    """
    gathering = _Gathering()
    gathering.add_layer(_from_flags(overrides or {}, gathering))
    gathering.add_layer(_from_environment(environment or {}, gathering))
    if config is not None:
        gathering.add_layer(_from_file(config, gathering))
    settings = _validated(gathering)
    if settings is None or gathering.problems:
        raise SettingsError(gathering.problems)
    return LoadedSettings(
        settings, tuple(sorted(gathering.ignored)), tuple(sorted(gathering.foreign_variables))
    )


def environment_variable(option: str) -> str:
    """Return the name of the variable that sets `option`: `muster.flush.policy` is MUSTER_FLUSH_POLICY."""
    return ENVIRONMENT_PREFIX + option.removeprefix(_OWN_PREFIX).upper().replace(".", "_")


def _from_flags(overrides: Mapping[str, str | None], gathering: _Gathering) -> list[tuple[str, _SourcedText]]:
    given = []
    for name, text in overrides.items():
        if text is None:
            gathering.problems.append(f"--override {name} must be NAME=VALUE")
            gathering.doubtful.add(name.strip())
        else:
            given.append((name.strip(), _SourcedText(text, "flag")))
    return given


def _from_file(path: Path, gathering: _Gathering) -> list[tuple[str, _SourcedText]]:
    entries: Sequence[Property]
    try:
        entries = read_properties_file(path)
    except PropertiesError as error:
        gathering.problems += error.problems
        unread = OPTIONS if error.unread is None else error.unread
        gathering.doubtful.update(unread - gathering.winning().keys())
        entries = error.entries
    return [(entry.name, _SourcedText(entry.value, f"{path.name}:{entry.line}")) for entry in entries]


def _from_environment(
    environment: Mapping[str, str], gathering: _Gathering
) -> list[tuple[str, _SourcedText]]:
    """Return the texts of variables that name an option, or nearly do, by option.

    Variables that resemble no option are not refused: platforms set such variables unasked (Kubernetes, for
    a service named muster, sets MUSTER_SERVICE_HOST and MUSTER_PORT_9092_TCP). The log names them.
    """
    options = {environment_variable(name): name for name in sorted(OPTIONS | IGNORED | RETIRED)}
    given = []
    for variable, text in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        option = options.get(variable)
        if option is not None:
            given.append((option, _SourcedText(text, variable)))
        elif (close := _closest(variable, options)) is not None:
            gathering.problems.append(f"unknown variable {variable}; did you mean {close}?")
        else:
            gathering.foreign_variables.append(variable)
    return given


def _validated(gathering: _Gathering) -> Settings | None:
    """Return the settings; None if something is wrong, which is then added to the problems."""
    given = {attribute_name(option): text for option, text in gathering.winning().items()}
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        wrong = {
            str(details["loc"][0]): details for details in error.errors(include_url=False) if details["loc"]
        }
        for attribute, details in wrong.items():
            option = option_name(attribute)
            allowed = details["msg"].removeprefix("Value error, ")
            gathering.problems.append(
                f"{option}={details['input']} ({gathering.origin_of(option)}) must be {allowed}"
            )
            gathering.doubtful.add(option)
    _check_together({name: text for name, text in given.items() if name not in wrong}, gathering)
    return None


def _check_together(given: Mapping[str, str], gathering: _Gathering) -> None:
    """Add to the problems the conflicts among `given`, which are valid by themselves; skip doubtful options."""
    try:
        Settings.model_validate(given)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            conflicts = details["ctx"]["error"]
            assert isinstance(conflicts, ConflictsError)
            gathering.problems += [
                conflict.sentence
                for conflict in conflicts.conflicts
                if gathering.doubtful.isdisjoint(conflict.options)
            ]


def _unknown_name_problem(name: str, origin: str) -> str:
    close = _closest(name, OPTIONS | IGNORED | RETIRED)
    hint = f"; did you mean {close}?" if close else ": neither Kafka nor Muster has it"
    return f"unknown setting {name} ({origin}){hint}"


def _closest(name: str, names: Iterable[str]) -> str | None:
    import difflib  # Needed only for mistakes.

    return next(iter(difflib.get_close_matches(name, sorted(names), n=1, cutoff=_CLOSE_ENOUGH)), None)
