"""Formats what the log tools found: sentences for people, JSON for programs. It reads nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from storage.check.log import Finding, Severity

if TYPE_CHECKING:  # Each command imports the one that it needs, and passes its result here.
    from muster.log.import_offline import Imported
    from muster.log.repair import Repair
    from muster.log.rows import OffsetRow
    from muster.log.verify import Verified
    from storage.check.repair import Loss
    from storage.log.checkpoints import MetaProperties


def show_json(value: Any) -> None:
    """Print one JSON document."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def finding_line(finding: Finding) -> str:
    """A finding as one line: severity, file, byte, offset, and what is wrong."""
    place = [str(finding.path)]
    if finding.byte is not None:
        place.append(f"byte {finding.byte}")
    if finding.offset is not None:
        place.append(f"offset {finding.offset}")
    return f"{finding.severity.value}: {', '.join(place)}: {finding.what}"


def verified_lines(result: Verified) -> list[str]:
    """A line for each finding, and a line with the totals."""
    sizes = result.checked.values()
    total = (
        f"{len(result.checked)} partitions, {sum(each.segments for each in sizes)} segments, "
        f"{sum(each.batches for each in sizes)} batches, {sum(each.size_bytes for each in sizes)} bytes: "
        f"{result.count(Severity.ERROR)} errors, {result.count(Severity.NOTE)} notes"
    )
    return [*map(finding_line, result.findings), total]


def verified_json(result: Verified) -> dict[str, Any]:
    findings = [
        asdict(finding) | {"severity": finding.severity.value, "path": str(finding.path)}
        for finding in result.findings
    ]
    return {
        "errors": result.count(Severity.ERROR),
        "notes": result.count(Severity.NOTE),
        "partitions": {name: asdict(checked) for name, checked in result.checked.items()},
        "findings": findings,
    }


def loss_line(loss: Loss) -> str:
    """A lost range as one line: file, bytes, offsets and the reason."""
    count = loss.end_byte - loss.first_byte
    extent = f"bytes {loss.first_byte}-{loss.end_byte - 1}" if count else "no bytes"
    return f"lost: {loss.path}, {extent}, {_offsets(loss)}: {loss.reason}"


def _offsets(loss: Loss) -> str:
    if loss.last_offset is None:
        return f"offsets from {loss.first_offset} on"
    if loss.last_offset < loss.first_offset:
        return "no offsets"
    return f"offsets {loss.first_offset}-{loss.last_offset}"


def repair_lines(result: Repair, target: Path) -> list[str]:
    """A line for each lost range and each file left behind, and a line with the totals."""
    repaired = result.partitions.values()
    lines = [loss_line(loss) for each in repaired for loss in each.losses]
    lines += [
        f"{fault.path}: what is from byte {fault.byte} on was not read, so what is lost with it is not known: "
        f"{fault.what}"
        for fault in result.journal_faults
    ]
    lines += [f"left behind: {path}" for path in _left_behind(result)]
    losses = sum(len(each.losses) for each in repaired)
    total = (
        f"{target}: {len(result.partitions)} partitions, {sum(each.batches for each in repaired)} batches, "
        f"{sum(each.copied_bytes for each in repaired)} bytes copied; {losses or 'no'} ranges lost"
    )
    return [*lines, total]


def repair_json(result: Repair, target: Path) -> dict[str, Any]:
    partitions = {
        name: {
            "batches": each.batches,
            "records": each.records,
            "copied_bytes": each.copied_bytes,
            "next_offset": each.next_offset,
            "losses": [asdict(loss) | {"path": str(loss.path)} for loss in each.losses],
        }
        for name, each in result.partitions.items()
    }
    left = [str(path) for path in _left_behind(result)]
    faults = [
        {"path": str(fault.path), "byte": fault.byte, "what": fault.what} for fault in result.journal_faults
    ]
    return {"target": str(target), "partitions": partitions, "left_behind": left, "journal_faults": faults}


def _left_behind(result: Repair) -> Iterable[Path]:
    yield from (path for each in result.partitions.values() for path in each.left_behind)
    yield from result.left_behind


def place(row: OffsetRow) -> str:
    """What a row of an import is called where it is refused."""
    return f"{row.group} {row.topic}-{row.partition}"


def imported_lines(result: Imported, is_dry_run: bool) -> list[str]:
    refused = [f"refused: {where}: {why}" for where, why in sorted(result.refused.items())]
    verb = "would be imported" if is_dry_run else "imported"
    return [*refused, f"{result.rows} offsets of {len(result.groups)} groups {verb}"]


def imported_json(result: Imported, is_dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": is_dry_run,
        "offsets": result.rows,
        "groups": sorted(result.groups),
        "refused": result.refused,
    }


OF_ONE_REPLICA: Final = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.min.isr",
)
"""Settings of Kafka that have to be 1 as long as there is one broker; its defaults are 3 and 2."""


def handed_over_lines(
    identity: MetaProperties, carried: dict[str, int], settings: dict[str, str], directory: Path
) -> list[str]:
    """What was carried over, and how Kafka is started: also with `settings`, which were set at run time."""
    counts = [f"{count} {what}" for what, count in carried.items()]
    return [
        f"carried over: {', '.join(counts)}",
        "Start Apache Kafka 4.3 with the settings that Muster had, and with:",
        "  process.roles=broker,controller",
        f"  node.id={identity.node_id}",
        f"  log.dirs={directory.absolute()}",
        f"  controller.quorum.voters={identity.node_id}@127.0.0.1:9093",
        "  controller.listener.names=CONTROLLER",
        *(f"  {name}=1" for name in OF_ONE_REPLICA),
        *(f"  {name}={value}" for name, value in sorted(settings.items())),
        "and CONTROLLER://127.0.0.1:9093 among its listeners. Where a listener has SASL or TLS, Kafka wants more:",
        "docs/to-kafka.md, With secured listeners.",
    ]


def handed_over_json(
    identity: MetaProperties, carried: dict[str, int], settings: dict[str, str]
) -> dict[str, Any]:
    return {
        "node_id": identity.node_id,
        "cluster_id": identity.cluster_id,
        "carried_over": carried,
        "start_with": {**dict.fromkeys(OF_ONE_REPLICA, "1"), **settings},
    }
