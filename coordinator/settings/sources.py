"""Gathers the settings from flags, environment and file, and reports all problems at once.

A source gives a layer of texts by option name, each with its origin; `Settings` parses the texts. Names are
checked in every layer, a value only if no higher layer overrides it. This module knows where values come from,
but not what they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from coordinator.settings import backing, prefixed, providers
from coordinator.settings.kafka_names import IGNORED, RETIRED, is_ignored
from coordinator.settings.kinds import kind_of
from coordinator.settings.model import OPTIONS, Settings, attribute_name, option_name
from coordinator.settings.properties import PropertiesError, Property, read_properties_file
from coordinator.settings.rules import ConflictsError
from coordinator.settings.secrets import HIDDEN, is_secret

ENVIRONMENT_PREFIX: Final = "MUSTER_"
_OWN_PREFIX: Final = "muster."
FLAG: Final = "flag"
"""The origin of what the command line says."""
_FREE: Final = (prefixed.PREFIX, providers.PREFIX, backing.PREFIX)
"""What begins so need not be one of the options."""
_OF_BACKING: Final = "MUSTER_BACKING_"


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
    backing: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The settings of the client of the cluster that has the logs, if it is not this daemon's disk (`backing`)."""


@dataclass(frozen=True, slots=True)
class _SourcedText:
    text: str = field(repr=False)
    origin: str

    def shown(self, name: str) -> str:
        """The text as sentences may show it."""
        return HIDDEN if is_secret(name) else self.text


@dataclass(slots=True)
class _Gathering:
    """The texts of known options by layer, the names without effect, and the problems found so far."""

    layers: list[dict[str, _SourcedText]] = field(default_factory=list)
    ignored: set[str] = field(default_factory=set)
    foreign_variables: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    doubtful: set[str] = field(default_factory=set)  # Options whose text could not be read or is not valid.

    def add_unread(self, name: str, given: _SourcedText, place: prefixed.Place | None) -> None:
        """Take a setting of a single listener that has no effect, unless its name is nearly one that has."""
        if place is not None and not is_ignored(place.option):
            close = _closest(place.option, OPTIONS | IGNORED)
            if close is not None:
                prefix = name.removesuffix(place.option)
                self.problems.append(
                    f"unknown setting {name} ({given.origin}); did you mean {prefix}{close}?"
                )
                return
        self.ignored.add(name)

    def add_layer(self, given: Iterable[tuple[str, _SourcedText]]) -> None:
        layer: dict[str, _SourcedText] = {}
        for name, value in given:
            if name in OPTIONS or name.startswith(_FREE):
                layer[name] = value  # Of a name given twice the later value counts, as in Java.
            elif is_ignored(name):
                self.ignored.add(name)
            else:
                self.problems.append(_unknown_name_problem(name, value.origin))
        self.layers.append(layer)

    def winning(self) -> dict[str, _SourcedText]:
        """Return what is given for each name, from the first layer that has the name."""
        return {name: value for layer in reversed(self.layers) for name, value in layer.items()}

    def refuse(self, name: str, given: _SourcedText, allowed: str) -> None:
        """Report a value that is none; what it must be is said, and it is shown unless it is secret."""
        self.problems.append(f"{name}={given.shown(name)} ({given.origin}) must be {allowed}")
        self.doubtful.add(name)


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
    texts = _resolved(gathering.winning(), environment or {}, gathering)
    settings = _validated(texts, gathering)
    if settings is None or gathering.problems:
        raise SettingsError(gathering.problems)
    ignored, foreign = sorted(gathering.ignored), sorted(gathering.foreign_variables)
    return LoadedSettings(settings, tuple(ignored), tuple(foreign), backing.client_properties(texts))


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
            given.append((name.strip(), _SourcedText(text, FLAG)))
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
        if variable.startswith(_OF_BACKING):  # Names of Kafka's clients have no underscores.
            name = variable.removeprefix(_OF_BACKING).lower().replace("_", ".")
            option = backing.PREFIX + name if backing.is_of_client(name) else None
        if option is not None:
            given.append((option, _SourcedText(text, variable)))
        elif (close := _closest(variable, options)) is not None:
            gathering.problems.append(f"unknown variable {variable}; did you mean {close}?")
        else:
            gathering.foreign_variables.append(variable)
    return given


