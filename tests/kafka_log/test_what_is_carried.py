"""Every small file that Muster keeps beside its logs goes to Kafka by `muster log to-kafka`, or has its reason."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CARRIED = {
    "acls.json",
    "client-metrics.json",
    "client-quotas.json",
    "dynamic-settings.json",
    "features.json",
    "group-configs.json",
    "producer-ids.json",
    "scram-users.json",
    "topics.json",
}
NOT_CARRIED = {
    "acls-expected.json": "says that there have to be ACLs; in Kafka they are in its metadata log",
    "sealed-segments.json": "the sizes of segments, which only Muster looks at",
    "topics-handed-over.json": "the catalogue's name afterwards",
}


def test_no_file_is_forgotten() -> None:
    sources = [path for room in ("coordinator", "storage") for path in (ROOT / room).rglob("*.py")]
    named = {name for path in sources for name in re.findall(r'"([a-z-]+\.json)"', path.read_text())}
    assert named == CARRIED | NOT_CARRIED.keys()
