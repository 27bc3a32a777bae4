"""The error by which several parts report a failure. Plain, without Spark and without a client."""

from __future__ import annotations


class PassingError(Exception):
    """Something cannot be reached now and may be back soon; the message is a sentence that says what."""
