"""From the settings of one listener to OpenSSL's context: keys, trusted certificates, versions, suites.

OpenSSL takes a key and its chain from files only. They are handed over in memory that has a file's name (T11), so
a key that was in a PKCS12 store or in a setting is written to no disk.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from coordinator.security.tls.options import StoreOptions, TlsOptions
from coordinator.security.tls.pem import pem
from coordinator.security.tls.problems import TlsProblem
from coordinator.security.tls.stores import (
    KeyStore,
    TrustStore,
    pem_key_store,
    pem_trust_store,
    read_key_store,
    read_trust_store,
)

_MEMORY: Final = Path("/proc/self/fd")

log = structlog.get_logger("muster.server")


@dataclass(frozen=True, slots=True)
class TlsContext:
    """What new connections of a listener are given, and what it was made from."""

    context: ssl.SSLContext
    key_store: KeyStore
    has_trust_store: bool


def make_context(options: TlsOptions) -> TlsContext:
    """Read the stores and make a context of them. Raises TlsProblem."""
    key_store = _load_key_store(options.key_store)
    trusted = None if options.trust_store is None else _load_trust_store(options.trust_store)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version, context.maximum_version = options.lowest, options.highest
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_COMPRESSION
    context.num_tickets = 0  # They would pause each new connection once, and be resumed with another context.
    _set_suites(context, options)
    with _as_file(key_store) as name:
        try:
            context.load_cert_chain(name, password=key_store.key_password or "")
        except (ssl.SSLError, ValueError) as error:
            raise TlsProblem(f"the key of {_origin(options.key_store)} {_what_is_wrong(error)}") from None
    if trusted is not None:
        _trust(context, trusted, options.trust_store)
    context.verify_mode = options.client_auth
    return TlsContext(context, key_store, trusted is not None)


def _load_key_store(options: StoreOptions) -> KeyStore:
    if options.path is not None:
        return read_key_store(options.path, options.kind, options.password, options.key_password)
    try:
        return pem_key_store(options.key_text or "", options.certificates_text or "", options.key_password)
    except TlsProblem as problem:
        raise TlsProblem(f"ssl.keystore.key and its certificate chain cannot be read: {problem}") from None


def _load_trust_store(options: StoreOptions) -> TrustStore:
    if options.path is not None:
        return read_trust_store(options.path, options.kind, options.password)
    try:
        return pem_trust_store(options.certificates_text or "")
    except TlsProblem as problem:
        raise TlsProblem(f"ssl.truststore.certificates cannot be read: {problem}") from None


def _set_suites(context: ssl.SSLContext, options: TlsOptions) -> None:
    suites = options.suites
    if suites.openssl:
        try:
            context.set_ciphers(":".join(suites.openssl))
        except ssl.SSLError:
            raise TlsProblem("ssl.cipher.suites has none that this OpenSSL supports") from None
        supported = {each["name"] for each in context.get_ciphers()}
        if missing := [each for each in suites.openssl if each not in supported]:
            log.warning("cipher suites that this OpenSSL does not support", suites=",".join(missing))
    if suites.are_some_1_3:
        log.warning("all cipher suites of TLS 1.3 stay on: this Python cannot choose among them")


def _trust(context: ssl.SSLContext, trusted: TrustStore, options: StoreOptions | None) -> None:
    """Trust each certificate by itself, also one that another has signed (T3)."""
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(
            cadata="".join(pem("CERTIFICATE", each) for each in trusted.certificates)
        )
    except ssl.SSLError as error:
        raise TlsProblem(f"the certificates of {_origin(options)} {_what_is_wrong(error)}") from None


@contextmanager
def _as_file(store: KeyStore) -> Iterator[str]:
    """Give the name of a file that has the key and its chain, and is gone afterwards."""
    text = store.key_pem + "".join(pem("CERTIFICATE", each) for each in store.chain)
    if hasattr(os, "memfd_create") and _MEMORY.is_dir():
        descriptor = os.memfd_create("muster-key")  # Closed in a child process.
        try:
            os.write(descriptor, text.encode())
            yield str(_MEMORY / str(descriptor))
        finally:
            os.close(descriptor)
    else:
        with tempfile.TemporaryDirectory() as directory:  # 0700, and the file 0600.
            descriptor, name = tempfile.mkstemp(dir=directory)
            os.write(descriptor, text.encode())
            os.close(descriptor)
            yield name


def _origin(options: StoreOptions | None) -> str:
    return "the settings" if options is None or options.path is None else str(options.path)


def _what_is_wrong(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    if reason == "KEY_VALUES_MISMATCH":
        return "does not belong to its certificate"
    if reason in ("EE_KEY_TOO_SMALL", "CA_MD_TOO_WEAK", "CA_KEY_TOO_SMALL", "EE_MD_TOO_WEAK"):
        return f"is too weak for OpenSSL ({reason})"
    return f"cannot be used: its password is wrong, or it is damaged ({reason or type(error).__name__})"
