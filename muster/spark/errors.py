"""The error by which several parts report a failure. Plain, without Spark and without a client."""

from __future__ import annotations


class PassingError(Exception):
    """Something is out of reach now and may be back in a moment; the message is a sentence that says what."""
