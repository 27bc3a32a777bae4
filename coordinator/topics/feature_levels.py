"""Features of the cluster (KIP-584), and the level of each.

Two are served and shown: `transaction.version`, whose level says which transaction protocol clients use (2 is
KIP-890's, with an epoch for every transaction), and `group.version`, which is 1 where there are consumer groups
(KIP-848). Kafka finalizes more: `share.version` and `streams.version` for kinds of groups that are not served,
`eligible.leader.replicas.version` and `metadata.version` for replicas and a metadata log, which one node has not.

Levels that were changed are kept in `features.json` in the log directory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from storage.files import Files
from storage.sealed_json import read_sealed, write_sealed

FILE_NAME: Final = "features.json"
FORMAT: Final = 1

GROUP_VERSION: Final = "group.version"

SUPPORTED_FEATURES: Final[Mapping[str, range]] = {GROUP_VERSION: range(2), "transaction.version": range(3)}
"""The supported levels of each feature. A new cluster begins at the highest."""


@dataclass(frozen=True, slots=True)
class FeatureLevels:
    """The finalized level of each feature; `epoch` counts the changes, so that clients keep the newest levels."""

    levels: Mapping[str, int]
    epoch: int

    @property
    def has_consumer_groups(self) -> bool:
        return self.levels[GROUP_VERSION] > 0


HIGHEST_LEVELS: Final = FeatureLevels({name: levels[-1] for name, levels in SUPPORTED_FEATURES.items()}, 0)


def read_features(files: Files, directory: Path) -> FeatureLevels:
    """Read the current levels. Raises StorageError if the file cannot be read or has another format."""
    path = directory / FILE_NAME
    return read_sealed(files, path, "file of feature levels", _parse_features, FORMAT) or HIGHEST_LEVELS


def _parse_features(document: dict[str, Any]) -> FeatureLevels:
    # A file of an earlier version has no level of what is newer than it.
    levels = {name: int(document["levels"].get(name, own[-1])) for name, own in SUPPORTED_FEATURES.items()}
    if unknown := [name for name, level in levels.items() if level not in SUPPORTED_FEATURES[name]]:
        raise ValueError(f"no such level of {', '.join(unknown)}")
    return FeatureLevels(levels, int(document["epoch"]))


def write_features(files: Files, directory: Path, features: FeatureLevels) -> None:
    """Replace the stored levels by `features`; durable when this returns. Raises StorageError."""
    document = {"format": FORMAT, "levels": dict(features.levels), "epoch": features.epoch}
    write_sealed(files, directory / FILE_NAME, document)
