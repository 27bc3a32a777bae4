"""Rare events of a shard whose log is on another Kafka; `tests.simulation.marks` says what marks are for."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

ENOUGH_SEEDS: Final = 1_000
"""So many have to reach every mark at least once."""

BACKING_MARKS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "two_told": "two nodes at once are told to own a shard",
        "unwanted_while_claiming": "a node is told to let go while its claim is on its way",
        # Fences.
        "zombie_refused": "records of an owner of the past are refused",
        "duplicate_recognised": "a leader recognises a batch that it has",
        "entry_expired": "a leader forgets a producer whose epoch a paused node has",
        "epoch_outlived": "a node finds that its epoch is too old to be used",
        "keep_alive_written": "an owner that has nothing to write says that it is there",
        "frozen": "a node does not run, nor does its clock, while another owns its shard",
        # Other producer ids.
        "new_producer_id": "the transactional id has expired: there is another producer id",
        "epochs_exhausted": "there are no more epochs: there is another producer id",
        "seal_written": "a node shuts out another producer id",
        "seal_duplicate": "two seals of one producer id",
        "reopened_unsealed": "a node finds a producer id that is not shut out when it has read up to its claim",
        "asked_again": "the epoch that a node is given may be of a producer id of the past",
        # Leases.
        "no_wait": "an owner begins behind a release, and waits for nobody",
        "waited": "an owner begins when it has waited until an earlier one's lease is over",
        "lease_came_back": "an owner's lease lapses, and a proof comes after all",
        # Leaders.
        "claim_lost": "a claim is lost with the leader that had it",
        "old_watermark_heard": "an owner takes for a proof what a leader of the past has answered",
        "watermark_went_back": "a new leader does not know yet all that is committed",
        "log_cleaned": "the cleaner takes batches away",
    }
)