def _validated(texts: Mapping[str, str], gathering: _Gathering) -> Settings | None:
    """Return the settings; None if something is wrong, which is then added to the problems."""
    winning = gathering.winning()
    own = _own_values(winning, texts, gathering)
    given = {attribute_name(option): text for option, text in texts.items() if option in OPTIONS}
    try:
        return Settings.model_validate(given, context=own)
    except ValidationError as error:
        wrong = {
            str(details["loc"][0]): details for details in error.errors(include_url=False) if details["loc"]
        }
        for attribute, details in wrong.items():
            option = option_name(attribute)
            gathering.refuse(option, winning[option], details["msg"].removeprefix("Value error, "))
    _check_together({name: text for name, text in given.items() if name not in wrong}, own, gathering)
    return None


def _resolved(
    winning: Mapping[str, _SourcedText], environment: Mapping[str, str], gathering: _Gathering
) -> dict[str, str]:
    """Return the texts, with the variables of configuration providers replaced."""
    texts = {name: given.text for name, given in winning.items()}
    try:
        known = providers.Providers(texts, environment)
    except providers.ProviderError as error:
        gathering.problems.append(str(error))
        return texts
    for name, given in winning.items():
        try:
            texts[name] = known.resolved(given.text)
        except providers.ProviderError as error:
            gathering.problems.append(f"{name} ({given.origin}): {error}")
            gathering.doubtful.update({name, prefixed.PREFIX} if name.startswith(prefixed.PREFIX) else {name})
    return texts


def _own_values(
    winning: Mapping[str, _SourcedText], texts: Mapping[str, str], gathering: _Gathering
) -> dict[prefixed.Place, prefixed.OwnValue]:
    """Return the values of single listeners."""
    default = ",".join(Settings.model_fields["listeners"].default)
    listeners = prefixed.listener_names(texts.get("listeners", default))
    own: dict[prefixed.Place, prefixed.OwnValue] = {}
    for name, given in winning.items():
        if not name.startswith(prefixed.PREFIX) or name in gathering.doubtful:
            continue
        place = prefixed.place_of(name, listeners)
        parse = None if place is None else _parser_of(place)
        if place is None or parse is None:
            gathering.add_unread(name, given, place)
            continue
        try:
            own[place] = prefixed.OwnValue(texts[name], parse(texts[name]))
        except ValueError as error:
            gathering.refuse(name, given, str(error))
            gathering.doubtful.add(prefixed.PREFIX)
    return own


def _parser_of(place: prefixed.Place) -> Callable[[object], Any] | None:
    """Return what reads a value of a single listener; None for what has no effect there."""
    if place.option == prefixed.JAAS_OPTION and place.mechanism:
        return prefixed.parse_login_module
    if place.option in OPTIONS:
        parse: Callable[[object], Any] = kind_of(attribute_name(place.option)).parse
        return parse
    return None


def _check_together(
    given: Mapping[str, str], own: Mapping[prefixed.Place, prefixed.OwnValue], gathering: _Gathering
) -> None:
    """Add to the problems the conflicts among `given`, which are valid by themselves; skip doubtful options."""
    try:
        Settings.model_validate(given, context=own)
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
    from coordinator.settings.shown_names import may_be_shown  # Needed only for mistakes.

    known = OPTIONS | IGNORED | RETIRED
    close = _closest(name, known)
    if origin != FLAG and not may_be_shown(name, known):
        return f"{origin} has no setting that Kafka or Muster knows: is it a part of the line before?"
    hint = f"; did you mean {close}?" if close else ": neither Kafka nor Muster has it"
    return f"unknown setting {name} ({origin}){hint}"


def _closest(name: str, names: Iterable[str]) -> str | None:
    from coordinator.settings.shown_names import closest  # Needed only for mistakes.

    return closest(name, names)
