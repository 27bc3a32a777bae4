"""The settings of bearer tokens, and of the classes that Kafka would load; parts of `Settings`.

A class cannot be loaded here. Where Kafka has one of its own, Muster does the same; another is refused, since it
would decide who gets in (L11). What only concerns a broker's own logins to others may be any of Kafka's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from coordinator.security.sasl.oauthbearer import OAUTHBEARER
from coordinator.security.tokens.key_url import KeyUrlError, parse_key_url
from coordinator.settings.prefixed import PREFIX, ListenerSettings
from coordinator.settings.types import CountOrZero, FreeText, LongCount, NonBlank, Switch, WordList

HANDLER_OPTION: Final = "sasl.server.callback.handler.class"
URL_OPTION: Final = "sasl.oauthbearer.jwks.endpoint.url"
UNSECURED_OPTION: Final = "muster.allow.unsecured.jws"

_COMMON: Final = "org.apache.kafka.common.security"
SIGNED_HANDLER: Final = f"{_COMMON}.oauthbearer.OAuthBearerValidatorCallbackHandler"
"""Validates tokens that are signed (S36)."""
UNSECURED_HANDLER: Final = (
    f"{_COMMON}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)
"""What Kafka takes if no class is named (S35)."""

HANDLERS: Final = {
    OAUTHBEARER: (SIGNED_HANDLER, UNSECURED_HANDLER),
    "PLAIN": (f"{_COMMON}.plain.internals.PlainServerCallbackHandler",),
    "SCRAM-SHA-256": (f"{_COMMON}.scram.internals.ScramServerCallbackHandler",),
    "SCRAM-SHA-512": (f"{_COMMON}.scram.internals.ScramServerCallbackHandler",),
}
"""The classes that a mechanism may have, by its name."""

DEFAULT_BUILDER: Final = f"{_COMMON}.authenticator.DefaultKafkaPrincipalBuilder"
DEFAULT_RETRIEVER: Final = f"{_COMMON}.oauthbearer.DefaultJwtRetriever"
DEFAULT_VALIDATOR: Final = f"{_COMMON}.oauthbearer.DefaultJwtValidator"


@dataclass(frozen=True, slots=True)
class KafkasClass(FreeText):
    """The name of a class that Kafka has itself: one of `names`, or any in Kafka's packages if there are none."""

    names: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        return " or ".join(self.names or ("a class of Kafka's own",)) + (
            ", or empty" if self.optional else ""
        )

    def parse(self, value: object) -> str | None:
        try:
            name = FreeText(self.optional).parse(value)
        except ValueError:
            raise ValueError(self.allowed) from None
        if name is None or name in self.names or (not self.names and name.startswith("org.apache.kafka.")):
            return name
        raise ValueError(self.allowed)


@dataclass(frozen=True, slots=True)
class Nothing(FreeText):
    """A setting of Kafka's that has to be left empty."""

    optional: bool = True

    @property
    def allowed(self) -> str:
        return "empty: there are no Java classes here to load"

    def parse(self, value: object) -> None:
        if value is not None and not (isinstance(value, str) and not value.strip()):
            raise ValueError(self.allowed)


_Text = Annotated[str | None, FreeText(optional=True)]
_OwnClass = Annotated[str | None, KafkasClass(optional=True)]
_OWN_LOGIN: Final = "About the logins of a broker to others; has no effect."


