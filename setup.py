"""The build: pure Python, unless MUSTER_COMPILE=1 asks for the modules of the request path as C, made by mypyc.

What is compiled behaves as its source does, which stays beside it: tracebacks name its lines. A C compiler is
needed, and mypy in the environment (`pip install --no-build-isolation`); `make compiled` sees to it. Everything
else about the project is in pyproject.toml.
"""

import os
from glob import glob

from setuptools import setup

COMPILED = [
    "coordinator/groups/*.py",
    "coordinator/groups/classic/*.py",
    "coordinator/groups/consumer/*.py",
    "coordinator/groups/consumer/assignors/*.py",
    "coordinator/offsets/*.py",
    "coordinator/runtime/clock.py",
    "coordinator/runtime/gathered_commits.py",
    "coordinator/runtime/group_runner.py",
    "coordinator/runtime/loop.py",
    "coordinator/runtime/open_batch.py",
    "coordinator/runtime/shard_runner.py",
    "coordinator/runtime/turn_share.py",
    "coordinator/server/answering.py",
    "coordinator/server/connection.py",
    "coordinator/server/ending_connection.py",  # mypyc has no interpreted class with a compiled base.
    "coordinator/server/gathering.py",
    "coordinator/server/group_apis.py",
    "coordinator/server/memory_pool.py",
    "coordinator/server/order.py",
    "coordinator/server/outgoing.py",
    "coordinator/server/prepared.py",
    "coordinator/server/splitting.py",
    "coordinator/server/turn_parts.py",
    "coordinator/shard/consumer_groups.py",
    "coordinator/shard/delete_groups.py",
    "coordinator/shard/error_responses.py",
    "coordinator/topic_catalog.py",
    "protocol/codec/codec.py",
    "protocol/codec/primitives.py",
    "protocol/codec/template.py",
    "protocol/framing.py",
    "protocol/records/batch.py",
    "protocol/records/records.py",
    "protocol/records/varint.py",
    "storage/cleaning/key_map.py",
    "storage/index/indexes.py",
    "storage/index/segment_indexes.py",
    "storage/log/durability_queue.py",
    "storage/log/durable_log.py",
    "storage/log/segment.py",
    "storage/log/writer.py",
    "storage/producers/producer_state.py",
]
"""What one heartbeat, one commit and one join run through; but for what tests put a double of their own in the
place of (the log, the flusher, timers), what is referred to weakly (`Pending`), and columns of numbers, which C
is no quicker with: `struct` and `zip` are C. Of the shard only its neighbours: the simulation watches `Shard`
from a class of its own."""

INTERPRETED = {
    "coordinator/groups/__init__.py",
    "coordinator/groups/causes.py",  # An enum whose members are made by its own `__init__`.
    "coordinator/groups/classic/__init__.py",
    "coordinator/groups/classic/states.py",  # Enums and tables: there is nothing in it to run.
    "coordinator/groups/consumer/__init__.py",
    "coordinator/groups/consumer/assignors/__init__.py",
    "coordinator/groups/consumer/computing.py",  # Classes of slots whose base is one that is interpreted.
    "coordinator/groups/consumer/describe.py",  # What it describes aside is a sequence that is no list.
    "coordinator/groups/consumer/expressions.py",  # RE2 and the thread that runs it take longer than we do.
    "coordinator/groups/consumer/record_schemas.py",
    "coordinator/groups/consumer/regexes.py",
    "coordinator/groups/consumer/states.py",
    "coordinator/groups/classic/waited_members.py",  # What HTTP reads, and no request of Kafka's.
    "coordinator/groups/consumer/waited_members.py",
    "coordinator/groups/waited_members.py",
    "coordinator/groups/record_schemas.py",  # Read by the decorators that make codecs.
    "coordinator/offsets/__init__.py",
}


def compiled() -> list[object]:
    from mypyc.build import mypycify  # Only here: a pure Python build does without it.

    files = sorted({path for pattern in COMPILED for path in glob(pattern)} - INTERPRETED)
    return list(mypycify(files, opt_level="2", debug_level="0"))


setup(ext_modules=compiled() if os.environ.get("MUSTER_COMPILE") == "1" else [])
