"""The settings of a node whose logs are on an existing Kafka; a part of `Settings`.

That cluster is named by `muster.backing.bootstrap.servers`, which turns the mode on; other settings of the client
that connects to it have Kafka's names behind `muster.backing.`. They are a free part of the settings, as they are
those of a client, and who starts the daemon reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from coordinator.settings.types import Choice, NonBlank, Regex, Whole

PREFIX: Final = "muster.backing."
BOOTSTRAP: Final = PREFIX + "bootstrap.servers"
GATEWAY: Final = "gateway"
NODE_ID_MAX: Final = 2**31 - 1


class BackingSettings(BaseModel):
    """The fields of `Settings` about a log on Kafka."""

    model_config = ConfigDict(defer_build=True)  # Only `Settings` is built, and without plugins.

    muster_offsets_topic: NonBlank = Field(
        "__muster_offsets",
        description="With muster.backing.bootstrap.servers: the topic of that cluster that has the log. Its nodes "
        "are those with the same topic.",
    )
    muster_lease_ms: Annotated[int, Whole(500, 60_000)] = Field(
        3000,
        description="Likewise: for so long a node answers after Kafka last showed it that it is the owner, and "
        "for so long the next owner waits.",
    )
    muster_node_id_base: Annotated[int, Whole(1, NODE_ID_MAX)] = Field(
        1_000_000,
        description="Likewise: what is added to node.id for the id that clients see. Above all ids of brokers.",
    )
    muster_topic_deletion_confirm_ms: Annotated[int, Whole(500, 3_600_000)] = Field(
        30_000,
        description="Likewise: for so long a topic whose id a broker does not know has to stay unknown before it "
        "counts as deleted, and its offsets are removed. A broker may hear of a new topic that much later than "
        "another.",
    )
    muster_clients: Annotated[str, Choice(("delegated", GATEWAY))] = Field(
        "delegated",
        description="Likewise: how clients come here. `delegated`: who answers FindCoordinator for them sends "
        "them; `gateway`: they bootstrap here, and reach the brokers of that cluster through this node.",
    )
    muster_gateway_first_port: Annotated[int, Whole(0, 65_535)] = Field(
        0,
        description="For a gateway: the port behind which broker 0 is; every broker's is that many higher as its "
        "id is. 0: any free ports, which change with each start.",
    )
    muster_groups_include: Annotated[str, Regex()] = Field(
        ".*",
        description="For a gateway: the groups that have their coordinator here, as a regular expression; others "
        "stay with the brokers.",
    )
    muster_group_authorization: Annotated[str, Choice(("", "none"))] = Field(
        "",
        description="For a gateway to a cluster that has an authorizer: `none` says that its ACLs of groups need "
        "not hold here. Without it such a cluster is refused.",
    )


def is_of_client(name: str) -> bool:
    """Whether a variable of the environment is meant for that client: platforms set others by a service's name."""
    return name in ("bootstrap.servers", "client.id", "security.protocol") or name.startswith(
        ("sasl.", "ssl.")
    )


def client_properties(texts: Mapping[str, str]) -> dict[str, str]:
    """The settings of the client that connects to the backing cluster, under a client's names."""
    return {name.removeprefix(PREFIX): text for name, text in texts.items() if name.startswith(PREFIX)}
