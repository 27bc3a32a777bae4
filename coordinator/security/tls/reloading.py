"""Certificates that are renewed while the daemon runs: read again, checked against the old ones, taken for new
connections (T35 to T37). Old connections live on with theirs. Reloads run on any thread, one at a time, and checks
on any other.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from coordinator.security.regular_file import can_be_named
from coordinator.security.tls.contexts import TlsContext, make_context
from coordinator.security.tls.names import names_of
from coordinator.security.tls.options import TlsOptions
from coordinator.security.tls.problems import TlsProblem

Stamp: TypeAlias = tuple[int, int, int] | None
"""What tells one state of a file from another: its inode, size and time of modification; None: it is not there."""


class ReloadableContext:
    """The context that new connections of one listener are given."""

    def __init__(self, options: TlsOptions) -> None:
        """Read the stores. Raises TlsProblem."""
        self.options = options
        self._tried = (options, _stamps(options))
        self.current = make_context(options)
        """Replaced as a whole, so any thread may read it."""

    def reload(self, options: TlsOptions | None = None) -> bool:
        """Read the stores again if a file of theirs has changed, or if `options` are others than before.

        Returns whether there is another context. Raises TlsProblem, once for each change, if what is there cannot
        be taken: the old context stays.
        """
        options = options or self._tried[0]
        trying = (options, _stamps(options))
        if trying == self._tried:
            return False
        self._tried = trying  # Before the files are read: what changes meanwhile is seen the next time.
        self.current = self._made_of(options)
        self.options = options
        return True

    def check(self, options: TlsOptions) -> None:
        """Raise TlsProblem if other `options` than those in force could not be taken.

        With the same ones files are not looked at: what has come of those is said when they are read again (T36).
        """
        if options != self.options:
            self._made_of(options)

    def _made_of(self, options: TlsOptions) -> TlsContext:
        made = make_context(options)
        if made.has_trust_store != self.current.has_trust_store:
            done = "added to" if made.has_trust_store else "taken from"
            raise TlsProblem(f"a trust store cannot be {done} a listener that is open")
        check_compatible(self.current, made, options)
        return made


def check_compatible(old: TlsContext, new: TlsContext, options: TlsOptions) -> None:
    """Raise TlsProblem if certificates in `new` are for others than those in `old`, and may not be (T36).

    A subject must stay, whatever its letters' case, and each alternative name must; there may be more of them.
    """
    if options.may_change_subject and options.may_change_alternatives:
        return
    entries, renewed = old.key_store.entries, new.key_store.entries
    if len(entries) != len(renewed):
        raise TlsProblem(f"the key store has {len(renewed)} entries, and had {len(entries)}")
    for before, after in zip(map(names_of, entries), map(names_of, renewed), strict=True):
        if not options.may_change_subject and before.subject.lower() != after.subject.lower():
            raise TlsProblem(
                f"the certificate is for {after.subject!r}, and was for {before.subject!r}, which only "
                "ssl.allow.dn.changes=true allows"
            )
        if not (options.may_change_alternatives or before.alternatives <= after.alternatives):
            raise TlsProblem(
                "the certificate lacks a subject alternative name that the one before had, which only "
                "ssl.allow.san.changes=true allows"
            )


def _stamps(options: TlsOptions) -> tuple[Stamp, Stamp]:
    trust_store = options.trust_store
    return _stamp(options.key_store.path), _stamp(None if trust_store is None else trust_store.path)


def _stamp(path: Path | None) -> Stamp:
    if path is None or not can_be_named(path):
        return None
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
