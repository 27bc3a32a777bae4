"""How a client of Kafka's proves who it is and whom it trusts: read from properties, and said to each client.

The names are those of Kafka's Java client (SslConfigs, SaslConfigs) or of librdkafka; a file may have either, or
both where they say different things. What comes out are arguments for aiokafka, settings for librdkafka, and
properties for Java's client, which Spark's Kafka source is. A value is never repeated in an error, as it may be a
password. Certificates are read; no connection is opened.
"""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from coordinator.security.sasl.jaas import JaasError, parse_jaas
from coordinator.security.tls.pem import pem
from coordinator.security.tls.problems import TlsProblem
from coordinator.security.tls.stores import PEM, read_key_store, read_trust_store

PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL = "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"
PROTOCOLS: Final = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)
LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
TLS_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}

OF_JAVA: Final = frozenset(
    {
        *("security.protocol", "sasl.mechanism", "sasl.jaas.config"),
        *("ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.password"),
        *(
            "ssl.truststore.certificates",
            "ssl.keystore.type",
            "ssl.keystore.location",
            "ssl.keystore.password",
        ),
        *("ssl.keystore.key", "ssl.keystore.certificate.chain"),
        *("ssl.key.password", "ssl.endpoint.identification.algorithm", "ssl.enabled.protocols"),
    }
)
OF_LIBRDKAFKA: Final = frozenset(
    {
        *("sasl.mechanisms", "sasl.username", "sasl.password", "ssl.ca.location", "ssl.ca.pem"),
        *("ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location", "ssl.key.pem"),
    }
)
"""Names of librdkafka's alone; others it shares with Java's client."""

HONOURED: Final = OF_JAVA | OF_LIBRDKAFKA
_CERTIFICATE: Final = "-----BEGIN CERTIFICATE-----"
_JAAS_ESCAPED: Final = re.compile(r'["\\]')


T = TypeVar("T")


class ClientPropertiesError(ValueError):
    """The file cannot be read, or has a property that is refused; the message is a sentence for the user."""


