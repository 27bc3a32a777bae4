"""The mechanisms that a listener may have, and the login modules of JAAS that they are configured by (S15)."""

from __future__ import annotations

from typing import Final

from coordinator.security.sasl.oauthbearer import OAUTHBEARER
from coordinator.security.sasl.plain import PLAIN

_MODULES: Final = "org.apache.kafka.common.security"

MECHANISMS: Final = {
    PLAIN: f"{_MODULES}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_MODULES}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_MODULES}.scram.ScramLoginModule",
    OAUTHBEARER: f"{_MODULES}.oauthbearer.OAuthBearerLoginModule",
}
"""The class of the login module, by the name of the mechanism."""
