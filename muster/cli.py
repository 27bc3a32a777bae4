"""The commands other than `serve`. Each command's module is imported only when the command is called."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter

from muster.sentences import say
from muster.usage import STATUS_NOT_UNDERSTOOD


def _version() -> str:
    try:
        return version("muster")
    except PackageNotFoundError:
        return "not installed: running from its sources"


app = App(
    name="muster",
    help="Kafka's group coordinator as a standalone daemon, and tools for the groups of any Kafka cluster.",
    version=_version,
    result_action="return_int_as_exit_code_else_zero",
)
app.command(
    "muster.groups.commands:app", name="groups", help="Look at groups, and change them: any Kafka cluster."
)
app.command(
    "muster.groups.top_command:top", name="top", help="The groups of a cluster, live: any Kafka cluster."
)
app.command(
    "muster.nodes_command:nodes",
    name="nodes",
    help="Several nodes on one Kafka: who is there, whose each shard is, how long leases run.",
)
app.command(
    "muster.log.commands:app", name="log", help="Logs on the disk: look, check, repair, move offsets."
)
app.command(
    "muster.observe.commands:app",
    name="observe",
    help="Keep the history of groups of an existing Kafka, read only: it joins no group and commits nothing.",
)
app.command(
    "muster.scram:app", name="scram", help="Users that log in by SCRAM: before a daemon's first start."
)
app.command("muster.spark.commands:app", name="spark", help="Run a Spark job on a topic: any Kafka cluster.")
app.register_install_completion_command(
    help="Complete commands and options in bash, zsh, fish or PowerShell: writes a file, and a line for the shell."
)


@app.command(help_flags=[])
def serve(*arguments: Annotated[str, Parameter(allow_leading_hyphen=True)]) -> int:
    """Run the daemon. See `muster serve --help`."""
    from muster.__main__ import STARTED_S
    from muster.hangup import HeldHangup
    from muster.serve import serve_command

    return serve_command(arguments, STARTED_S, HeldHangup())


def run(arguments: Sequence[str]) -> int:
    """Run one command; return its exit status, 2 for arguments that are not understood."""
    for number, argument in enumerate(arguments, start=1):
        if not argument.isascii() and any("\ud800" <= each <= "\udfff" for each in argument):
            say(f"argument {number} is no UTF-8: {argument!r}")
            return STATUS_NOT_UNDERSTOOD
    try:
        status = app(list(arguments), exit_on_error=False, print_error=False)
    except CycloptsError as error:
        say(error, as_json=not {"--json", "--jsonl"}.isdisjoint(arguments))
        return STATUS_NOT_UNDERSTOOD
    return status if isinstance(status, int) else 0
