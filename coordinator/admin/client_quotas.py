"""DescribeClientQuotas (key 48), AlterClientQuotas (key 49): what is set for users, clients, addresses (KIP-546).

What follows from a quota is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from coordinator.data.broker import ClientRequest
from coordinator.quotas.entities import (
    ENTITY_TYPES,
    IP,
    MAX_ENTITIES,
    MAX_NAME_BYTES,
    Entity,
    InvalidQuota,
    check_entity,
    check_value,
    entity_from,
    entity_of,
    name_bytes,
    name_of,
)
from coordinator.quotas.registry import QuotaRegistry
from coordinator.topics.refusal import Countdown, Refused
from protocol.errors import ErrorCode
from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntryData,
    OpData,
)
from protocol.messages.alter_client_quotas import EntityData as AlteredEntityData
from protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

EXACT, DEFAULT, ANY = range(3)  # Ways in which a component of an entity is matched.

Changes = Mapping[str, float | None]
"""Quotas to set, by key; None removes."""


class ClientQuotaApis:
    """The handlers of both APIs."""

    def __init__(self, registry: QuotaRegistry) -> None:
        self._registry = registry

    def describe(self, request: DescribeClientQuotasRequest, pending: ClientRequest) -> None:
        """DescribeClientQuotas (key 48): the entities that match all components, with their quotas (Q4).

        Errors: INVALID_REQUEST, UNSUPPORTED_VERSION (a kind of entity that Kafka does not know).
        """
        try:
            _check_filter(request.components)
        except Refused as refused:
            error, words = refused.error, refused.message
            pending.reply(DescribeClientQuotasResponse(error_code=error, error_message=words, entries=None))
            return
        entities = {entity_from(name): name for name in self._registry.all()}
        entries = [
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=part) for kind, part in reversed(entity)],
                values=[
                    ValueData(key=key, value=value) for key, value in self._registry.limits(name).items()
                ],
            )
            for entity, name in entities.items()
            if _matches(entity, request.components, request.strict)
        ]
        pending.reply(DescribeClientQuotasResponse(entries=entries))

    def alter(self, request: AlterClientQuotasRequest, pending: ClientRequest) -> None:
        """AlterClientQuotas (key 49): set and remove quotas, and answer when that is durable (Q1 to Q3).

        Errors per entity: INVALID_REQUEST, POLICY_VIOLATION (more than are kept), KAFKA_STORAGE_ERROR.
        """
        results: dict[Entity, AlteredEntryData] = {}
        response = AlterClientQuotasResponse()
        countdown = Countdown(lambda: pending.reply(response))
        for entry in request.entries:
            entity = entity_of((part.entity_type, part.entity_name) for part in entry.entity)
            result = results.setdefault(entity, _result(entity))
            try:
                changes = _changes(entry.ops)
                if changes is None or result.error_message != "":
                    raise InvalidQuota(f"Ignoring duplicate entity {_shown(entity)}")
                result.error_message = None
                self._check(entity, changes)
                if not request.validate_only and changes:
                    countdown.begin()
                    self._change(entity, changes, result, countdown)
            except InvalidQuota as invalid:
                result.error_code, result.error_message = ErrorCode.INVALID_REQUEST, str(invalid)
            except Refused as refused:
                result.error_code, result.error_message = refused.error, refused.message
        response.entries = list(results.values())
        countdown.seal()

    def _check(self, entity: Entity, changes: Changes) -> None:
        """Raise InvalidQuota, or Refused for a bound of Muster's own."""
        check_entity(entity)
        sets = {key: value for key, value in changes.items() if value is not None}
        for key, value in sets.items():
            check_value(entity, key, value)
        if sets and name_bytes(entity) > MAX_NAME_BYTES:
            words = f"The names of an entity with quotas have at most {MAX_NAME_BYTES} bytes."
            raise Refused(ErrorCode.POLICY_VIOLATION, words)
        if sets and not self._registry.has_room_for(name_of(entity), MAX_ENTITIES):
            words = f"There are quotas of {MAX_ENTITIES} entities already, the most that are kept."
            raise Refused(ErrorCode.POLICY_VIOLATION, words)

    def _change(
        self, entity: Entity, changes: Changes, result: AlteredEntryData, countdown: Countdown
    ) -> None:
        """Change an entity's quotas, behind a change of them that is under way."""
        name = name_of(entity)
        if self._registry.is_changing(name):
            self._registry.when_changed(name, lambda _error: self._change(entity, changes, result, countdown))
            return
        texts = dict(self._registry.texts(name))
        for key, value in changes.items():
            if value is None:
                texts.pop(key, None)
            else:
                texts[key] = repr(value)
        if texts == self._registry.texts(name):
            countdown.end()
        else:
            self._registry.alter(name, texts, partial(_on_altered, result, countdown))


def _on_altered(result: AlteredEntryData, countdown: Countdown, error: ErrorCode) -> None:
    if error and not result.error_code:
        result.error_code, result.error_message = error, "The quotas could not be written to the disk."
    countdown.end()


def _result(entity: Entity) -> AlteredEntryData:
    """Return the result of an entity that nothing was decided about yet: its message is empty, and not null."""
    parts = [AlteredEntityData(entity_type=kind, entity_name=name) for kind, name in reversed(entity)]
    return AlteredEntryData(error_code=ErrorCode.NONE, error_message="", entity=parts)


def _changes(ops: Sequence[OpData]) -> Changes | None:
    """Return the changes by key; None if a key is given twice."""
    changes = {op.key: None if op.remove else op.value for op in ops}
    return changes if len(changes) == len(ops) else None


def _shown(entity: Entity) -> str:
    """Return an entity as Kafka's messages show it."""
    parts = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in reversed(entity))
    return f"ClientQuotaEntity(entries={{{parts}}})"


def _matches(entity: Entity, components: Sequence[ComponentData], is_strict: bool) -> bool:
    """Whether an entity has all parts that a valid filter asks for, and no others where it is strict."""
    names = dict(entity)
    if is_strict and len(names) != len(components):
        return False
    return all(
        component.entity_type in names
        and (component.match_type == ANY or names[component.entity_type] == component.match)
        for component in components
    )


def _check_filter(components: Sequence[ComponentData]) -> None:
    seen: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind:
            raise Refused(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in seen:
            words = f"Entity type {kind} cannot appear more than once in the filter."
            raise Refused(ErrorCode.INVALID_REQUEST, words)
        if kind not in ENTITY_TYPES:
            raise Refused(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        if problem := _match_problem(component.match_type, component.match):
            raise Refused(ErrorCode.INVALID_REQUEST, problem)
        seen.add(kind)
    if IP in seen and len(seen) > 1:
        words = "IP filter component should not be used with user or clientId filter component."
        raise Refused(ErrorCode.INVALID_REQUEST, f"Invalid entity filter component combination. {words}")


def _match_problem(match_type: int, match: str | None) -> str | None:
    if match_type not in (EXACT, DEFAULT, ANY):
        return f"Unknown match type {match_type}"
    if match_type == EXACT:
        words = "Request specified MATCH_TYPE_EXACT, but set match string to null."
        return words if match is None else None
    name = "DEFAULT" if match_type == DEFAULT else "SPECIFIED"
    words = f"Request specified MATCH_TYPE_{name}, but also specified a match string."
    return None if match is None else words
