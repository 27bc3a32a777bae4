"""The configuration `secured`: a plain listener for the harness, a SASL listener for users with rights.

Over PLAINTEXT everything may be done, as User:ANONYMOUS is a super user there: that is how scripts make what they
need, ACLs included. The users of the SASL listener log in with PLAIN, but for `admin` they begin without rights.
On the listener BRIEF they do the same, and have to do it again and again. Bearer tokens, with the settings of
`tokens`, are taken on the SASL listener, and on TOKENS without a signature.
"""

from __future__ import annotations

from typing import Final

from tests.conformance.tokens import TOKENS_LISTENER

SECURED: Final = "secured"
SASL_LISTENER: Final = "SASL"
BRIEF_LISTENER: Final = "BRIEF"
LISTENERS: Final = {SASL_LISTENER: "SASL_PLAINTEXT", BRIEF_LISTENER: "SASL_PLAINTEXT"}
"""The listeners beside PLAINTEXT that SECURITY is enough for, and their protocols."""
ALL_LISTENERS: Final = {**LISTENERS, TOKENS_LISTENER: "SASL_PLAINTEXT"}
"""The listeners of both brokers beside PLAINTEXT, and their protocols."""

WITHOUT_RIGHTS: Final = "without_rights"
"""A user that no scenario gives a right."""

SCENES_USERS: Final = (
    *("topic_rights", "group_rights", "cluster_rights", "transaction_rights", "user_rights"),
    *("topic_denied", "group_denied", "cluster_denied", "transaction_denied", "user_denied"),
    *(
        "without_rights",
        "no_rights",
        "expression_rights",
        "decided_rights",
        "wildcard_rights",
        "token_rights",
    ),
)
"""Users that one scenario each gives rights to, so that scenarios may be played side by side."""

PASSWORDS: Final = {name: f"{name}-secret" for name in ("alice", "bob", "mallory", "admin", *SCENES_USERS)}
"""The users of PLAIN."""

_MODULES: Final = "org.apache.kafka.common.security"
_USERS: Final = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
_PREFIX: Final = f"listener.name.{SASL_LISTENER.lower()}"
_BRIEF: Final = f"listener.name.{BRIEF_LISTENER.lower()}"

BRIEF_MS: Final = 3_000
"""How long a session of PLAIN lasts on the listener BRIEF."""

SECURITY: Final = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    f"{_PREFIX}.plain.sasl.jaas.config": f"{_MODULES}.plain.PlainLoginModule required {_USERS};",
    f"{_PREFIX}.scram-sha-256.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
    f"{_PREFIX}.scram-sha-512.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
    f"{_BRIEF}.plain.sasl.jaas.config": f"{_MODULES}.plain.PlainLoginModule required {_USERS};",
    f"{_BRIEF}.scram-sha-256.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
    f"{_BRIEF}.scram-sha-512.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
    f"{_BRIEF}.plain.connections.max.reauth.ms": str(BRIEF_MS),
    f"{_BRIEF}.connections.max.reauth.ms": "600000",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
}
"""The settings that both brokers get beside those of every configuration."""
