"""Configuration providers: `${env:NAME}` and `${file:path:key}` in the value of a setting (KIP-297, KIP-421, S16).

They keep secrets out of a file that many read. A provider is there if `config.providers` names it and
`config.providers.<name>.class` says, with Kafka's class names, which of three it is: the environment, a properties
file, or a directory whose files are values. What cannot be found is a problem, where Kafka leaves the text as it
is: no user is to have "${env:PASSWORD}" for a password.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from coordinator.security.regular_file import can_be_named, read_regular
from coordinator.settings.properties import MAX_FILE_BYTES, PropertiesError, properties_in

NAMES_OPTION: Final = "config.providers"
PREFIX: Final = "config.providers."
_PACKAGE: Final = "org.apache.kafka.common.config.provider."
CLASSES: Final = {
    f"{_PACKAGE}EnvVarConfigProvider": "env",
    f"{_PACKAGE}FileConfigProvider": "file",
    f"{_PACKAGE}DirectoryConfigProvider": "dir",
}
_ALLOWED_NAMES: Final = "param.allowlist.pattern"
_ALLOWED_PATHS: Final = "param.allowed.paths"
_VARIABLE: Final = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
_USUAL_NAMES: Final = frozenset(CLASSES.values())


class ProviderError(ValueError):
    """Raised for a variable that cannot be replaced, and for a provider that cannot be had; one sentence."""


Lookup: TypeAlias = Callable[[str, str], str]
"""Returns the value of a path, which may be blank, and a key. Raises ProviderError."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The variables of the process, those whose whole names match `allowed` if it is given."""

    variables: Mapping[str, str]
    allowed: re.Pattern[str] | None

    def __call__(self, path: str, key: str) -> str:
        if path:
            raise ProviderError(f"a variable of the environment has no path, as {path} is one")
        if key not in self.variables or (self.allowed is not None and not self.allowed.fullmatch(key)):
            raise ProviderError(f"the environment has no variable {key} that may be used")
        return self.variables[key]


@dataclass(frozen=True, slots=True)
class PropertiesFiles:
    """Properties files, those under `allowed` if that names paths."""

    allowed: tuple[Path, ...]

    def __call__(self, path: str, key: str) -> str:
        file = _allowed_path(path, self.allowed)
        try:
            entries = properties_in(read_regular(file, MAX_FILE_BYTES), file)
        except OSError as error:
            raise ProviderError(f"cannot read {file}: {error.strerror or error}") from None
        except PropertiesError as error:
            raise ProviderError("; ".join(error.problems)) from None
        values = [entry.value for entry in entries if entry.name == key]
        if not values:
            raise ProviderError(f"{path} has no entry {key}")
        return values[-1]


@dataclass(frozen=True, slots=True)
class Directories:
    """Directories of files, each of which is one value, as container platforms make them of secrets."""

    allowed: tuple[Path, ...]

    def __call__(self, path: str, key: str) -> str:
        file = _allowed_path(path, self.allowed) / key
        if key != file.name or not key:
            raise ProviderError(f"{key} is no name of a file")
        try:
            return read_regular(file, MAX_FILE_BYTES).decode()
        except OSError as error:
            raise ProviderError(f"cannot read {file}: {error.strerror or error}") from None
        except UnicodeDecodeError:
            raise ProviderError(f"{file} is not in UTF-8") from None


class Providers:
    """The providers that the settings name."""

    def __init__(self, texts: Mapping[str, str], environment: Mapping[str, str]) -> None:
        """`texts` are all settings as given. Raises ProviderError."""
        names = [name.strip() for name in texts.get(NAMES_OPTION, "").split(",") if name.strip()]
        self._lookups = {name: _lookup(name, texts, environment) for name in names}

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, as variables have them."""
        return tuple(self._lookups)

    def resolved(self, text: str) -> str:
        """Return `text` with its variables replaced, those of unknown providers left. Raises ProviderError."""
        return _VARIABLE.sub(self._value, text)

    def _value(self, variable: re.Match[str]) -> str:
        name, path, key = variable[1], variable[2] or "", variable[3]
        lookup = self._lookups.get(name)
        if lookup is not None:
            return lookup(path, key)
        if name in _USUAL_NAMES:
            raise ProviderError(f"there is no provider {name}: {NAMES_OPTION} does not name it")
        return variable[0]


def _lookup(name: str, texts: Mapping[str, str], environment: Mapping[str, str]) -> Lookup:
    option = f"{PREFIX}{name}.class"
    kind = CLASSES.get(texts.get(option, "").strip())
    if kind is None:
        raise ProviderError(f"{option} must be one of {', '.join(CLASSES)}")
    if kind == "env":
        return Environment(environment, _pattern(f"{PREFIX}{name}.{_ALLOWED_NAMES}", texts))
    allowed = texts.get(f"{PREFIX}{name}.{_ALLOWED_PATHS}", "")
    paths = tuple(Path(each.strip()) for each in allowed.split(",") if each.strip())
    return PropertiesFiles(paths) if kind == "file" else Directories(paths)


def _pattern(option: str, texts: Mapping[str, str]) -> re.Pattern[str] | None:
    text = texts.get(option)
    if text is None:
        return None
    try:
        return re.compile(text)
    except re.error as error:
        raise ProviderError(f"{option} must be a regular expression: {error}") from None


def _allowed_path(path: str, allowed: tuple[Path, ...]) -> Path:
    """Return the path. Raises ProviderError if it is not absolute, not under one of `allowed`, or impossible."""
    found = Path(path)
    if not found.is_absolute():
        raise ProviderError(f"{path or 'a blank path'} is no absolute path")
    if not can_be_named(found):
        raise ProviderError(f"cannot read {path}: no file can have that name")
    resolved = found.resolve()
    if allowed and not any(resolved.is_relative_to(each.resolve()) for each in allowed):
        raise ProviderError(f"{path} is not under {_ALLOWED_PATHS}")
    return found
