"""The transaction loop of tests/clients for as long as you like, with a seed that may be given again.

    python -m tests.soak_transactions --minutes 10

Three workers and a relay copy topics in transactions while they and the daemon are killed; see
tests/clients/transaction_loop.py for what must hold. Exits with 1, and says why, where it does not.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from harness.daemon import MusterDaemon
from tests.clients.transaction_loop import SETTINGS, TransactionLoop


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    with tempfile.TemporaryDirectory() as name, MusterDaemon(Path(name) / "broker", SETTINGS) as daemon:
        try:
            print(TransactionLoop(daemon, Path(name), random.Random(chosen.seed)).run(chosen.minutes * 60))
        except (AssertionError, TimeoutError) as error:
            print(f"{error}\nrepeat with --seed {chosen.seed}\n{daemon.log_tail()}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
