"""The ids that a consumer group makes for its members, where they do not make their own (A2, A58)."""

from __future__ import annotations

from base64 import urlsafe_b64encode

OPTION_SIGN, INSTEAD = "-", "_"  # No id begins like an option of a command line, as with Kafka's own UUIDs.


def member_id_of(new_uuid: str) -> str:
    """Return a UUID in Kafka's form, 22 characters of URL-safe base64, without what classic ids have before it."""
    text = urlsafe_b64encode(bytes.fromhex(new_uuid.replace("-", ""))).decode().rstrip("=")
    return INSTEAD + text[1:] if text.startswith(OPTION_SIGN) else text
