"""`muster nodes`: of several nodes on one Kafka, who is there, whose each shard is, and how long leases still run.

It is asked over the HTTP of one node, or of several: a lease is known to the node alone that has it. Status 0 says
that every shard is a node's, and that no lease that was seen is over.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import Parameter

from muster.connection import TOKEN_VARIABLE, Endpoint
from muster.durations import spoken
from muster.groups.running import AsJson, run
from muster.groups.tables import add_row, new_table, show, show_json, show_line
from muster.http_api import HttpApi, NoHttp, http_at
from muster.sentences import counted, say
from muster.usage import STATUS_FAILED, UsageError

DEFAULT_URL: Final = "http://127.0.0.1:9640"
PATH: Final = "/api/v1/nodes"
ACTIVE: Final = "active"


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the nodes that were asked say together."""

    nodes: Sequence[dict[str, Any]]
    shards: Sequence[dict[str, Any]]
    """By their numbers, each as its owner shows it if that was asked."""

    @property
    def problems(self) -> list[str]:
        """What is wrong, in sentences."""
        unowned = sum(each["owner"] is None for each in self.shards)
        over = [
            each["shard"] for each in self.shards if each["lease_ms"] is not None and each["lease_ms"] < 0
        ]
        known = {each["node"] for each in self.nodes}
        gone = sum(each["owner"] not in known for each in self.shards if each["owner"] is not None)
        found = {
            f"{counted(unowned, 'shard')} without a node: their groups have no coordinator": unowned,
            f"{counted(len(over), 'shard')} with a lease that is over: nothing is answered": len(over),
            f"{counted(gone, 'shard')} claimed by a node that is not there: another claims them soon": gone,
        }
        return [sentence for sentence, count in found.items() if count]


def nodes(
    *,
    http: Annotated[
        tuple[str, ...],
        Parameter(negative="", help="where a node serves HTTP; may be repeated, to see the leases of each"),
    ] = (DEFAULT_URL,),
    command_config: Annotated[Path | None, Parameter(help="properties of a Kafka client: TLS")] = None,
    http_token_file: Annotated[
        Path | None,
        Parameter(
            env_var=f"{TOKEN_VARIABLE}_FILE", help=f"file with the token of HTTP, else {TOKEN_VARIABLE}"
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Show the nodes, and whose each shard is. Status 1 where a shard has no node, or a lease is over."""
    endpoint = Endpoint(command_config=command_config, http_token_file=http_token_file)
    return run(_nodes(http, endpoint, as_json=as_json), as_json)


async def _nodes(urls: Sequence[str], endpoint: Endpoint, *, as_json: bool) -> int:
    settings = endpoint.settings()
    try:
        apis = {url: http_at(url, settings) for url in urls}
    except ValueError as error:
        raise UsageError(f"--http {error}") from None
    answers, has_failed = [], False
    for url, api in apis.items():
        answer = await _asked(url, api, as_json=as_json)
        has_failed |= answer is None
        answers += [] if answer is None else [answer]
    if not answers:
        return STATUS_FAILED
    cluster = together(answers)
    if as_json:
        show_json({"nodes": cluster.nodes, "shards": cluster.shards, "problems": cluster.problems})
    else:
        _show(cluster, int(time.time() * 1000))
    return STATUS_FAILED if has_failed or cluster.problems else 0


async def _asked(url: str, api: HttpApi, *, as_json: bool) -> dict[str, Any] | None:
    """What the node at a URL says; None if it says nothing, which is told."""
    try:
        answer: dict[str, Any] = await api.get(PATH)
    except NoHttp as error:
        is_alone = str(error) == f"{PATH}: 404"
        why = (
            "is no node of several: its log is on its own disk" if is_alone else f"does not answer ({error})"
        )
        say(f"{url} {why}", as_json)
        return None
    return answer


def together(answers: Iterable[dict[str, Any]]) -> Cluster:
    """One picture of what several nodes say: the newest table, and each shard as who serves it shows it."""
    found = sorted(answers, key=lambda each: each["table"] or 0, reverse=True)
    shards: dict[int, dict[str, Any]] = {}
    for answer in found:
        for shard in answer["shards"]:
            if shard["shard"] not in shards or shard["state"] == ACTIVE:
                shards[shard["shard"]] = shard
    return Cluster(found[0]["nodes"], [shards[number] for number in sorted(shards)])


def _show(cluster: Cluster, now_ms: int) -> None:
    owned = Counter(each["owner"] for each in cluster.shards)
    advised = Counter(each["advised"] for each in cluster.shards)
    table = new_table("node", "rack", "up for", "where", "shards", "advised")
    for node in cluster.nodes:
        places = ", ".join(
            f"{each['listener']}://{each['host']}:{each['port']}" for each in node["endpoints"]
        )
        up = spoken(max(0, now_ms - node["started_ms"]))
        number = node["node"]
        add_row(table, number, node["rack"], up, places, owned[number], advised[number])
    show(table)
    show_line("")
    table = new_table("shard", "owner", "advised", "state", "lease", "position")
    for each in cluster.shards:
        lease = None if each["lease_ms"] is None else _lease(each["lease_ms"])
        is_owners = each["state"] == ACTIVE
        add_row(
            *(table, each["shard"], each["owner"], each["advised"]),
            *(ACTIVE if is_owners else None, lease, each["position"]),
        )
    show(table)
    for problem in cluster.problems:
        show_line(problem)


def _lease(left_ms: int) -> str:
    return spoken(left_ms) if left_ms >= 0 else f"over for {spoken(-left_ms)}"
