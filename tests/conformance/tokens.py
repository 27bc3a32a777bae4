"""Bearer tokens for both brokers: an issuer's key, its key set in a file, and listeners that take tokens.

The SASL listener takes signed ones, by OAUTHBEARER beside its other mechanisms; the listener TOKENS, which has no
other, takes those without a signature. The key is made anew in each run.
"""

from __future__ import annotations

import json
import tempfile
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm, get_default_algorithms

from coordinator.settings.tokens import UNSECURED_OPTION

OAUTHBEARER: Final = "OAUTHBEARER"
TOKENS_LISTENER: Final = "TOKENS"
AUDIENCE: Final = "brokers"
ISSUER: Final = "https://issuer.example"
KEY_ID: Final = "the-key"

_COMMON: Final = "org.apache.kafka.common.security.oauthbearer"
_ALLOWED: Final = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"


@cache
def private_key() -> rsa.RSAPrivateKey:
    """The issuer's key."""
    return rsa.generate_private_key(65537, 2048)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="conformance-keys-")


@cache
def key_url() -> str:
    """Where the key set is, which is there until the run ends."""
    file = Path(_folder().name) / "keys.json"
    member = {**RSAAlgorithm.to_jwk(private_key().public_key(), as_dict=True), "kid": KEY_ID, "use": "sig"}
    member.pop("key_ops", None)
    file.write_text(json.dumps({"keys": [member]}))
    return file.as_uri()


def token_settings(kind: str) -> dict[str, str]:
    """The settings of a broker, "kafka" or "muster", beside those of its other mechanisms."""
    signed, unsecured = (f"listener.name.{name}.{OAUTHBEARER.lower()}" for name in ("sasl", "tokens"))
    allowed = {UNSECURED_OPTION: "true"} if kind == "muster" else {}
    return allowed | {
        "listener.name.sasl.sasl.enabled.mechanisms": f"PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,{OAUTHBEARER}",
        "listener.name.tokens.sasl.enabled.mechanisms": OAUTHBEARER,
        f"{signed}.sasl.jaas.config": f"{_COMMON}.OAuthBearerLoginModule required;",
        f"{signed}.sasl.server.callback.handler.class": f"{_COMMON}.OAuthBearerValidatorCallbackHandler",
        f"{signed}.sasl.oauthbearer.jwks.endpoint.url": key_url(),
        f"{signed}.sasl.oauthbearer.expected.issuer": ISSUER,
        f"{signed}.sasl.oauthbearer.expected.audience": AUDIENCE,
        f"{unsecured}.sasl.jaas.config": f"{_COMMON}.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="broker" unsecuredValidatorRequiredScope="a b";',
    }


def java_options() -> tuple[str, ...]:
    """What lets Kafka read the key set."""
    return (f"{_ALLOWED}.urls={key_url()}", f"{_ALLOWED}.files={key_url()}")


def encoded(part: Mapping[str, Any] | bytes) -> str:
    data = part if isinstance(part, bytes) else json.dumps(part).encode()
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def claims(**others: Any) -> dict[str, Any]:
    """Claims that are good on both listeners; None takes one away."""
    now_s = int(time.time())
    good = {"sub": "alice", "iat": now_s - 100, "exp": now_s + 600, "aud": AUDIENCE, "iss": ISSUER}
    found = good | {"scope": ["a", "b"]} | others
    return {name: value for name, value in found.items() if value is not None}


def unsecured(
    given: Mapping[str, Any] | bytes, header: Mapping[str, Any] | bytes, signature: str = ""
) -> str:
    return f"{encoded(header)}.{encoded(given)}.{signature}"


def signed(given: Mapping[str, Any] | bytes, algorithm: str = "RS256", **header: Any) -> str:
    """A token of the issuer's; None takes a name out of its header."""
    named = {"alg": algorithm, "kid": KEY_ID, **header}
    head = {name: value for name, value in named.items() if value is not None}
    text = f"{encoded(head)}.{encoded(given)}"
    return f"{text}.{encoded(get_default_algorithms()[algorithm].sign(text.encode(), private_key()))}"
