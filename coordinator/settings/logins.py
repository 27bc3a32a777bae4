"""The settings of logins: SASL mechanisms, their users, and what strangers may use up; a part of `Settings`."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from coordinator.settings.tokens import TokenSettings
from coordinator.settings.types import Count, CountOrZero, LongCountOrZero, Switch, WordList


class LoginSettings(TokenSettings):
    """The settings of logins: SASL mechanisms, their users, and what strangers may use up."""

    model_config = ConfigDict(defer_build=True)  # Only `Settings` is built, and without plugins.

    sasl_enabled_mechanisms: WordList = Field(
        ("GSSAPI",),
        description="Mechanisms of SASL listeners: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER. "
        "Kafka's default is not there: a SASL listener needs others.",
    )
    sasl_server_max_receive_size: Count = Field(524_288, description="Largest frame of a login.")
    connection_failed_authentication_delay_ms: CountOrZero = Field(
        100, description="How long the end of a login that has failed is held back."
    )
    connections_max_reauth_ms: LongCountOrZero = Field(
        0, description="Time after which a client has to log in again; 0: never."
    )
    muster_scram_hide_unknown_users: Switch = Field(
        False,
        description="Whether a login by SCRAM of a user who is not known fails as late as one with a wrong "
        "password, so that strangers cannot find out who is known. In Kafka it fails at the first message.",
    )
    muster_handshake_timeout_ms: Count = Field(
        30_000, description="How long a new connection may take until its client has logged in."
    )
    muster_unauthenticated_connections_max: Count = Field(
        1000,
        description="Most connections whose clients have not logged in yet, and never more than half of "
        "max.connections; further ones are closed at once.",
    )
    config_providers: WordList = Field(
        (), description="Providers of values such as ${env:NAME}; config.providers.<name>.class says which."
    )
