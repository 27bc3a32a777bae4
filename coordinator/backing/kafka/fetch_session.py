"""A fetch session at one broker (KIP-227): what it was told to read stays there, and it answers what is new.

A node asks each broker for every partition that it leads, twice a second and at every write. Without a session
each of these requests and answers names all of them, so what one write costs each node would grow with the number
of shards. In a session a request names what has another position than before. An answer leaves out what has no
more to read and the same high watermark as last time. That says as much as an answer for it would: the broker has
looked, and errors are never left out. But an answer that is held back by a quota is empty, and says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from protocol.errors import ErrorCode
from protocol.messages.fetch import MAX_INT32, FetchResponse, PartitionData

NO_SESSION: Final = 0
OPENING: Final = 0
"""The epoch of a request that asks for a session; those in it have 1, 2 and so on."""


class Asked(NamedTuple):
    """From where a partition is to be read, and the epoch of the leader that is meant."""

    position: int
    leader_epoch: int


class FetchSession:
    """`changes` says what a request has to name, `take` reads its answer. One request at a time.

    One that may have been answered unheard ends it: the next has to be in a new session.
    """

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self.epoch = OPENING
        self._named: dict[int, Asked] = {}
        self._high_watermarks: dict[int, int] = {}  # As the broker has last said them.

    def changes(self, wanted: Mapping[int, Asked]) -> tuple[dict[int, Asked], list[int]]:
        """What of `wanted` the broker does not know yet, and what it is to leave out from now on."""
        named = self._named
        changed = {partition: asked for partition, asked in wanted.items() if named.get(partition) != asked}
        gone = [partition for partition in named if partition not in wanted]
        for partition in gone:
            self._high_watermarks.pop(partition, None)
        self._named = dict(wanted)
        return changed, gone

    def take(self, answer: FetchResponse) -> set[int]:
        """Note what an answer without an error says; return the partitions that it names."""
        if answer.session_id == NO_SESSION:  # The broker has no room for another.
            self.session_id, self.epoch = NO_SESSION, OPENING
            self._named, self._high_watermarks = {}, {}
        else:
            self.session_id = answer.session_id
            self.epoch = self.epoch + 1 if self.epoch < MAX_INT32 else 1
        named = set()
        for data in partitions_of(answer):
            named.add(data.partition_index)
            if data.error_code != ErrorCode.NONE or self.session_id == NO_SESSION:
                self._high_watermarks.pop(data.partition_index, None)
            else:
                self._high_watermarks[data.partition_index] = data.high_watermark
        return named

    def silent(self, answer: FetchResponse, partition: int) -> PartitionData | None:
        """What an answer says of a partition that it leaves out; None: nothing."""
        high_watermark = self._high_watermarks.get(partition)
        if answer.throttle_time_ms > 0 or high_watermark is None:
            return None
        return PartitionData(partition_index=partition, high_watermark=high_watermark)


def partitions_of(answer: FetchResponse) -> Iterator[PartitionData]:
    """The partitions that an answer names."""
    for topic in answer.responses:
        yield from topic.partitions
