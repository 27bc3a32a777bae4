"""The checks of the APIs of ACLs: DESCRIBE or ALTER of the cluster, behind what cannot be read (A10, A12)."""

from __future__ import annotations

from typing import Any, Final

from coordinator.access.asker import Asker
from coordinator.access.cluster import cluster, rows_refused
from coordinator.access.verdict import Check, Verdict
from coordinator.security.acl_codes import UNREADABLE, is_unreadable
from coordinator.security.acls import Operation


def _readable(check: Check) -> Check:
    def check_readable(request: Any, asker: Asker) -> Verdict:
        return Verdict(silence=UNREADABLE) if is_unreadable(request) else check(request, asker)

    return check_readable


check_describe_acls: Final[Check] = _readable(cluster(Operation.DESCRIBE))
check_create_acls: Final[Check] = _readable(cluster(Operation.ALTER, rows_refused("results")))
check_delete_acls: Final[Check] = _readable(cluster(Operation.ALTER, rows_refused("filter_results")))
