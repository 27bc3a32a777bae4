"""What is set for named resources of one kind (groups, client metrics subscriptions), and the file that has it.

Texts by setting, by resource. All resources of a kind are in one checksummed file in the log directory. Knows
neither what a setting means nor who changes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from storage.files import Files
from storage.sealed_json import read_sealed, write_sealed

FORMAT: Final = 1

ResourceConfigs = Mapping[str, Mapping[str, str]]
"""What was set: texts by name, by the resource's name."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The file of one kind of resource: its name, what errors call it, and the key of the resources in it."""

    file_name: str
    what: str
    key: str

    def read(self, files: Files, directory: Path) -> ResourceConfigs:
        """Read what was set. Raises StorageError if the file cannot be read or has another format."""
        return read_sealed(files, directory / self.file_name, self.what, self._parse, FORMAT) or {}

    def _parse(self, document: dict[str, Any]) -> ResourceConfigs:
        return {
            str(resource): {str(name): str(text) for name, text in texts.items()}
            for resource, texts in document[self.key].items()
        }

    def write(self, files: Files, directory: Path, configs: ResourceConfigs) -> None:
        """Replace what was stored by `configs`; durable when this returns. Raises StorageError."""
        document = {"format": FORMAT, self.key: {name: dict(texts) for name, texts in configs.items()}}
        write_sealed(files, directory / self.file_name, document)
