"""TLS for listeners of HTTP with https: their key and certificates, from the stores that Kafka's listeners have.

The settings are those of Kafka's listeners with `muster.http.` before them. The loop's own TLS is used: a browser
or a scraper that is refused comes again by itself, so that an alert (T20) matters less than with Kafka's clients.
"""

from __future__ import annotations

import ssl

from coordinator.security.tls.contexts import make_context
from coordinator.security.tls.options import tls_options
from coordinator.settings.operators import OperatorSettings

PREFIX = "muster.http."


def server_context(settings: OperatorSettings) -> ssl.SSLContext:
    """Read the store, and make a context of it. Raises TlsProblem."""

    def lookup(option: str) -> str | None:
        value = getattr(settings, (PREFIX + option).replace(".", "_"), None)
        return None if value is None else str(value)

    return make_context(tls_options(lookup, client_auth=None)).context
