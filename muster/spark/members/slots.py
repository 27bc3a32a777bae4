"""Counts the tasks that Spark could start at this moment, in local mode and on any cluster.

Spark has its own check of a barrier stage, which counts all slots, free or not, and repeats itself for ten minutes
before it gives up. A stage that passes it waits for as long as it takes for enough slots to be free at once.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from muster.spark.members.plan import MembersError

if TYPE_CHECKING:
    from pyspark import SparkContext

# Spark reports running tasks as late as its listener bus is, seldom by more than 0.1 s.
SETTLE_S: Final = 1.0
# Executors of a cluster register one by one after the context has started, which does not wait for them.
EXECUTORS_START_S: Final = 60.0  # Seen to take 30 s on a busy machine.
_POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Slots:
    """The number of tasks that Spark can run at once, and of those that it runs."""

    total: int
    busy: int

    @property
    def free(self) -> int:
        return max(0, self.total - self.busy)


def slots_now(context: SparkContext) -> Slots:
    """The slots as Spark counts them now."""
    spark: Any = context._jsc.sc()  # PySpark has no API for them.
    profile = spark.resourceProfileManager().defaultResourceProfile()
    total = spark.maxNumConcurrentTasks(profile)
    busy = sum(executor.numRunningTasks() for executor in spark.statusTracker().getExecutorInfos())
    return Slots(int(total), int(busy))


def require_slots(context: SparkContext, wanted: int, patience_s: float = SETTLE_S) -> None:
    """Raises MembersError, with the numbers, unless `wanted` slots are free within `patience_s`.

    If more are wanted than exist it waits only for executors that may still be starting.
    """
    deadline_s = time.monotonic() + patience_s
    slots = slots_now(context)
    while slots.free < wanted:
        may_grow = is_cluster(context) and (patience_s > SETTLE_S or _is_starting(context))
        is_over = time.monotonic() > deadline_s and not _is_starting(context)
        if is_over or (slots.total < wanted and not may_grow):
            raise MembersError(
                f"{wanted} members need {wanted} free slots at once, and {context.master} has {slots.free}: "
                f"{slots.total} slots, of which {slots.busy} are busy"
            )
        time.sleep(_POLL_S)
        slots = slots_now(context)


def is_cluster(context: SparkContext) -> bool:
    """Whether executors come and go; in local mode the only one exists from the start."""
    master = str(context.master)
    return not master.startswith("local") or master.startswith("local-cluster")


def _is_starting(context: SparkContext) -> bool:
    """Whether the first executors may still be starting."""
    started_s = float(context.startTime) / 1000
    return is_cluster(context) and time.time() - started_s < EXECUTORS_START_S
