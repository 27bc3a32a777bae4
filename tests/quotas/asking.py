"""Requests about quotas, for both their APIs, and the clients that run into them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coordinator.quotas.entities import Entity
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

Parts = Mapping[str, str | None]
"""Names by type; None is the default."""


def entry(parts: Parts, **quotas: float | None) -> EntryData:
    """What changes for one entity; None removes a quota."""
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in parts.items()],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()],
    )


def alteration(*entries: EntryData, validate_only: bool = False) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)


def described(*components: tuple[str, int, str | None], strict: bool = False) -> DescribeClientQuotasRequest:
    asked = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    return DescribeClientQuotasRequest(components=asked, strict=strict)


def quotas_in(response: Any) -> dict[Entity, dict[str, float]]:
    """The quotas in an answer, by entity and key."""
    return {
        tuple(sorted((part.entity_type, part.entity_name) for part in entry.entity)): {
            value.key: value.value for value in entry.values
        }
        for entry in response.entries
    }
