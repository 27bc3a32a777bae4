"""Rare events of groups with members of both protocols; the marks of classic groups are in `marks`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tests.simulation.marks import MARKS

ENOUGH_SEEDS: Final = 1_000
"""So many have to reach every mark at least once."""

ENOUGH_FOR_FREQUENT: Final = 200
"""So many have to reach those of FREQUENT."""

MIXED_MARKS: Final[Mapping[str, str]] = MappingProxyType(
    {
        # Groups that change their kind.
        "upgraded": "a classic group with members becomes a consumer group (A54)",
        "upgraded_amid_rebalance": "a classic group is upgraded while it rebalances (A55, A56)",
        "downgraded": "a consumer group becomes a classic one (A62)",
        "downgraded_by_static_member": "a static member that comes back as a classic one does that (A62)",
        "back_and_forth": "a group is upgraded a second time, with members",
        "gave_way": "an empty consumer group gives way to a classic one (A64)",
        "upgrade_refused": "the policy forbids an upgrade (A54)",
        "classic_refused": "the policy keeps a classic member out of a consumer group",
        "change_of_kind_not_stored": "the disk has no room for a group's change of kind, or fails",
        # Reconciliation.
        "held_others_up": "what a member has yet to give up keeps another waiting (A26)",
        "revocation_timed_out": "a member is removed that did not give up in time (A29)",
        "session_expired": "a member of a consumer group expires (A30)",
        "rejoin_timed_out": "a classic member of a consumer group does not join again in time (A59)",
        "sync_timed_out": "a classic member of a consumer group does not fetch its assignment in time (A59)",
        "epoch_fenced": "a member is fenced (110)",
        "epoch_before_taken": "a heartbeat of the epoch before is taken (A31)",
        "commit_of_stale_epoch": "a commit of a former epoch is refused (113)",
        "restarted_amid_reconciliation": "a group is loaded that has not come to its target",
        # Static members, expressions.
        "away": "a static member leaves for now (A9)",
        "taken_over": "a static member comes back and takes over what its instance had (A12)",
        "instance_unreleased": "an instance is refused that another process has (111)",
        "expression_resolved": "it is found out what an expression matches (A46)",
        "expression_met_new_topic": "an expression matches other topics than before (A46)",
        # Targets that are computed aside.
        "waited_for_target": "an event of a group waits while its target is computed",
        "crash_while_computing": "the process dies while a target is computed",
        "no_room_while_computing": "the disk is full while a target is computed",
        "timer_waited_for_target": "a timer of a group waits while its target is computed",
    }
)

RARE: Final = frozenset({"commit_of_stale_epoch", "change_of_kind_not_stored"})
"""These may be missed by the 250 seeds of `make simulation`; `make soak` plays enough to demand them."""

FREQUENT: Final[Mapping[str, str]] = MappingProxyType(
    {name: what for name, what in MIXED_MARKS.items() if name not in RARE}
)

KNOWN: Final[Mapping[str, str]] = MappingProxyType({**MARKS, **MIXED_MARKS})
