"""Each option of kafka-consumer-groups 4.3.1 beside what is typed here, and the figures that both are asked for.

`test_tool_parity.py` runs every row with both tools on one running Kafka and compares the figures; the table of
docs/cli.md is made of the same rows: `python -m tests.clients.tool_parity` prints it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

Figures = Any
"""Whatever both outputs come to; equal where the tools agree."""

TOPIC, GROUP, LIVE, NEWER, BEYOND = "orders", "GROUP", "live", "newer", "beyond"
"""The topic; the group that each tool has for itself; one with a classic member; a consumer group; one that
has committed beyond the log's end."""
ODD: Final = 'a "b",c..'
"""A group id that CSV has to quote."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a tool printed, and its status."""

    text: str
    status: int

    def table(self) -> list[dict[str, str]]:
        """The rows of all tables that Kafka's tool printed, by heading."""
        rows: list[dict[str, str]] = []
        heading: list[tuple[str, int]] = []
        for line in self.text.splitlines():
            if re.match(r"(GROUP|TOPIC) ", line):
                heading = [(found[0], found.start()) for found in re.finditer(r"\S+( \(ID\))?", line)]
            elif line.strip() and heading:
                rows.append(dict(zip([name for name, _ in heading], _cells(line), strict=False)))
        return rows

    def json(self) -> Any:
        return json.loads(self.text)


def _cells(line: str) -> list[str]:
    """The cells of a row, set apart by blanks; `host:port (1)` is one."""
    return [cell.replace("  (", " (") for cell in re.findall(r"\S+(?:\s+\(\S*\)(?=\s|$))?", line)]


@dataclass(frozen=True, slots=True)
class Row:
    """The command lines of both tools, and how the output of each comes to the figures compared."""

    theirs: tuple[str, ...]
    ours: tuple[str, ...]
    compared: str
    their_figures: Callable[[Said], Figures]
    our_figures: Callable[[Said], Figures]


def offset_of(text: str) -> int | None:
    return None if text == "-" else int(text)


