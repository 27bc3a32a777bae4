"""PySpark stays as it is wherever our modules are imported, and is mended in the workers of stateful jobs."""

from __future__ import annotations

import subprocess
import sys

SHOWN = """
import pickle, pkgutil, importlib
import muster.spark
from pyspark.sql.pandas.serializers import ApplyInPandasWithStateSerializer as Serializer

for found in pkgutil.walk_packages(muster.spark.__path__, "muster.spark."):
    importlib.import_module(found.name)
print("arrow_to_pandas" in vars(Serializer))

from muster.spark.events.aggregators import MemberAggregatorFactory
from muster.spark.events.stateful import BucketProcessor
sent = pickle.dumps(BucketProcessor(MemberAggregatorFactory(), "topic"))
print("arrow_to_pandas" in vars(Serializer))
received = [pickle.loads(sent), pickle.loads(sent)]
print("arrow_to_pandas" in vars(Serializer), {each._topic for each in received})

import pyarrow as pa
read = Serializer.arrow_to_pandas
offsets = pa.array([{"startOffset": 0}, None])
print(read(None, offsets).tolist(), read.__module__)
"""


def test_pyspark_is_mended_where_a_job_arrives_and_nowhere_else() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHOWN], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.splitlines() == [
        "False",
        "False",
        "True {'topic'}",
        "[{'startOffset': 0}, None] muster.spark.events.worker",
    ]
