"""OAUTHBEARER for the daemon's listeners: what validates tokens, as each listener's settings say (S35, S36)."""

from __future__ import annotations

from time import monotonic_ns
from typing import Final

import structlog

from coordinator.security.sasl.jaas import LoginModule
from coordinator.security.sasl.oauthbearer import OAUTHBEARER, Oauthbearer
from coordinator.security.tokens.key_url import KeyUrl, parse_key_url
from coordinator.security.tokens.keys import KeySet, KeysUnusable, need_library, parse_key_set
from coordinator.security.tokens.refreshing import RefreshedKeys, RefreshPlan
from coordinator.security.tokens.signed import Expectations, SignedTokens
from coordinator.security.tokens.unsecured import UnsecuredOptionsError, UnsecuredTokens
from coordinator.server.entrances import EntranceError
from coordinator.settings.prefixed import ListenerSettings
from coordinator.settings.tokens import URL_OPTION, takes_signed_tokens

FILE_EVERY_MS: Final = 10_000
"""How often a file of keys is read at least: that costs nothing, and a key taken out of it should not count on."""
FIRST_WAIT_S: Final = 11.0
"""How long the start waits for keys: somewhat longer than reading them may take."""

_OPTION: Final = "sasl.oauthbearer."

log = structlog.get_logger("muster.server")


class SignedOauthbearer(Oauthbearer):
    """The mechanism of a listener whose tokens are signed, with the thread that keeps its keys fresh."""

    def __init__(self, validator: SignedTokens, keys: RefreshedKeys) -> None:
        super().__init__(validator)
        self._keys = keys

    def close(self) -> None:
        """End the thread."""
        self._keys.close()


def make_oauthbearer(module: LoginModule, own: ListenerSettings) -> Oauthbearer:
    """Return the mechanism as a listener offers it; waits for its keys. Raises EntranceError."""
    try:
        if not takes_signed_tokens(own):
            log.warning("tokens without a signature are taken: anybody may be anyone", listener=own.listener)
            return Oauthbearer(UnsecuredTokens(module.options))
        return _signed(own)
    except KeysUnusable as error:
        raise EntranceError(f"the listener {own.listener} has no keys for tokens: {error}") from None
    except UnsecuredOptionsError as error:
        raise EntranceError(
            f"the login module of {OAUTHBEARER} of the listener {own.listener}: {error}"
        ) from None


def _signed(own: ListenerSettings) -> SignedOauthbearer:
    try:
        need_library()
    except KeysUnusable as error:
        raise KeysUnusable(f"what verifies them {error}") from None
    expected = Expectations(
        issuer=own.get(f"{_OPTION}expected.issuer", OAUTHBEARER),
        audiences=frozenset(own.get(f"{_OPTION}expected.audience", OAUTHBEARER)),
        name_claim=own.get(f"{_OPTION}sub.claim.name", OAUTHBEARER),
        scope_claim=own.get(f"{_OPTION}scope.claim.name", OAUTHBEARER),
        skew_s=own.get(f"{_OPTION}clock.skew.seconds", OAUTHBEARER),
    )
    for what, is_given in (("expected.audience", expected.audiences), ("expected.issuer", expected.issuer)):
        if not is_given:
            log.warning("tokens that were meant for others may be taken", without=_OPTION + what)
    text = own.get(URL_OPTION, OAUTHBEARER)
    keys = _opened(parse_key_url(text), text, own)
    return SignedOauthbearer(SignedTokens(keys, expected), keys)


def _opened(url: KeyUrl, text: str, own: ListenerSettings) -> RefreshedKeys:
    from coordinator.security.tokens.fetching import fetch  # HTTP and TLS, which few daemons need here.

    def read() -> KeySet:
        return parse_key_set(fetch(url))

    keys = RefreshedKeys(read, new_plan(url, own), _monotonic_ms, text)
    try:
        keys.open(FIRST_WAIT_S)
    except KeysUnusable as error:
        raise KeysUnusable(f"{URL_OPTION}={text}: {error}") from None
    return keys


def new_plan(url: KeyUrl, own: ListenerSettings) -> RefreshPlan:
    """Return when the keys at `url` are read, as the listener's settings say."""
    refresh_ms = own.get(f"{_OPTION}jwks.endpoint.refresh.ms", OAUTHBEARER)
    return RefreshPlan(
        min(refresh_ms, FILE_EVERY_MS) if url.is_file else refresh_ms,
        own.get(f"{_OPTION}jwks.endpoint.retry.backoff.ms", OAUTHBEARER),
        own.get(f"{_OPTION}jwks.endpoint.retry.backoff.max.ms", OAUTHBEARER),
    )


def _monotonic_ms() -> int:
    return monotonic_ns() // 1_000_000