def their_offsets(said: Said) -> Figures:
    return {
        (row["GROUP"], row["TOPIC"], int(row["PARTITION"])): (
            *(offset_of(row[name]) for name in ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")),
            *(None if row[name] == "-" else row[name] for name in ("CONSUMER-ID", "HOST", "CLIENT-ID")),
        )
        for row in said.table()
    }


def our_offsets(said: Said) -> Figures:
    names = ("committed_offset", "log_end_offset", "lag", "member_id", "client_host", "client_id")
    return {
        (group["group_id"], row["topic"], row["partition"]): tuple(row[name] for name in names)
        for group in said.json()
        for row in group["progress"]
    }


def their_epochs(said: Said) -> Figures:
    return {(row["TOPIC"], int(row["PARTITION"])): offset_of(row["LEADER-EPOCH"]) for row in said.table()}


def our_epochs(said: Said) -> Figures:
    return {
        (row["topic"], row["partition"]): row["leader_epoch"]
        for group in said.json()
        for row in group["progress"]
    }


def their_members(said: Said) -> Figures:
    names = ("CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS")
    return sorted([row["GROUP"], *(row[name] for name in names)] for row in said.table())


def our_members(said: Said) -> Figures:
    names = ("member_id", "client_host", "client_id")
    return sorted(
        [group["group_id"], *(member[name] for name in names), str(len(member["partitions"]))]
        for group in said.json()
        for member in group["members"]
    )


def their_assignments(said: Said) -> Figures:
    names = ("CURRENT-EPOCH", "TARGET-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-ASSIGNMENT")
    return {row["CONSUMER-ID"]: tuple(row[name] for name in names) for row in said.table()}


def our_assignments(said: Said) -> Figures:
    (group,) = said.json()
    return {
        member["member_id"]: (
            str(member["member_epoch"]),
            str(group["target_assignment_epoch"]),
            *map(_as_kafka_has_it, (member["partitions"], member["target_partitions"])),
        )
        for member in group["members"]
    }


def their_classic_assignments(said: Said) -> Figures:
    names = ("CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "CURRENT-ASSIGNMENT")
    return [[row[name] for name in names] for row in said.table()]


def our_classic_assignments(said: Said) -> Figures:
    return [
        [
            *(member[name] for name in ("member_id", "client_host", "client_id")),
            str(len(member["partitions"])),
            _as_kafka_has_it(member["partitions"]),
        ]
        for group in said.json()
        for member in group["members"]
    ]


def _as_kafka_has_it(partitions: list[str]) -> str:
    """`orders-0`, `orders-1` as `orders:0,1`: of one topic."""
    return f"{TOPIC}:{','.join(name.rpartition('-')[2] for name in partitions)}"


def their_state(said: Said) -> Figures:
    """Coordinator, strategy, state and members, from the end of the row: ids have blanks in them."""
    rows = [_cells(line) for line in said.text.splitlines() if line.strip() and "#MEMBERS" not in line]
    return sorted([row[0], *row[-4:]] for row in rows)


def our_state(said: Said) -> Figures:
    return sorted(
        [
            group["group_id"].split()[0],
            f"{group['coordinator_address']} ({group['coordinator']})",
            group["protocol"] or "-",
            group["state"],
            str(group["member_count"]),
        ]
        for group in said.json()
    )


def their_group_epochs(said: Said) -> Figures:
    return [(row["GROUP-EPOCH"], row["TARGET-ASSIGNMENT-EPOCH"]) for row in said.table()]


def our_group_epochs(said: Said) -> Figures:
    return [(str(group["group_epoch"]), str(group["target_assignment_epoch"])) for group in said.json()]


def their_resets(said: Said) -> Figures:
    return {(row["TOPIC"], int(row["PARTITION"])): int(row["NEW-OFFSET"]) for row in said.table()}


def our_resets(said: Said) -> Figures:
    return {(move["topic"], move["partition"]): move["to_offset"] for move in said.json()["moves"]}


def their_listed(said: Said) -> Figures:
    return sorted(said.text.splitlines())


def our_listed(said: Said) -> Figures:
    return sorted(group["group_id"] for group in said.json())


def listed_with(heading: str) -> Callable[[Said], Figures]:
    """Ids have blanks in them: what is asked for is the last word of a row."""

    def figures(said: Said) -> Figures:
        first, *rows = said.text.splitlines()
        assert first.split() == ["GROUP", heading]
        return sorted((row.split()[0], row.split()[-1].lower()) for row in rows)

    return figures


def our_listed_with(name: str) -> Callable[[Said], Figures]:
    return lambda said: sorted((row["group_id"].split()[0], row[name].lower()) for row in said.json())


def their_deleted_offsets(said: Said) -> Figures:
    return {
        (row["TOPIC"], offset_of(row["PARTITION"])): row["STATUS"] == "Successful" for row in said.table()
    }


def our_deleted_offsets(said: Said) -> Figures:
    return {(row["topic"], row["partition"]): row["error"] == "NONE" for row in said.json()}


def their_deleted(said: Said) -> Figures:
    kept = re.findall(r"Group '(\S+)' could not be deleted due to: \S*\.(\w+)Exception", said.text)
    return dict(kept), "deleted successfully" in said.text


def our_deleted(said: Said) -> Figures:
    outcome = said.json()
    kept = {name: ERRORS[error] for name, error in outcome.items() if error != "NONE"}
    return kept, "NONE" in outcome.values()


ERRORS: Final = {"GROUP_ID_NOT_FOUND": "GroupIdNotFound", "NON_EMPTY_GROUP": "GroupNotEmpty"}
TEXT: Final = (lambda said: said.text.splitlines(),) * 2
CSV_LINES: Final = (lambda said: sorted(re.findall(r"^.*,\d+,\d+$", said.text, re.MULTILINE)),) * 2
"""Beside them Kafka's tool prints, on standard output, which groups have members."""
OF_PARTITIONS: Final = "committed, log end, lag, member, host, client of each partition"
OFFSETS: Final = (their_offsets, our_offsets)
RESETS: Final = (their_resets, our_resets)
LISTED: Final = (their_listed, our_listed)
DELETED: Final = (their_deleted, our_deleted)


def described(*options: str, group: tuple[str, ...] = ("--group", LIVE)) -> tuple[str, ...]:
    return ("--describe", *group, *options)


def reset(*options: str) -> tuple[str, ...]:
    return ("--reset-offsets", "--group", GROUP, *options)


def our_reset(*options: str) -> tuple[str, ...]:
    return ("reset-offsets", GROUP, *options, "--json")


def same_reset(*options: str, topics: tuple[str, ...] = ("--all-topics",)) -> Row:
    """A reset whose options are spelled alike."""
    mode = () if "--execute" in options else ("--dry-run",)
    theirs, ours = reset(*topics, *options, *mode), our_reset(*topics, *options, *mode)
    return Row(theirs, ours, "new offsets", *RESETS)


ROWS: Final = (
    Row(("--list",), ("list", "--json"), "group ids", *LISTED),
    Row(
        ("--list", "--command-config", "CONFIG", "--timeout", "20000"),
        ("list", "--command-config", "CONFIG", "--timeout", "20000", "--json"),
        "group ids",
        *LISTED,
    ),
    Row(
        ("--list", "--state"),
        ("list", "--json"),
        "each group's state",
        listed_with("STATE"),
        our_listed_with("state"),
    ),
    Row(
        ("--list", "--state", "stable,Dead"),
        ("list", "--state", "stable,Dead", "--json"),
        "each group's state",
        listed_with("STATE"),
        our_listed_with("state"),
    ),
    Row(
        ("--list", "--type"),
        ("list", "--json"),
        "each group's type",
        listed_with("TYPE"),
        our_listed_with("group_type"),
    ),
    Row(
        ("--list", "--type", "consumer"),
        ("list", "--type", "consumer", "--json"),
        "each group's type",
        listed_with("TYPE"),
        our_listed_with("group_type"),
    ),
    Row(
        described(),
        ("describe", LIVE, "--json"),
        OF_PARTITIONS,
        *OFFSETS,
    ),
    Row(
        described("--offsets", group=("--group", LIVE, "--group", NEWER)),
        ("describe", LIVE, NEWER, "--offsets", "--json"),
        OF_PARTITIONS,
        *OFFSETS,
    ),
    Row(
        described(group=("--group", BEYOND)),
        ("describe", BEYOND, "--json"),
        OF_PARTITIONS,
        *OFFSETS,
    ),
    Row(
        described("--offsets", "--verbose"),
        ("describe", LIVE, "--offsets", "--verbose", "--json"),
        "leader epoch of each commit",
        their_epochs,
        our_epochs,
    ),
    Row(
        described("--members"),
        ("describe", LIVE, "--members", "--json"),
        "id, host, client, partitions of each member",
        their_members,
        our_members,
    ),
    Row(
        described("--members", "--verbose"),
        ("describe", LIVE, "--members", "--json"),
        "id, host, client, assignment of each member",
        their_classic_assignments,
        our_classic_assignments,
    ),
    Row(
        described("--members", "--verbose", group=("--group", NEWER)),
        ("describe", NEWER, "--members", "--json"),
        "epochs, assignment, target of each member",
        their_assignments,
        our_assignments,
    ),
    Row(
        described("--state", group=("--all-groups",)),
        ("describe", "--all-groups", "--state", "--json"),
        "coordinator, strategy, state, members",
        their_state,
        our_state,
    ),
    Row(
        described("--state"),
        ("describe", LIVE, "--state", "--json"),
        "coordinator, strategy, state, members",
        their_state,
        our_state,
    ),
    Row(
        described("--state", "--verbose", group=("--group", NEWER)),
        ("describe", NEWER, "--state", "--json"),
        "group epoch, target assignment epoch",
        their_group_epochs,
        our_group_epochs,
    ),
    Row(
        reset("--all-topics", "--to-current", "--export", "--dry-run"),
        ("reset-offsets", GROUP, "--all-topics", "--to-current", "--export", "--dry-run"),
        "the lines",
        *CSV_LINES,
    ),
    Row(
        ("--reset-offsets", "--group", "idle", "--group", ODD, "--all-topics", "--to-current", "--export"),
        ("reset-offsets", "idle", ODD, "--all-topics", "--to-current", "--export"),
        "the lines",
        *CSV_LINES,
    ),
    Row(
        ("--reset-offsets", "--all-groups", "--all-topics", "--to-latest", "--export", "--dry-run"),
        (
            "reset-offsets",
            "--all-groups",
            "--match",
            ".*",
            "--all-topics",
            "--to-latest",
            "--export",
            "--dry-run",
        ),
        "the lines",
        *CSV_LINES,
    ),
    same_reset("--to-earliest"),
    same_reset("--to-latest"),
    same_reset("--to-offset", "4"),
    same_reset("--to-offset", "400"),
    same_reset("--to-datetime", "DATETIME"),
    same_reset("--by-duration", "DURATION"),
    same_reset("--shift-by", "-2"),
    same_reset("--to-current", topics=("--topic", TOPIC)),
    same_reset("--to-earliest", topics=("--topic", f"{TOPIC}:1")),
    same_reset("--to-earliest", topics=("--topic", f"{TOPIC}:0,1")),
    same_reset("--from-file", "THEIR-CSV"),
    same_reset("--from-file", "OUR-CSV"),
    same_reset("--shift-by", "3", "--execute"),
    Row(
        described(group=("--group", GROUP)),
        ("describe", GROUP, "--json"),
        OF_PARTITIONS,
        lambda said: list(their_offsets(said).values()),
        lambda said: list(our_offsets(said).values()),
    ),
    Row(
        ("--delete-offsets", "--group", GROUP, "--topic", f"{TOPIC}:1", "--topic", "gone"),
        ("delete-offsets", GROUP, "--topic", f"{TOPIC}:1", "--topic", "gone", "--json"),
        "which offsets were deleted",
        their_deleted_offsets,
        our_deleted_offsets,
    ),
    Row(
        ("--delete-offsets", "--group", LIVE, "--topic", TOPIC),
        ("delete-offsets", LIVE, "--topic", TOPIC, "--json"),
        "which offsets were deleted",
        their_deleted_offsets,
        our_deleted_offsets,
    ),
    Row(
        ("--delete", "--group", GROUP, "--group", LIVE, "--group", "gone"),
        ("delete", GROUP, LIVE, "gone", "--json"),
        "which groups were kept, and why",
        *DELETED,
    ),
    Row(("--validate-regex", "ord.*"), ("validate-regex", "ord.*"), "the text", *TEXT),
    Row(
        ("--validate-regex", "ord("),
        ("validate-regex", "ord("),
        "the text",
        *TEXT,
    ),
)

ELSEWHERE: Final = frozenset({"--help", "--version"})
"""Options that are about the tool itself."""

HEADING: Final = ("kafka-consumer-groups", "muster groups", "compared on a running 4.3.1")


def parity_table() -> str:
    """The table of docs/cli.md."""
    lines = [" | ".join(HEADING), "---|---|---"]
    for row in ROWS:
        lines.append(" | ".join((f"`{_typed(row.theirs)}`", f"`{_typed(row.ours)}`", row.compared)))
    return "".join(f"| {line} |\n" if "---" not in line else f"|{line}|\n" for line in lines)


WORDS: Final = {
    "CONFIG": "client.properties",
    "DATETIME": "2026-01-31T12:00:00.000",
    "DURATION": "PT1H",
    "THEIR-CSV": "plan.csv",
    "OUR-CSV": "muster-plan.csv",
    GROUP: "billing",
    LIVE: "live",
    ODD: "'a \"b\",c..'",
    ".*": "'.*'",
}


def _typed(arguments: tuple[str, ...]) -> str:
    typed = " ".join(WORDS.get(argument, argument) for argument in arguments if argument != "--json")
    return typed.replace("|", "\\|")


if __name__ == "__main__":
    print(parity_table(), end="")
