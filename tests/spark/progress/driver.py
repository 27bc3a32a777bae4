"""A user's job, as a process of its own: flights by batches into Parquet, and one line to have a group follow.

    python -m tests.spark.progress.driver BOOTSTRAP TOPIC GROUP FOLDER SECONDS

Each batch writes the places of its records (topic, partition, offset) into a folder of its own, named after it,
and replaces what an earlier attempt left there. The job ends when the topic has been read. Every batch takes
SECONDS longer than it needs to: time to kill the driver in the middle of one.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame

from muster.spark import progress
from muster.spark.flights import FIELDS
from muster.spark.session import spark_session
from tests.spark.conftest import QUICK_START

MAX_OFFSETS_PER_BATCH = 300


def main(bootstrap: str, topic: str, group: str, folder: Path, seconds: float) -> None:
    spark = spark_session("muster: progress driver", {**QUICK_START, "spark.driver.memory": "768m"})
    checkpoint = str(folder / "checkpoint")

    def write(batch: DataFrame, batch_id: int) -> None:
        batch.write.mode("overwrite").parquet(str(folder / "rows" / f"batch_id={batch_id}"))
        time.sleep(seconds)  # The batch is in the sink, and Spark does not know yet.

    records = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    records = records.option("subscribe", topic).option("startingOffsets", "earliest")
    flights = records.option("maxOffsetsPerTrigger", MAX_OFFSETS_PER_BATCH).load()
    rows = flights.selectExpr(
        "topic", "partition", "offset", f"from_json(CAST(value AS STRING), '{FIELDS}').origin AS origin"
    )
    writer = rows.writeStream.option("checkpointLocation", checkpoint).foreachBatch(write)
    progress.follow(spark, checkpoint=checkpoint, bootstrap=bootstrap, group_id=group)  # The one line.
    writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]), float(sys.argv[5]))
