"""What a group's topics were when they were last looked at, so that its history can say what became of them.

The log keeps no more of them than a hash (A43). What is kept here is lost with a restart: then nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from coordinator.groups.causes import listed
from coordinator.topic_catalog import TopicImage

WATCHED_MAX: Final = 200
"""Topics of one group that are watched; of the others it is not known what became of them."""

CHANGES_MAX: Final = 10
"""The most topics that one reason names."""

ELSEWHERE: Final = "others than the first {most} that are watched"


@dataclass(slots=True)
class WatchedTopics:
    """Topics by name, as they were when the group's hash was `metadata_hash`; None: nothing is known."""

    metadata_hash: int | None = None
    _images: dict[str, TopicImage] = field(default_factory=dict)
    _are_all: bool = True

    def watch(self, metadata_hash: int, images: Iterable[TopicImage]) -> None:
        """Keep what the topics are now; takes no time while the hash stays as it is."""
        if metadata_hash == self.metadata_hash:
            return
        images = iter(images)
        self.metadata_hash = metadata_hash
        self._images = {image.name: image for image in islice(images, WATCHED_MAX)}
        self._are_all = next(images, None) is None

    def changes(self, stored_hash: int, images: Iterable[TopicImage]) -> str | None:
        """Say how `images` differ from the topics of the stored hash, in words; None if that is not known."""
        if self.metadata_hash != stored_hash:
            return None
        now = {image.name: image for image in images}
        names = sorted(self._images.keys() | (now.keys() if self._are_all else ()))
        found = [_change(name, self._images.get(name), now.get(name)) for name in names]
        changes = [change for change in found if change is not None]
        if changes:
            return listed(changes[:CHANGES_MAX], len(changes))
        return None if self._are_all else ELSEWHERE.format(most=WATCHED_MAX)


def _change(name: str, before: TopicImage | None, after: TopicImage | None) -> str | None:
    if before == after:
        return None
    if after is None:
        return f"{name} is gone"
    count = len(after.racks_by_partition)
    partitions = f"{count} partition{'' if count == 1 else 's'}"
    if before is None:
        return f"{name} is new, with {partitions}"
    if before.topic_id != after.topic_id:
        return f"{name} was made again, with {partitions}"
    if count != len(before.racks_by_partition):
        return f"{name} has {partitions}, had {len(before.racks_by_partition)}"
    return f"{name} is in other racks"
