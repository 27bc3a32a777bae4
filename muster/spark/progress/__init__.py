"""A streaming query's progress as the offsets of a consumer group: one line added to the user's job.

    with progress.follow(spark, checkpoint=folder, bootstrap="127.0.0.1:9092", group_id="flights-job"):
        query = flights.writeStream.option("checkpointLocation", folder).start()
        query.awaitTermination()

What is promised is in docs/spark-progress.md. `checkpoint` reads how far the query has come, `positions` has the
rules, `group_progress` takes one step, and `follower` takes them whenever there is news.
"""

from muster.spark.progress.follower import Follower, follow
from muster.spark.progress.positions import (
    CheckpointError,
    ConflictError,
    LiveMembersError,
    OffsetConflict,
    ProgressError,
)

__all__ = [
    "CheckpointError",
    "ConflictError",
    "Follower",
    "LiveMembersError",
    "OffsetConflict",
    "ProgressError",
    "follow",
]
