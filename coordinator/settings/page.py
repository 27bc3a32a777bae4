"""Writes `docs/settings.md`: every setting with its default, what is allowed, and what it does.

    python -m coordinator.settings.page > docs/settings.md

`make docs` runs it, and a test checks that the page is up to date. It has the reasons for defaults unlike Kafka's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from coordinator.settings.kinds import kind_of
from coordinator.settings.model import Settings, option_name

PAGE: Final = Path(__file__).resolve().parent.parent.parent / "docs" / "settings.md"

DIFFERENT_DEFAULTS: Final = {
    "listeners": "Kafka binds every interface; without authentication, loopback is the safer start",
    "log.dir": "Kafka's is under the system's folder for temporary files, which may be emptied",
    "node.id": "Kafka has none: it must be given",
    "controller.listener.names": "Kafka has none: it must be given",
    "queued.max.request.bytes": "Kafka's is -1, without a limit: some peers that send frames of 100 MB and do not "
    "finish them take all memory that there is",
    "socket.listen.backlog.size": "Kafka's is 50: when thousands of clients connect at once, those that find the "
    "queue full come again after a second, then after two more. The system cuts it to its own limit, on Linux "
    "net.core.somaxconn, which is 4096 by default",
}
"""Why the default is not Kafka's, by option."""

SEGMENTS_OF_TOPICS: Final = (
    "Kafka takes less as well; segments of a topic have 1 MiB at least, there and here"
)

NARROWER_RANGES: Final = {
    "log.cleaner.threads": "Kafka takes 0 as well, for no cleaning: here that is log.cleaner.enable=false; "
    "and any number above, though threads beyond the processors clean no faster",
    "log.flush.offset.checkpoint.interval.ms": "Kafka takes 0 as well, and then writes them once",
    "max.connection.creation.rate": "Kafka takes 0 as well, with which no client could connect",
    "offsets.topic.segment.bytes": SEGMENTS_OF_TOPICS,
    "transaction.state.log.segment.bytes": SEGMENTS_OF_TOPICS,
}
"""Why the range is narrower than Kafka's, by option."""

_ONCE: Final = "A word that is given twice is refused; Kafka takes it once, with a warning"

REMARKS: Final = {
    "group.coordinator.rebalance.protocols": "Kafka deprecates it, in favour of the feature group.version. Share "
    "and streams are taken, since Kafka's default and stock files have them, and mean nothing: no such groups are "
    f"served. {_ONCE}",
    "group.consumer.assignors": "Kafka takes the class of an assignor of one's own as well, which Muster cannot "
    f"run. {_ONCE}, but where it is given by name and by class: then its coordinator never gets ready",
}
"""What else there is to say of an option beside Kafka's."""

_HEAD: Final = """\
# Settings

Every setting has the name, the default and the range of Kafka's broker option, unless it says otherwise;
where Kafka's definition has no range, ours leaves out what would mean nothing. Those that begin with
`muster.` are our own. A setting is taken from the first of: a flag
(`--override group.max.size=10`), the environment (`MUSTER_GROUP_MAX_SIZE=10`; ours drop one prefix:
`MUSTER_FLUSH_POLICY`), the properties file given by `--config`, its default.

The settings of the client that connects to the Kafka which has the logs, if they are not on this daemon's disk,
are not in the table: they have Kafka's names for a client behind `muster.backing.`, such as
`muster.backing.bootstrap.servers`, which turns that on ([cluster.md](cluster.md)); in the environment
`MUSTER_BACKING_BOOTSTRAP_SERVERS`.

A value that is mistyped or out of range is refused at start, together with everything else that is wrong.
A name that is neither Kafka's nor ours is refused too. Names of Kafka's that are not listed here have no
meaning for Muster: they are ignored, and one line of the log lists them. In the environment only a name
close to a known one is refused, since platforms set variables of their own.

Of the coordinator's own names, `group.*` and `offset*`, those are:

- `group.share.*`, `group.streams.*`: such groups are not served;
- `group.coordinator.threads`, `group.coordinator.background.threads`: one loop serves all groups, and what takes
  long goes to threads as it is needed;
- `group.coordinator.append.linger.ms`: a turn of the loop is one write, nothing lingers;
- `group.coordinator.cached.buffer.max.bytes`: there are no buffers to keep.

| setting | default | must be | what it is |
|---|---|---|---|
"""


def settings_page() -> str:
    """Return the whole page, in Markdown."""
    return _HEAD + "".join(map(_row, sorted(Settings.model_fields, key=_is_own)))


def _is_own(attribute: str) -> bool:
    """Whether a setting is ours: those come last, otherwise in the order of the model."""
    return attribute.startswith("muster_")


def _row(attribute: str) -> str:
    option = option_name(attribute)
    field = Settings.model_fields[attribute]
    about = field.description or ""
    for reasons in (DIFFERENT_DEFAULTS, NARROWER_RANGES, REMARKS):
        if option in reasons:
            about += f" ({reasons[option]}.)"
    return f"| `{option}` | {_shown(field.default)} | {kind_of(attribute).allowed} | {about} |\n"


def _shown(default: Any) -> str:
    if default is None or default == ():
        return ""
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f"`{','.join(default) if isinstance(default, tuple) else default}`"


if __name__ == "__main__":
    print(settings_page(), end="")
