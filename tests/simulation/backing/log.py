"""A partition of the backing Kafka at its worst: its leaders, what they remember of producers, and its cleaner.

A `Branch` is the log as one leader has it. What a leader was given is committed once replication has come that
far; another leader has all that was committed, and of the rest as much as it had got. The one before it may not
know for some seconds: it takes batches that are never committed, and answers reads up to the high watermark that
it had. The topic is one that the daemon makes: without unclean elections, and with a `min.compaction.lag.ms` of
COMPACTION_LAG_MS, for a claim must not go while the owner before it may answer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final, Protocol

from coordinator.backing.claims import Claim, Writer
from coordinator.backing.events import AppendError, FollowedBatch, OutgoingBatch
from tests.simulation.marks import Marks
from tests.simulation.timeline import Timeline

DAY_MS: Final = 86_400_000
COMPACTION_LAG_MS: Final = 60_000
DEPOSED_MS_MAX: Final = 8_000
REMEMBERED_MAX: Final = 5

Commit = tuple[str, int]
"""A record: a key, and what its counter has come to."""
Produced = Callable[[AppendError | int], None]


@dataclass(frozen=True, slots=True)
class Stored:
    """A batch in the log; the cleaner leaves fewer records in it, at the same offsets."""

    base_offset: int
    end_offset: int
    writer: Writer
    base_sequence: int
    content: Any  # The Claim that it is, or of each record its offset and the Commit.
    at_ms: int
    leader_epoch: int

    @property
    def claim(self) -> Claim | None:
        return self.content if isinstance(self.content, Claim) else None

    @property
    def commits(self) -> list[Commit]:
        return [] if self.claim else [commit for _, commit in self.content]

    def followed(self) -> FollowedBatch:
        return FollowedBatch(
            self.base_offset, self.end_offset - 1, self.writer, self.claim, self.leader_epoch
        )


class ProducerEntry:
    """What a leader remembers of a producer id (Kafka's ProducerStateEntry)."""

    def __init__(self) -> None:
        self.epoch = -1
        self.remembered: deque[Stored] = deque(maxlen=REMEMBERED_MAX)
        self.forgotten_ms = 0

    def add(self, stored: Stored, random: Random) -> None:
        if stored.writer.epoch != self.epoch:
            self.epoch = stored.writer.epoch
            self.remembered.clear()
        self.remembered.append(stored)
        self.forgotten_ms = stored.at_ms + DAY_MS + random.randrange(600_000)

    def duplicate_of(self, batch: OutgoingBatch) -> Stored | None:
        if batch.writer.epoch != self.epoch:
            return None
        wanted = (batch.base_sequence, batch.record_count)
        found = (
            each
            for each in self.remembered
            if (each.base_sequence, each.end_offset - each.base_offset) == wanted
        )
        return next(found, None)

    def refusal_of(self, batch: OutgoingBatch) -> AppendError | None:
        """As Kafka's ProducerAppendInfo has it."""
        if batch.writer.epoch < self.epoch:
            return AppendError.FENCED
        if batch.writer.epoch > self.epoch:
            return AppendError.OUT_OF_SEQUENCE if batch.base_sequence else None
        last = self.remembered[-1]
        next_sequence = last.base_sequence + last.end_offset - last.base_offset
        return AppendError.OUT_OF_SEQUENCE if batch.base_sequence != next_sequence else None


@dataclass(frozen=True, slots=True)
class Answer:
    """To a Fetch: batches, the offset behind them, and what the leader knows."""

    batches: Sequence[Stored]
    next_offset: int
    high_watermark: int
    leader_epoch: int


@dataclass(slots=True)
class Poll:
    """A Fetch. `answer` is told whether the leader was deposed, and lacks what was committed since."""

    position: int
    batches_max: int
    answer: Callable[[Answer, bool], None]
    is_answered: bool = False


class Branch:
    """The log as one leader has it."""

    def __init__(self, batches: list[Stored], high_watermark: int, leader_epoch: int) -> None:
        self.batches = batches
        self.leader_epoch = leader_epoch
        self.high_watermark = high_watermark
        self.entries: dict[int, ProducerEntry] = {}
        self.unacknowledged: list[tuple[Stored, Produced]] = []
        self.polls: list[Poll] = []
        self.is_gone = False

    @property
    def end_offset(self) -> int:
        return self.batches[-1].end_offset if self.batches else 0

    def entry_of(self, producer_id: int, now_ms: int) -> ProducerEntry | None:
        """What is remembered, unless it has expired."""
        entry = self.entries.get(producer_id)
        if entry is not None and now_ms >= entry.forgotten_ms:
            del self.entries[producer_id]
            return None
        return entry

    def read(self, poll: Poll) -> tuple[Sequence[Stored], int]:
        """Batches from the position on, below the high watermark, and the offset behind them."""
        start = bisect_left(self.batches, poll.position, key=lambda each: each.base_offset)
        end = max(start, bisect_left(self.batches, self.high_watermark, key=lambda each: each.base_offset))
        batches = self.batches[start:end][: poll.batches_max]
        if len(batches) == end - start:
            return batches, max(poll.position, self.high_watermark)
        return batches, batches[-1].end_offset


class Watcher(Protocol):
    """Who sees what is committed."""

    def on_committed(self, log: Log, stored: Stored) -> None: ...


class Log:
    """The partition. `history` is all that was ever committed, as it was before any cleaning."""

    def __init__(self, name: str, timeline: Timeline, random: Random, marks: Marks, watcher: Watcher) -> None:
        self.name = name
        self.leader = Branch([], 0, 0)
        self.history: list[Stored] = []
        self.folded: dict[str, int] = {}
        self.is_peaceful = False
        self.dies_at_claim = False
        """Whether the leader dies when it has acknowledged the next claim and told no reader of it."""
        self._timeline = timeline
        self._random = random
        self._marks = marks
        self._watcher = watcher
        self._heard: dict[int, Branch] = {}  # Nodes that have not learned of a newer leader.

    @property
    def committed_end(self) -> int:
        return self.history[-1].end_offset if self.history else 0

    def leader_for(self, node_id: int, *, for_reading: bool) -> Branch:
        """Whom a node takes for the leader; it finds out when it writes."""
        heard = self._heard.get(node_id, self.leader)
        if heard.is_gone or self.is_peaceful:
            self._heard.pop(node_id, None)
            return self.leader
        return heard if for_reading or self._random.random() < 0.5 else self.leader

    # Produce.

    def produce(self, branch: Branch, batch: OutgoingBatch, answer: Produced) -> None:
        """Append, and answer with the base offset once that is committed; or with why it is refused."""
        if branch.is_gone:
            return  # The connection is closed.
        now_ms = self._timeline.now_ms
        entry = branch.entry_of(batch.writer.producer_id, now_ms)
        if entry is not None and (stored := entry.duplicate_of(batch)) is not None:
            self._marks.reach("seal_duplicate" if batch.writer.epoch == 32_767 else "duplicate_recognised")
            self._acknowledge(branch, stored, answer)
        elif entry is not None and (refusal := entry.refusal_of(batch)) is not None:
            if refusal is AppendError.FENCED and not isinstance(batch.content, Claim):
                self._marks.reach("zombie_refused")
            answer(refusal)
        elif not self.is_peaceful and self._random.random() < 0.005:
            answer(AppendError.RETRIABLE)  # Too few replicas in sync.
        else:
            stored = self._append(branch, batch, now_ms)
            self._acknowledge(branch, stored, answer)

    def _append(self, branch: Branch, batch: OutgoingBatch, now_ms: int) -> Stored:
        base = branch.end_offset
        content = batch.content
        if not isinstance(content, Claim):
            content = [(base + index, commit) for index, commit in enumerate(content)]
        end = base + batch.record_count
        stored = Stored(base, end, batch.writer, batch.base_sequence, content, now_ms, branch.leader_epoch)
        branch.batches.append(stored)
        branch.entries.setdefault(batch.writer.producer_id, ProducerEntry()).add(stored, self._random)
        self._timeline.after(self._replication_ms(), lambda: self._commit(branch, end))
        return stored

    def _replication_ms(self) -> int:
        if self.is_peaceful:
            return 1
        return (
            self._random.randrange(1_000, 6_000)
            if self._random.random() < 0.02
            else self._random.randrange(50)
        )

    def _acknowledge(self, branch: Branch, stored: Stored, answer: Produced) -> None:
        if stored.end_offset <= branch.high_watermark:
            answer(stored.base_offset)
        else:
            branch.unacknowledged.append((stored, answer))

    def _commit(self, branch: Branch, end_offset: int) -> None:
        """Replication has come so far."""
        if branch is not self.leader or branch.high_watermark >= end_offset:
            return
        branch.high_watermark = end_offset
        start = bisect_left(branch.batches, self.committed_end, key=lambda each: each.base_offset)
        for stored in branch.batches[start:]:
            if stored.base_offset >= end_offset:
                break
            self.history.append(stored)
            self.folded.update(stored.commits)
            self._watcher.on_committed(self, stored)
        waiting, branch.unacknowledged = branch.unacknowledged, []
        for stored, answer in waiting:
            self._acknowledge(branch, stored, answer)
        if self.dies_at_claim and self.history[-1].claim:
            self.dies_at_claim = False
            branch.is_gone = True
            self.move((), knows_all=False)
        polls, branch.polls = branch.polls, []
        for poll in polls:
            self._answer(branch, poll)

    # Fetch.

    def fetch(self, branch: Branch, poll: Poll, wait_ms: int) -> None:
        """Answer with what there is, or else when there is something, or after the wait."""
        if branch.is_gone:
            return
        if poll.position < branch.high_watermark or wait_ms == 0:
            self._answer(branch, poll)
        else:
            branch.polls.append(poll)
            self._timeline.after(wait_ms, lambda: self._answer(branch, poll))

    def _answer(self, branch: Branch, poll: Poll) -> None:
        if poll.is_answered or branch.is_gone:
            return
        poll.is_answered = True
        batches, next_offset = branch.read(poll)
        is_old = branch is not self.leader and branch.high_watermark < self.committed_end
        poll.answer(Answer(batches, next_offset, branch.high_watermark, branch.leader_epoch), is_old)

    # Leaders and the cleaner.

    def move(self, node_ids: Iterable[int], *, knows_all: bool = True) -> None:
        """Another replica leads, which has what is committed, and a part of the rest.

        One that does not know all has not heard that the last batch is committed, nor does it for seconds.
        """
        old, random = self.leader, self._random
        tail_start = bisect_left(old.batches, self.committed_end, key=lambda each: each.base_offset)
        cut = random.randint(tail_start, len(old.batches))
        if any(stored.claim for stored in old.batches[cut:]):
            self._marks.reach("claim_lost")
        high_watermark = self._watermark(old.batches[:tail_start])
        if not knows_all:
            high_watermark = min(high_watermark, self.history[-1].base_offset)
        self.leader = branch = Branch(old.batches[:cut], high_watermark, old.leader_epoch + 1)
        self._remember(branch, old.batches[tail_start:cut])
        # At the latest when followers have fetched from it, its high watermark is where it was; one may hang.
        lag_ms = random.randrange(1, 500) if knows_all else random.randrange(4_000, 10_000)
        self._timeline.after(lag_ms, lambda: self._commit(branch, branch_end))
        branch_end = branch.end_offset
        old.unacknowledged.clear()
        self._timeline.after(random.choice((0, 500, DEPOSED_MS_MAX)), lambda: self._end(old))
        for node_id in node_ids:
            if random.random() < 0.5:
                self._heard.setdefault(node_id, old)
            else:
                self._heard.pop(node_id, None)

    def _watermark(self, committed: Sequence[Stored]) -> int:
        """What a new leader has heard of the old one's high watermark."""
        if not committed or self._random.random() < 0.7:
            return self.committed_end
        self._marks.reach("watermark_went_back")
        return committed[-min(self._random.randint(1, 3), len(committed))].base_offset

    def _remember(self, branch: Branch, tail: Sequence[Stored]) -> None:
        """What a replica has read in the log of its producers; of batches at least the last of each."""
        known_ms = self._timeline.now_ms - DAY_MS
        for stored in (*self.history, *tail):
            if stored.at_ms < known_ms:
                continue
            branch.entries.setdefault(stored.writer.producer_id, ProducerEntry()).add(stored, self._random)
        for entry in branch.entries.values():
            keep = self._random.randint(1, REMEMBERED_MAX)
            entry.remembered = deque(list(entry.remembered)[-keep:], REMEMBERED_MAX)

    def _end(self, branch: Branch) -> None:
        """A leader that was deposed knows it."""
        branch.is_gone = branch is not self.leader

    def clean(self) -> None:
        """Remove what is superseded, up to any offset that is old enough."""
        branch, old_ms = self.leader, self._timeline.now_ms - COMPACTION_LAG_MS
        cleanable = [
            each
            for each in branch.batches
            if each.end_offset <= branch.high_watermark and each.at_ms <= old_ms
        ]
        if not cleanable:
            return
        cut = self._random.choice((len(cleanable), self._random.randint(1, len(cleanable))))
        cleaned = cleaned_batches(branch.batches[:cut])
        if len(cleaned) < cut:
            self._marks.reach("log_cleaned")
        branch.batches = [*cleaned, *branch.batches[cut:]]


def cleaned_batches(batches: Sequence[Stored]) -> list[Stored]:
    """The batches without records of which a later one has the same key."""
    latest: dict[str | int, int] = {}
    for stored in batches:
        if stored.claim:
            latest[stored.writer.producer_id] = stored.base_offset
        else:
            latest.update((key, offset) for offset, (key, _) in stored.content)
    kept = []
    for stored in batches:
        if stored.claim:
            if latest[stored.writer.producer_id] == stored.base_offset:
                kept.append(stored)
        elif content := [
            (offset, commit) for offset, commit in stored.content if latest[commit[0]] == offset
        ]:
            kept.append(replace(stored, content=content))
    return kept
