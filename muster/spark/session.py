"""One Spark session in local mode, with Spark's own Kafka source and nothing listening beyond loopback.

The connector and what it needs are fetched by Spark itself (`spark.jars.packages`, through its Ivy) at the
first start, which takes a minute, and come from Ivy's cache from then on. Whoever wants a cluster instead of
local mode passes `spark.master` with the other settings.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final

import pyspark
from pyspark.sql import SparkSession

# The connector is part of Spark's release: any other version than PySpark's own would be a mismatch.
KAFKA_SOURCE: Final = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
LOOPBACK: Final = "127.0.0.1"

DEFAULTS: Final[Mapping[str, str]] = {
    "spark.master": "local[2]",
    "spark.jars.packages": KAFKA_SOURCE,
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",  # Spark's 200 are for clusters: here each costs more than its work.
    "spark.sql.session.timeZone": "UTC",
}


def spark_session(app_name: str, settings: Mapping[str, str] | None = None) -> SparkSession:
    """Start Spark with `settings` over DEFAULTS, or get the session that runs already; end it by `stop()`.

    Spark resolves relative paths where this process was when the first session started, and leaves a folder
    `artifacts` there. Python workers run on this interpreter. Raises what PySpark raises if the JVM or the
    connector cannot be had; `java.require_spark` tells the former beforehand, in a sentence.
    """
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)  # Else Spark looks up the machine's own name.
    builder = SparkSession.builder.appName(app_name)
    for name, value in {**DEFAULTS, **(settings or {})}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
