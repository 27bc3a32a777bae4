"""`muster groups delete-offsets`, `copy-offsets`, `export` and `import`: what a group has committed, as a whole.

Files are those of `muster log export` and `import`: one format for what was read from a log directory and for what
was asked of a running cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from muster.cluster import ClusterError
from muster.connection import Connection
from muster.groups import tables
from muster.groups.descriptions import NoSuchGroupError, require_no_members
from muster.groups.many import committed_of_each
from muster.groups.offsets import Committed, Move, commit, committed, delete_offsets
from muster.groups.reset_offsets import parse_topics
from muster.groups.running import AsJson, run
from muster.groups.selection import Several
from muster.log import output
from muster.log.import_offline import Imported
from muster.log.import_online import import_online
from muster.log.places import LogToolError
from muster.log.progress import progress
from muster.log.rows import OffsetRow, read_rows, rows_by_group, write_rows
from muster.sentences import remark, say, shown_id
from muster.usage import STATUS_FAILED, UsageError
from protocol.errors import ErrorCode
from protocol.topic_partition import TopicPartition

SHOWN_ROWS_MAX = 1_000
"""An import of more rows is told by its figures alone."""
Execute = Annotated[bool, Parameter(negative="", help="commit it; without, it is only shown")]


def delete_offsets_command(
    group: str,
    *,
    topic: Annotated[list[str], Parameter(negative="", help="TOPIC or TOPIC:0,2; may be repeated")],
    connection: Connection = Connection(),
    as_json: AsJson = False,
) -> int:
    """Delete what a group has committed of topics that none of its members is subscribed to."""

    async def command() -> int:
        try:
            topics = parse_topics(topic)
        except ValueError as error:
            raise UsageError(f"--topic {error}") from None
        async with connection.connected() as cluster:
            outcome = await delete_offsets(cluster, group, topics)
        rows = sorted(outcome.items(), key=lambda row: (row[0][0], row[0][1] or 0))
        if as_json:
            tables.show_json(
                [
                    {"topic": topic, "partition": partition, "error": error.name}
                    for (topic, partition), error in rows
                ]
            )
        else:
            tables.show(tables.deleted_offsets_table(rows))
        return STATUS_FAILED if any(error is not ErrorCode.NONE for _, error in rows) else 0

    return run(command(), as_json)


def copy_offsets_command(
    source: Annotated[str, Parameter(name="FROM")],
    target: Annotated[str, Parameter(name="TO")],
    *,
    new_topics: Annotated[
        bool,
        Parameter(negative="", help="also topics of which TO has committed nothing, though it has others"),
    ] = False,
    execute: Execute = False,
    connection: Connection = Connection(),
    as_json: AsJson = False,
) -> int:
    """Commit for one group what another has committed. The group that gets them must have no members.

    A group without offsets gets all of them. One that has some keeps those of other partitions, and gets no
    topics that it has not read without --new-topics.
    """

    async def command() -> int:
        if source == target:
            raise UsageError("FROM and TO are the same group")
        async with connection.connected() as cluster:
            await require_no_members(cluster, target)
            offsets = await committed(cluster, source)
            if not offsets:
                raise ClusterError(f"group {shown_id(source)} has committed no offset")
            present = await committed(cluster, target)
            chosen = copied(offsets, present, new_topics)
            if execute and chosen:
                for where, error in (await commit(cluster, target, chosen)).items():
                    if error is not ErrorCode.NONE:
                        raise ClusterError(
                            f"{where.topic}-{where.partition}: the cluster answers {error.name}"
                        )
        moves = {target: [_move(where, present, new) for where, new in sorted(chosen.items())]}
        if as_json:
            tables.show_json({"executed": execute, "moves": tables.moves_json(moves)})
        else:
            tables.show(tables.moves_table(moves, names_groups=False))
        if left_out := sorted({where.topic for where in offsets.keys() - chosen.keys()}):
            remark(f"left out, for {target} has not read them (--new-topics): {', '.join(left_out)}")
        if not execute:
            remark("nothing was changed: add --execute to commit this")
        return 0

    return run(command(), as_json)


def copied(
    offsets: dict[TopicPartition, Committed], present: dict[TopicPartition, Committed], new_topics: bool
) -> dict[TopicPartition, Committed]:
    """What is to be copied to a group that has committed `present`."""
    if new_topics or not present:
        return offsets
    known = {where.topic for where in present}
    return {where: offset for where, offset in offsets.items() if where.topic in known}


def _move(where: TopicPartition, present: dict[TopicPartition, Committed], new: Committed) -> Move:
    before = present.get(where)
    return Move(where.topic, where.partition, before.offset if before else None, new.offset)


def export(
    file: Annotated[
        Path,
        Parameter(allow_leading_hyphen=True, help="X.parquet, else JSON lines; - is standard output"),
    ],
    *group: str,
    several: Several = Several(),
    connection: Connection = Connection(),
) -> int:
    """Write what groups have committed to a file, as `muster log export` does: all groups unless some are said."""

    async def command() -> int:
        chosen = several if group or several.is_given else Several(all_groups=True)
        chosen.check(group)
        async with connection.connected() as cluster:
            found = await committed_of_each(cluster, await chosen.chosen(cluster, group))
        rows = []
        for group_id, offsets in found.items():
            if group and not offsets:
                raise NoSuchGroupError(f"group {shown_id(group_id)} has committed no offset")
            rows.append(rows_of(group_id, offsets))
        try:
            count = write_rows(file, (row for of_group in rows for row in of_group))
        except LogToolError as error:
            say(error)
            return STATUS_FAILED
        remark(f"{count} offsets exported")
        return 0

    return run(command())


def rows_of(group_id: str, offsets: dict[TopicPartition, Committed]) -> list[OffsetRow]:
    """What a group has committed as rows of a file; what a cluster does not say of them is left out."""
    return [
        OffsetRow(group_id, where.topic, where.partition, found.offset, found.leader_epoch, found.metadata)
        for where, found in sorted(offsets.items())
    ]


def import_command(
    file: Annotated[Path, Parameter(help="X.parquet, else JSON lines, as export writes them")],
    *group: str,
    dry_run: Annotated[bool, Parameter(negative="", help="only read the file")] = False,
    connection: Connection = Connection(),
    as_json: AsJson = False,
) -> int:
    """Commit offsets from a file, all or those of some groups. Groups with members refuse the whole import."""

    async def command() -> int:
        try:
            counts = rows_by_group(file, frozenset(group))
        except LogToolError as error:
            raise UsageError(str(error)) from None
        groups, total = frozenset(counts), sum(counts.values())
        result = Imported(total, set(groups))
        chosen: Iterable[OffsetRow] = (row for row in read_rows(file) if row.group in groups)
        shown = list(chosen) if total <= SHOWN_ROWS_MAX and not as_json else []
        if not dry_run:
            chosen = shown or chosen
            with progress("importing", total, is_bytes=False) as advance:
                async with connection.connected() as cluster:
                    result = await import_online(cluster, groups, chosen, advance)
        if as_json:
            tables.show_json(output.imported_json(result, dry_run))
        if done := [row for row in shown if output.place(row) not in result.refused]:
            tables.show(tables.rows_table(done))
        for line in () if as_json else output.imported_lines(result, dry_run):
            tables.show_line(line)
        return STATUS_FAILED if result.refused else 0

    return run(command(), as_json)
