"""`ssl.cipher.suites`: cipher suites by the names that they have for IANA and Java, and for OpenSSL (T14)."""

from __future__ import annotations

from typing import Final

TLS_1_3: Final = frozenset(
    {
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_AES_128_CCM_SHA256",
        "TLS_AES_128_CCM_8_SHA256",
    }
)
"""Suites of TLS 1.3, whose names OpenSSL shares. This Python cannot choose among them."""

_AUTHENTICATED: Final = {"AES_128_GCM_SHA256": "AES128-GCM-SHA256", "AES_256_GCM_SHA384": "AES256-GCM-SHA384"}
_CHACHA: Final = {"CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305"}
_CCM: Final = {
    "AES_128_CCM": "AES128-CCM",
    "AES_256_CCM": "AES256-CCM",
    "AES_128_CCM_8": "AES128-CCM8",
    "AES_256_CCM_8": "AES256-CCM8",
}
_CHAINED: Final = {"AES_128_CBC_SHA": "AES128-SHA", "AES_256_CBC_SHA": "AES256-SHA"}
_CHAINED_SHA2: Final = {"AES_128_CBC_SHA256": "AES128-SHA256", "AES_256_CBC_SHA384": "AES256-SHA384"}
_CHAINED_SHA256: Final = {"AES_128_CBC_SHA256": "AES128-SHA256", "AES_256_CBC_SHA256": "AES256-SHA256"}

TLS_1_2: Final = {
    f"TLS_{exchange.replace('-', '_')}_WITH_{iana}": f"{prefix}{openssl}"
    for exchange, prefix, suites in (
        ("ECDHE-ECDSA", "ECDHE-ECDSA-", _AUTHENTICATED | _CHACHA | _CCM | _CHAINED | _CHAINED_SHA2),
        ("ECDHE-RSA", "ECDHE-RSA-", _AUTHENTICATED | _CHACHA | _CHAINED | _CHAINED_SHA2),
        ("DHE-RSA", "DHE-RSA-", _AUTHENTICATED | _CHACHA | _CCM | _CHAINED | _CHAINED_SHA256),
        ("RSA", "", _AUTHENTICATED | _CCM | _CHAINED | _CHAINED_SHA256),
    )
    for iana, openssl in suites.items()
}
"""OpenSSL's names of the suites of TLS 1.2, by those of IANA."""
