"""The settings of TLS: keys, certificates, and what clients have to show; a part of `Settings`.

Each may be given for one listener alone, as `listener.name.<listener>.<setting>`. What fits together is looked at
for each listener with TLS (`security/tls/options.py`), so a broker's file without one may leave things out.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from coordinator.settings.types import Choice, CountOrZero, FreeText, Switch, WordList

_Text: TypeAlias = Annotated[str | None, FreeText(optional=True)]
_StoreType: TypeAlias = Annotated[str, Choice(("JKS", "PKCS12", "PEM"), is_exact=True)]

PEM_OR_OTHER: Final = "JKS and PKCS12 are told apart by the file itself"


class EncryptionSettings(BaseModel):
    """The settings of TLS: keys, certificates, and what clients have to show."""

    model_config = ConfigDict(defer_build=True)  # Only `Settings` is built, and without plugins.

    ssl_keystore_type: _StoreType = Field("JKS", description=f"The kind of key store; {PEM_OR_OTHER}.")
    ssl_keystore_location: _Text = Field(None, description="The file with the daemon's key and certificates.")
    ssl_keystore_password: _Text = Field(None, repr=False, description="Its password; not for PEM.")
    ssl_key_password: _Text = Field(
        None, repr=False, description="The key's own password; else that of the store."
    )
    ssl_keystore_key: _Text = Field(
        None, repr=False, description="The key itself, as PEM, in place of a file."
    )
    ssl_keystore_certificate_chain: _Text = Field(
        None, repr=False, description="Its certificates, as PEM, the key's own first."
    )
    ssl_truststore_type: _StoreType = Field("JKS", description=f"The kind of trust store; {PEM_OR_OTHER}.")
    ssl_truststore_location: _Text = Field(
        None, description="The file with the certificates by which those of clients are verified."
    )
    ssl_truststore_password: _Text = Field(
        None, repr=False, description="Its password; a JKS store without is read unverified."
    )
    ssl_truststore_certificates: _Text = Field(
        None, repr=False, description="Those certificates as PEM, in place of a file."
    )
    ssl_client_auth: Annotated[str, Choice(("none", "requested", "required"))] = Field(
        "none",
        description="Whether clients have to show a certificate; for SASL_SSL only with a listener's prefix.",
    )
    ssl_enabled_protocols: WordList = Field(
        ("TLSv1.2", "TLSv1.3"), description="Versions of TLS that are spoken: TLSv1.2 and TLSv1.3."
    )
    ssl_protocol: Annotated[str, FreeText()] = Field("TLSv1.3", description="Checked; chooses nothing.")
    ssl_cipher_suites: WordList = Field(
        (),
        description="Cipher suites by IANA's names; empty: OpenSSL's choice. All of TLS 1.3 are on, or none.",
    )
    ssl_principal_mapping_rules: Annotated[str, FreeText()] = Field(
        "DEFAULT", description="From the subject of a client's certificate to the name of its principal."
    )
    ssl_allow_dn_changes: Switch = Field(
        False, description="Whether a renewed certificate may be for another subject."
    )
    ssl_allow_san_changes: Switch = Field(
        False, description="Whether a renewed certificate may lack an alternative name."
    )
    muster_tls_reload_interval_ms: CountOrZero = Field(
        0,
        description="How often it is looked whether key stores and trust stores have changed; 0: only on SIGHUP "
        "and when settings of the broker are changed.",
    )
