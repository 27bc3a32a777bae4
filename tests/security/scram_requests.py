"""A user of SCRAM, made on a running daemon by its plain listener."""

from __future__ import annotations

from coordinator.security.scram_credentials import SCRAM_SHA_256
from harness.wire import WireClient
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)


def add_scram_user(bootstrap: str, name: str, password: str) -> None:
    """Make the user `name`, for SCRAM-SHA-256, of the broker at `bootstrap`."""
    salt = b"a salt of the tests"
    upsertion = ScramCredentialUpsertion(
        name=name,
        mechanism=SCRAM_SHA_256.number,
        iterations=4096,
        salt=salt,
        salted_password=SCRAM_SHA_256.salted_password(password.encode(), salt, 4096),
    )
    with WireClient(bootstrap) as client:
        answer = client.ask(AlterUserScramCredentialsRequest(upsertions=[upsertion]), 0)
    assert [each.error_code for each in answer.results] == [0]
