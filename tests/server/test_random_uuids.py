"""UUIDs of member ids: those of the standard library, from bytes that are taken many at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from random import Random
from uuid import RFC_4122, UUID

from coordinator.server.random_uuids import AT_ONCE, RandomUuids, random_uuid


def test_they_are_those_of_the_standard_library_for_the_same_bytes() -> None:
    chance, again = Random(1), Random(1)
    uuids, drawn = RandomUuids(chance.randbytes), b""
    for index in range(3 * AT_ONCE):
        if not drawn:
            drawn = again.randbytes(16 * AT_ONCE)
        own, drawn = drawn[:16], drawn[16:]
        assert uuids() == str(UUID(bytes=own, version=4)), index


def test_the_system_is_asked_once_for_many() -> None:
    asked: list[int] = []

    def random_bytes(count: int) -> bytes:
        asked.append(count)
        return os.urandom(count)

    uuids = RandomUuids(random_bytes)
    made = {uuids() for _ in range(2 * AT_ONCE)}
    assert asked == [16 * AT_ONCE] * 2
    assert len(made) == 2 * AT_ONCE, "no bytes are used twice"


def test_the_daemons_own_are_random() -> None:
    one, other = UUID(random_uuid()), UUID(random_uuid())
    assert one != other
    assert (one.version, one.variant) == (4, RFC_4122)


def test_a_process_that_was_forked_makes_others() -> None:
    script = (
        "import os; from coordinator.server.random_uuids import random_uuid; random_uuid(); "
        "child = os.fork(); os.write(1, random_uuid().encode() + b'\\n'); child and os.waitpid(child, 0)"
    )
    printed = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    one, other = printed.stdout.split()
    assert one != other
