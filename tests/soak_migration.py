"""The migration of tests/clients with ten members, five times up and down, or as often as you like.

    python -m tests.soak_migration --rounds 5

Five Java and five librdkafka consumers go one by one from the classic protocol to the consumer protocol and back,
under load, and in the middle of one round the broker is killed, unless `--spare`; tests/clients/migration.py says
what must hold. `--target kafka` runs it on Apache Kafka. Exits with 1, and says why, where it does not hold.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from harness.daemon import MusterDaemon
from harness.kafka_broker import KafkaBroker
from tests.clients.migration import SETTINGS, Migration, Plan

TARGETS = {"muster": MusterDaemon, "kafka": KafkaBroker}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument(
        "--spare", action="store_true", help="kill no broker: then no record may be read twice"
    )
    parser.add_argument("--target", choices=TARGETS, default="muster")
    chosen = parser.parse_args()
    plan = Plan(chosen.members, chosen.rounds, kills=not chosen.spare)
    with (
        tempfile.TemporaryDirectory() as name,
        TARGETS[chosen.target](Path(name) / "broker", SETTINGS) as broker,
    ):
        try:
            print(Migration(broker, Path(name), plan).run())
        except (AssertionError, TimeoutError) as error:
            print(f"{error}\n{broker.log_tail()}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
