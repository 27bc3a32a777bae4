"""What is wrong with the settings of TLS, or with a file that they name."""

from __future__ import annotations


class TlsProblem(ValueError):
    """Raised for keys, certificates and rules that cannot be used; one sentence, without their content."""
