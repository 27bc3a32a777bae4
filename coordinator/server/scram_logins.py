"""The mechanisms of SCRAM for the daemon's listeners, of the users that the daemon keeps."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Final

from coordinator.security.sasl.jaas import LoginModule
from coordinator.security.sasl.scram import Scram
from coordinator.security.scram_credentials import MECHANISMS, ScramMechanism
from coordinator.security.scram_users import ScramUsers
from coordinator.server.entrances import MakeMechanism
from coordinator.settings.prefixed import ListenerSettings

HIDE_OPTION: Final = "muster.scram.hide.unknown.users"


def offer_scram(mechanisms: MutableMapping[str, MakeMechanism], users: ScramUsers) -> None:
    """Read the users, and add to `mechanisms` how they log in. Waits for the disk. Raises StorageError."""
    users.open()
    mechanisms.update((each.name, _maker(each, users)) for each in MECHANISMS)


def _maker(mechanism: ScramMechanism, users: ScramUsers) -> MakeMechanism:
    def make(_: LoginModule, own: ListenerSettings) -> Scram:
        """Return the mechanism as a listener offers it; its module of JAAS has no options that count (S26)."""
        hides_unknown_users: bool = own.get(HIDE_OPTION, mechanism.name)
        return users.mechanism(mechanism, hides_unknown_users=hides_unknown_users)

    return make