@dataclass(frozen=True, slots=True)
class Login:
    """What a client logs in with."""

    mechanism: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Pem:
    """Certificates or keys in PEM, in a file or as a text; `name` is the property that has them."""

    name: str
    location: str | None = None
    text: str | None = field(default=None, repr=False)

    def read(self) -> str:
        """The text. Raises ClientPropertiesError."""
        if self.text is not None:
            return self.text
        assert self.location is not None
        location = Path(self.location)
        return str(_usable(self.name, location.read_text))


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A client's own key and the chain of its certificate, which may be in one file."""

    key: Pem
    chain: Pem
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """The protocol, the login if SASL is spoken, and with TLS what is trusted, shown and compared."""

    protocol: str = PLAINTEXT
    login: Login | None = None
    trusted: Pem | None = None
    """Authorities; None: those that the system trusts."""
    own: KeyPair | None = None
    checks_host: bool = True
    versions: tuple[str, ...] = ()
    """Names in TLS_VERSIONS; none: those that the client has by default."""

    @property
    def is_plaintext(self) -> bool:
        return self.protocol == PLAINTEXT

    def for_aiokafka(self) -> dict[str, Any]:
        """Arguments of its clients. Raises ClientPropertiesError if certificates cannot be used."""
        arguments: dict[str, Any] = {"security_protocol": self.protocol}
        if self.login is not None:
            arguments |= {
                "sasl_mechanism": self.login.mechanism,
                "sasl_plain_username": self.login.username,
                "sasl_plain_password": self.login.password,
            }
        if self.protocol in (SSL, SASL_SSL):
            arguments["ssl_context"] = self._context()
        return arguments

    def https_context(self) -> ssl.SSLContext:
        """What an HTTPS client is to trust: the authorities of the file, or those of the system."""
        return ssl.create_default_context() if self.trusted is None else _trusting(self.trusted)

    def for_librdkafka(self) -> dict[str, str]:
        """Settings of its clients; none if all is as by default. Raises ClientPropertiesError."""
        if self.is_plaintext:
            return {}
        settings = {"security.protocol": self.protocol}
        if self.login is not None:
            settings |= {
                "sasl.mechanisms": self.login.mechanism,
                "sasl.username": self.login.username,
                "sasl.password": self.login.password,
            }
        if self.protocol == SASL_PLAINTEXT:
            return settings
        if self.versions:
            raise ClientPropertiesError(
                "ssl.enabled.protocols: librdkafka cannot be told which versions to speak"
            )
        settings["ssl.endpoint.identification.algorithm"] = "https" if self.checks_host else "none"
        if self.trusted is not None:
            settings |= _placed(self.trusted, "ssl.ca.location", "ssl.ca.pem")
        if self.own is not None:
            settings |= _placed(self.own.key, "ssl.key.location", "ssl.key.pem")
            settings |= _placed(self.own.chain, "ssl.certificate.location", "ssl.certificate.pem")
            settings |= {} if self.own.password is None else {"ssl.key.password": self.own.password}
        return settings

    def for_java(self) -> dict[str, str]:
        """Properties of Kafka's Java client; none if all is as by default. Raises ClientPropertiesError."""
        if self.is_plaintext:
            return {}
        properties = {"security.protocol": self.protocol}
        if self.login is not None:
            properties |= {"sasl.mechanism": self.login.mechanism, "sasl.jaas.config": _jaas(self.login)}
        if self.protocol == SASL_PLAINTEXT:
            return properties
        properties["ssl.endpoint.identification.algorithm"] = "https" if self.checks_host else ""
        if self.versions:
            properties["ssl.enabled.protocols"] = ",".join(self.versions)
        if self.trusted is not None:
            properties["ssl.truststore.type"] = "PEM"
            properties |= _placed(self.trusted, "ssl.truststore.location", "ssl.truststore.certificates")
        if self.own is not None:
            properties |= _java_keystore(self.own)
        return properties

    def _context(self) -> ssl.SSLContext:
        context = self.https_context()
        if self.own is not None:
            _load_own(context, self.own)
        context.check_hostname = self.checks_host
        if self.versions:
            versions = [TLS_VERSIONS[name] for name in self.versions]
            context.minimum_version, context.maximum_version = min(versions), max(versions)
        return context


def client_security(properties: Mapping[str, str]) -> ClientSecurity:
    """What the properties say about security; others are passed over. Raises ClientPropertiesError."""
    protocol = properties.get("security.protocol", PLAINTEXT).upper()
    if protocol not in PROTOCOLS:
        raise ClientPropertiesError(f"security.protocol must be one of {', '.join(PROTOCOLS)}")
    has_login, has_tls = protocol in (SASL_PLAINTEXT, SASL_SSL), protocol in (SSL, SASL_SSL)
    _refuse_without("sasl.", properties, has_login, "SASL_SSL or SASL_PLAINTEXT")
    _refuse_without("ssl.", properties, has_tls, "SSL or SASL_SSL")
    login = _login(properties) if has_login else None
    if not has_tls:
        return ClientSecurity(protocol, login)
    return ClientSecurity(
        protocol,
        login,
        trusted=_trusted(properties),
        own=_own(properties),
        checks_host=_checks_host(properties),
        versions=_versions(properties),
    )


def _refuse_without(prefix: str, properties: Mapping[str, str], is_used: bool, wanted: str) -> None:
    """A password or a truststore that is not used means that security.protocol was forgotten."""
    unused = sorted(name for name in properties if name.startswith(prefix))
    if unused and not is_used:
        raise ClientPropertiesError(f"{', '.join(unused)}: of no effect unless security.protocol is {wanted}")


def _only(properties: Mapping[str, str], *names: str) -> str | None:
    """The one of these names that is given, None if none is. Raises ClientPropertiesError for two."""
    given = [name for name in names if name in properties]
    if len(given) > 1:
        raise ClientPropertiesError(f"{' and '.join(given)} say the same: give one of them")
    return given[0] if given else None


