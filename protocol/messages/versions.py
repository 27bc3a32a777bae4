"""The versions of each API as ApiVersions reports them: those of a running Apache Kafka 4.3.1.

Nearly always that is the range of the message class. A test holds both against what the broker said.
"""

from typing import Final

from protocol.codec.codec import spec
from protocol.messages import REQUESTS

PRODUCE_KEY: Final = 0

REPORTED_FROM: Final = {PRODUCE_KEY: 0}
"""Lowest versions that are reported but not served: librdkafka before 2.0 takes a broker without Produce 0
for one that cannot compress (KAFKA-18659). A request in them ends its connection."""

SUPPORTED: Final = {
    key: (REPORTED_FROM.get(key, spec(cls).min_version), spec(cls).max_version)
    for key, cls in REQUESTS.items()
}
"""(lowest, highest) reported version by API key."""