class TokenSettings(BaseModel):
    """The settings of bearer tokens, and of the classes that Kafka would load."""

    model_config = ConfigDict(defer_build=True)  # Only `Settings` is built, and without plugins.

    sasl_server_callback_handler_class: Annotated[
        str | None,
        KafkasClass(True, tuple(dict.fromkeys(name for each in HANDLERS.values() for name in each))),
    ] = Field(
        None,
        description="For OAUTHBEARER what validates tokens: OAuthBearerValidatorCallbackHandler those that are "
        "signed; without it, as in Kafka, tokens are not signed. Other mechanisms have Kafka's own class.",
    )
    sasl_oauthbearer_jwks_endpoint_url: _Text = Field(
        None,
        description="Where the keys are that tokens are signed with: https, file, or http to this machine alone.",
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: LongCount = Field(
        3_600_000, description="How often they are read; a file every ten seconds at least."
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: LongCount = Field(
        100, description="How long after a first failure they are read again; twice as long after each other."
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: LongCount = Field(
        10_000, description="The longest of these times."
    )
    sasl_oauthbearer_clock_skew_seconds: CountOrZero = Field(
        30, description="How far the clock of the tokens' issuer may be off."
    )
    sasl_oauthbearer_expected_audience: WordList = Field(
        (), description="Whom a token may be for; empty: only tokens without an audience are taken."
    )
    sasl_oauthbearer_expected_issuer: _Text = Field(
        None, description="Who has to have issued a token; empty: anybody with a key of the set."
    )
    sasl_oauthbearer_scope_claim_name: NonBlank = Field(
        "scope", description="The claim with a token's scopes."
    )
    sasl_oauthbearer_sub_claim_name: NonBlank = Field(
        "sub", description="The claim with the name of the principal."
    )
    muster_allow_unsecured_jws: Switch = Field(
        False,
        description="Whether OAUTHBEARER may take tokens without a signature, which anybody can make: for trials.",
    )
    sasl_oauthbearer_jwt_validator_class: Annotated[
        str, KafkasClass(False, (DEFAULT_VALIDATOR, f"{_COMMON}.oauthbearer.BrokerJwtValidator"))
    ] = Field(DEFAULT_VALIDATOR, description="Kafka's own, which Muster does as.")
    sasl_oauthbearer_jwt_retriever_class: Annotated[str, KafkasClass(False)] = Field(
        DEFAULT_RETRIEVER, description=_OWN_LOGIN
    )
    sasl_client_callback_handler_class: _OwnClass = Field(None, description=_OWN_LOGIN)
    sasl_login_callback_handler_class: _OwnClass = Field(None, description=_OWN_LOGIN)
    sasl_login_class: _OwnClass = Field(None, description=_OWN_LOGIN)
    principal_builder_class: Annotated[str, KafkasClass(False, (DEFAULT_BUILDER,))] = Field(
        DEFAULT_BUILDER, description="Kafka's own, which Muster does as."
    )
    ssl_engine_factory_class: Annotated[
        str | None, KafkasClass(True, (f"{_COMMON}.ssl.DefaultSslEngineFactory",))
    ] = Field(None, description="Kafka's own; chooses nothing.")
    security_providers: Annotated[None, Nothing()] = Field(None, description="Has to be empty.")


def handler_problems(mechanism: str, settings: ListenerSettings) -> Iterator[str]:
    """Yield a sentence for each reason why the listener's mechanism cannot check its clients as it says."""
    handler = settings.get(HANDLER_OPTION, mechanism)
    if handler is not None and handler not in HANDLERS[mechanism]:
        yield f"{_name(HANDLER_OPTION, mechanism, settings)} must be {' or '.join(HANDLERS[mechanism])}"
    elif mechanism == OAUTHBEARER:
        yield from _token_problems(settings)


def takes_signed_tokens(settings: ListenerSettings) -> bool:
    """Whether OAUTHBEARER takes tokens that are signed, and no others."""
    return bool(settings.get(HANDLER_OPTION, OAUTHBEARER) == SIGNED_HANDLER)


def _token_problems(settings: ListenerSettings) -> Iterator[str]:
    if not takes_signed_tokens(settings):
        if not settings.get(UNSECURED_OPTION, OAUTHBEARER):
            yield (
                f"the listener {settings.listener} would take tokens of OAUTHBEARER without a signature, which "
                f"anybody can make: {_name(HANDLER_OPTION, OAUTHBEARER, settings)}={SIGNED_HANDLER} verifies "
                f"them, {UNSECURED_OPTION}=true allows it"
            )
        return
    url = settings.get(URL_OPTION, OAUTHBEARER)
    if url is None:
        yield f"{URL_OPTION} is needed by the listener {settings.listener}, for the keys that verify tokens"
        return
    try:
        parse_key_url(url)
    except KeyUrlError as error:
        yield f"{URL_OPTION} of the listener {settings.listener} {error}"


def _name(option: str, mechanism: str, settings: ListenerSettings) -> str:
    return f"{PREFIX}{settings.listener.lower()}.{mechanism.lower()}.{option}"