def _login(properties: Mapping[str, str]) -> Login:
    named = _only(properties, "sasl.mechanism", "sasl.mechanisms")
    mechanism = properties[named] if named else "GSSAPI"  # Kafka's default.
    if mechanism not in LOGIN_MODULES:
        raise ClientPropertiesError(f"sasl.mechanism must be one of {', '.join(LOGIN_MODULES)} here")
    if _only(properties, "sasl.jaas.config", "sasl.username"):
        _only(properties, "sasl.jaas.config", "sasl.password")
    if "sasl.username" in properties or "sasl.password" in properties:
        if missing := {"sasl.username", "sasl.password"} - properties.keys():
            raise ClientPropertiesError(f"{missing.pop()} is missing")
        return Login(mechanism, properties["sasl.username"], properties["sasl.password"])
    return _login_of_jaas(mechanism, properties.get("sasl.jaas.config", ""))


def _login_of_jaas(mechanism: str, text: str) -> Login:
    """Read as Kafka's client reads it, which passes over options that the login module has no use for."""
    wanted = f'{LOGIN_MODULES[mechanism]} required username="..." password="...";'
    try:
        module = parse_jaas(text)
    except JaasError as error:
        raise ClientPropertiesError(f"sasl.jaas.config must be {wanted} but {error}") from None
    if module.name != LOGIN_MODULES[mechanism] or not module.options.keys() >= {"username", "password"}:
        raise ClientPropertiesError(f"sasl.jaas.config must be {wanted}")
    if module.options.get("tokenauth", "").lower() == "true":
        raise ClientPropertiesError("sasl.jaas.config: a delegation token (tokenauth) is no login here")
    return Login(mechanism, module.options["username"], module.options["password"])


def _jaas(login: Login) -> str:
    """The text that Java's client reads the login from."""
    if re.search(r"[\x00-\x1f]", login.username + login.password):
        raise ClientPropertiesError("the name and the password of a login must have no control characters")
    username, password = (_JAAS_ESCAPED.sub(r"\\\g<0>", text) for text in (login.username, login.password))
    return f'{LOGIN_MODULES[login.mechanism]} required username="{username}" password="{password}";'


def _trusted(properties: Mapping[str, str]) -> Pem | None:
    name = _only(
        properties,
        *("ssl.truststore.location", "ssl.truststore.certificates", "ssl.ca.location", "ssl.ca.pem"),
    )
    _refuse_alone(properties, "truststore")
    if name != "ssl.truststore.location" or _is_pem(properties, "truststore"):
        return None if name is None else _pem(properties, name)
    place, kind, password = _store(properties, "truststore")
    store = _read_store(name, lambda: read_trust_store(place, kind, password))
    return Pem(name, text="".join(pem("CERTIFICATE", each) for each in store.certificates))


def _own(properties: Mapping[str, str]) -> KeyPair | None:
    key = _only(properties, "ssl.keystore.location", "ssl.keystore.key", "ssl.key.location", "ssl.key.pem")
    chain = _only(
        properties,
        *("ssl.keystore.location", "ssl.keystore.certificate.chain"),
        *("ssl.certificate.location", "ssl.certificate.pem"),
    )
    if key is None and chain is None:
        if "ssl.key.password" in properties:
            raise ClientPropertiesError("ssl.key.password: there is no key that it would open")
        return None
    if key is None or chain is None:
        raise ClientPropertiesError(f"{key or chain}: a key needs its certificate, and a certificate its key")
    key_password = properties.get("ssl.key.password")
    _refuse_alone(properties, "keystore")
    if key != "ssl.keystore.location" or _is_pem(properties, "keystore"):
        return KeyPair(_pem(properties, key), _pem(properties, chain), key_password)
    place, kind, password = _store(properties, "keystore")
    store = _read_store(key, lambda: read_key_store(place, kind, password, key_password))
    shown = "".join(pem("CERTIFICATE", each) for each in store.chain)
    return KeyPair(Pem(key, text=store.key_pem), Pem(key, text=shown), store.key_password)


def _is_pem(properties: Mapping[str, str], store: str) -> bool:
    return properties.get(f"ssl.{store}.type", "JKS").upper() == PEM


