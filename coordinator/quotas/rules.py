"""Which quota holds for a client, of those that are set for one key; and who shares it (Q5, Q6).

The order is Kafka's: user and client id, user and any client id, user, any user and client id, any user and any
client id, any user, client id, any client id. A rule of a user is one bucket for all clients of that user; one of
users with client ids has a bucket for each pair; one of client ids for each id, whoever the users are.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from coordinator.quotas.entities import CLIENT_ID, USER, Entity

ABSENT: Final = ""
"""Stands for a part that a rule or a bucket does not have; no name is empty."""

Bucket: TypeAlias = tuple[str, str]
"""The user and the client id whose requests count together; ABSENT: those of all."""

_Rule: TypeAlias = tuple[str | None, str | None]
"""User and client id of a rule: a name, None for any, or ABSENT."""


class Rules:
    """The quotas that are set for one key."""

    __slots__ = ("_limits",)

    def __init__(self) -> None:
        self._limits: dict[_Rule, float] = {}

    def __bool__(self) -> bool:
        return bool(self._limits)

    def set(self, entity: Entity, limit: float | None) -> None:
        """Set the quota of `entity`, a user, a client id or both; None removes it."""
        names = dict(entity)
        rule = names.get(USER, ABSENT), names.get(CLIENT_ID, ABSENT)
        if limit is None:
            self._limits.pop(rule, None)
        else:
            self._limits[rule] = limit

    def find(self, user: str, client_id: str) -> tuple[Bucket, float] | None:
        """Return the bucket and the limit of a client; None if no rule is for it.

        An empty client id has no quota of client ids, not even the default one: as in Kafka.
        """
        if not self._limits:
            return None
        bucket = self._bucket(user, client_id)
        limit = self._limit(bucket)
        return None if limit is None else (bucket, limit)

    def _bucket(self, user: str, client_id: str) -> Bucket:
        limits = self._limits
        for owner in (user, None):
            if (owner, client_id) in limits or (owner, None) in limits:
                return user, client_id
            if (owner, ABSENT) in limits:
                return user, ABSENT
        return ABSENT, client_id

    def _limit(self, bucket: Bucket) -> float | None:
        user, client_id = bucket
        if user and client_id:
            candidates: tuple[_Rule, ...] = ((user, client_id), (user, None), (None, client_id), (None, None))
        elif user:
            candidates = (user, ABSENT), (None, ABSENT)
        elif client_id:
            candidates = (ABSENT, client_id), (ABSENT, None)
        else:
            return None
        return next((self._limits[rule] for rule in candidates if rule in self._limits), None)