def _store(properties: Mapping[str, str], store: str) -> tuple[Path, str, str | None]:
    """Where a JKS or PKCS12 store is, of which type it is said to be, and its password."""
    kind = properties.get(f"ssl.{store}.type", "JKS").upper()
    if kind not in ("JKS", "PKCS12"):
        raise ClientPropertiesError(f"ssl.{store}.type must be PEM, PKCS12 or JKS")
    return Path(properties[f"ssl.{store}.location"]), kind, properties.get(f"ssl.{store}.password")


def _refuse_alone(properties: Mapping[str, str], store: str) -> None:
    """A password opens a JKS or PKCS12 store; where there is none it was meant for something else."""
    name, location = f"ssl.{store}.password", f"ssl.{store}.location"
    if name in properties and (location not in properties or _is_pem(properties, store)):
        raise ClientPropertiesError(f"{name}: there is no store of JKS or PKCS12 that it would open")


def _read_store(name: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except TlsProblem as problem:
        raise ClientPropertiesError(f"{name}: {problem}") from None


def _pem(properties: Mapping[str, str], name: str) -> Pem:
    value = properties[name]
    return Pem(name, location=value) if name.endswith(".location") else Pem(name, text=value)


def _checks_host(properties: Mapping[str, str]) -> bool:
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https").lower()
    if algorithm not in ("https", "", "none"):  # The last is librdkafka's word.
        raise ClientPropertiesError("ssl.endpoint.identification.algorithm must be https or empty")
    return algorithm == "https"


def _versions(properties: Mapping[str, str]) -> tuple[str, ...]:
    if "ssl.enabled.protocols" not in properties:
        return ()
    names = [name.strip() for name in properties["ssl.enabled.protocols"].split(",")]
    if not TLS_VERSIONS.keys() >= set(names):
        raise ClientPropertiesError(f"ssl.enabled.protocols may have {', '.join(TLS_VERSIONS)} alone")
    return tuple(names)


def _placed(pem: Pem, location: str, text: str) -> dict[str, str]:
    """The setting that has it: the name for a file, or the one for a text."""
    return {text: pem.text} if pem.text is not None else {location: pem.location or ""}


def _java_keystore(own: KeyPair) -> dict[str, str]:
    """One file is one setting; a key and a chain that stand apart are given as texts, which Java reads as well."""
    properties = {"ssl.keystore.type": "PEM"}
    if own.key == own.chain and own.key.location is not None:
        properties["ssl.keystore.location"] = own.key.location
    else:
        properties["ssl.keystore.key"] = own.key.read()
        properties["ssl.keystore.certificate.chain"] = own.chain.read()
    return properties if own.password is None else {**properties, "ssl.key.password": own.password}


def _trusting(trusted: Pem) -> ssl.SSLContext:
    text = trusted.read()
    if _CERTIFICATE not in text:  # Of an empty one Python's context would trust what the system does.
        raise ClientPropertiesError(f"{trusted.name} has no certificate in PEM")
    context: ssl.SSLContext = _usable(trusted.name, lambda: ssl.create_default_context(cadata=text))
    return context


def _load_own(context: ssl.SSLContext, own: KeyPair) -> None:
    """Have the context show the certificate. Python takes files alone, so that texts become one for a moment."""
    password = own.password or ""  # Without one the terminal would be asked.
    with _as_file(own.key) as key, _as_file(own.chain) as chain:
        _usable(own.key.name, lambda: context.load_cert_chain(chain, key, password=password))


@contextmanager
def _as_file(pem: Pem) -> Iterator[str]:
    if pem.location is not None:
        yield pem.location
        return
    with tempfile.NamedTemporaryFile("w", prefix="muster-", suffix=".pem") as file:  # Of mode 0600.
        file.write(pem.read())
        file.flush()
        yield os.fspath(file.name)


def _usable(name: str, load: Callable[[], Any]) -> Any:
    """What `load` returns. Raises ClientPropertiesError, which says by which property it failed."""
    try:
        return load()
    except ClientPropertiesError:
        raise
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError.
        reason = error.strerror if isinstance(error, OSError) else None
        raise ClientPropertiesError(f"{name} cannot be used: {reason or type(error).__name__}") from None
