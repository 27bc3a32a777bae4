"""Three nodes on one Kafka, under clients that never stop: what is killed, stopped and cut, and what it cost.

    python -m tests.backing.rounds --rounds 5
    python -m tests.backing.rounds --rounds 200 --brokers 3 --gateway

Each round does one thing to a node or to Kafka and waits until all groups are served again. At no moment may an
acknowledged commit be lost, a read go back, or a member that beats be expired. Exits with 1, and says why, if so.
With three brokers, leaders move as well; through gateways records are written and read all the while, and each
that was acknowledged is read once, in its order.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from harness.daemon import MusterDaemon
from harness.kafka_cluster import ClusterBroker, KafkaCluster
from harness.observer import Observer
from harness.processes import HOST, wait_until
from harness.relay import Relay
from tests.backing.crowd import Client, Committer, Members, Reader, Record
from tests.backing.data_crowd import DATA_TOPIC, DataClient, DataProducer, DataReader
from tests.backing.node_processes import node

NODES = (1, 2, 3)
GROUPS = 1_000
COMMITTERS = 2
READERS = 1
MEMBERS = 20
TOPIC = "__muster_offsets"
SHARDS = 24
SERVED_S = 90.0
"""So long all groups may take until they are served again, whatever was done."""
SETTLED_S = 1.0
STANDSTILL_S = (2.0, 14.0)
"""Shorter and longer than a node's session with the group of nodes."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What the nodes have behind them and are for clients."""

    brokers: int
    is_gateway: bool


def _way(broker: ClusterBroker, node_number: int) -> Relay:
    return Relay(int(broker.bootstrap_of(f"NODE{node_number}").rpartition(":")[2]))


class Rounds:
    """Kafka, the nodes and their clients."""

    def __init__(self, folder: Path, chance: random.Random, running: ExitStack, shape: Shape) -> None:
        self.chance = chance
        self.shape = shape
        self.record = Record()
        self.figures: dict[str, list[float]] = defaultdict(list)
        listeners = {f"NODE{number}": "PLAINTEXT" for number in NODES}
        self.kafka = KafkaCluster(folder, shape.brokers, listeners)
        self.relays = {
            number: [running.enter_context(_way(broker, number)) for broker in self.kafka.brokers.values()]
            for number in NODES
        }
        for index, broker in enumerate(self.kafka.brokers.values()):
            ways = [f"NODE{number}://{relays[index].bootstrap}" for number, relays in self.relays.items()]
            own = f"PLAINTEXT://{HOST}:{broker.port}"
            broker.config["advertised.listeners"] = ",".join([own, *ways])
        running.enter_context(self.kafka)
        observer = Observer(self.kafka.bootstrap)
        for topic in ("orders", DATA_TOPIC):
            observer.create_named_topic(topic, 1)
        self.nodes = {number: running.enter_context(self._new_node(folder, number)) for number in NODES}
        self.clients = self._new_clients()

    def _new_node(self, folder: Path, number: int) -> MusterDaemon:
        settings = {"offsets.topic.num.partitions": str(SHARDS)}
        if self.shape.is_gateway:
            settings["muster.clients"] = "gateway"
        bootstrap = ",".join(relay.bootstrap for relay in self.relays[number])
        return node(folder, bootstrap, TOPIC, number, settings)

    def _new_clients(self) -> list[Client | DataClient]:
        places = [each.bootstrap for each in self.nodes.values()]
        groups = [f"group-{number}" for number in range(GROUPS)]
        clients: list[Client | DataClient] = [
            Committer(places, self.record, groups[first::COMMITTERS]) for first in range(COMMITTERS)
        ]
        clients += [Reader(places, self.record, groups) for _ in range(READERS)]
        members = Members(places, self.record, [f"member-{number}" for number in range(MEMBERS)])
        members.become_stable()
        clients.append(members)
        if self.shape.is_gateway:
            clients += [DataProducer(places, self.record), DataReader(places, self.record)]
        return clients

    def play(self, rounds: int) -> None:
        for client in self.clients:
            client.start()
        self._wait_until_served(time.monotonic())
        steps: list[Callable[[], float]] = [
            self.kill,
            self.stand_still,
            self.cut_off,
            self.kill_kafka,
            self.stop,
        ]
        if self.shape.brokers > 1:
            steps.append(self.move_leaders)
        for number in range(rounds):
            step = steps[number % len(steps)]
            print(f"round {number + 1}: {step.__name__}", flush=True)
            began_s = step()
            took_s = self._wait_until_served(began_s)
            self.figures[step.__name__].append(took_s)
            self._end_round()
        for client in self.clients:
            client.is_over.set()
            client.join(SERVED_S)
            if isinstance(client, DataProducer):
                self._wait_until_read()
        self._check()

    def _wait_until_read(self) -> None:
        """Wait until all that was acknowledged has been read."""

        def all_read() -> bool:
            self._check()
            return self.record.consumed == self.record.produced

        wait_until(all_read, "all records are read", SERVED_S)

    # What is done. Each returns since when all groups are to be served again.

    def kill(self) -> float:
        """A node is gone, and comes back when the others have taken over."""
        victim = self._any_node()
        victim.kill()
        began_s = time.monotonic()
        self.figures["kill, until others serve"].append(self._wait_until_served(began_s))
        victim.start()
        return time.monotonic()

    def stop(self) -> float:
        """A node is stopped as it should be, and comes back."""
        victim = self._any_node()
        began_s = time.monotonic()
        assert victim.terminate() == 0
        self.figures["stop, until others serve"].append(self._wait_until_served(began_s))
        victim.start()
        return time.monotonic()

    def stand_still(self) -> float:
        """A node stands still, maybe for longer than the others wait for it."""
        victim = self._any_node()
        victim.pause()
        time.sleep(self.chance.uniform(*STANDSTILL_S))
        victim.resume()
        return time.monotonic()

    def cut_off(self) -> float:
        """A node hears nothing of Kafka, while clients reach it."""
        relays = self.relays[self.chance.choice(NODES)]
        for relay in relays:
            relay.cut()
        time.sleep(self.chance.uniform(*STANDSTILL_S))
        for relay in relays:
            relay.mend()
        return time.monotonic()

    def kill_kafka(self) -> float:
        """A broker dies and is started again, after the others have taken over if there are any."""
        broker = self._any_broker()
        broker.kill()
        if self.shape.brokers > 1:
            took_s = self._wait_until_served(time.monotonic())
            self.figures["kill_kafka, until others lead"].append(took_s)
        broker.start()
        return time.monotonic()

    def move_leaders(self) -> float:
        """A broker hands over what it leads, goes, and has it again some seconds after it is back."""
        broker = self._any_broker()
        began_s = time.monotonic()
        broker.terminate()
        self.figures["move_leaders, until others lead"].append(self._wait_until_served(began_s))
        broker.start()
        return time.monotonic()

    def _any_broker(self) -> ClusterBroker:
        return self.kafka.brokers[self.chance.choice([*self.kafka.brokers])]

    def _any_node(self) -> MusterDaemon:
        return self.nodes[self.chance.choice(NODES)]

    # What is seen.

    def _wait_until_served(self, since_s: float) -> float:
        """Wait until a commit of every group was acknowledged since then; return how long that took."""

        def all_served() -> bool:
            self._check()
            served = self.record.served_s
            return len(served) == GROUPS and min(served.values()) > since_s

        wait_until(all_served, "all groups are served", SERVED_S)
        return time.monotonic() - since_s

    def _end_round(self) -> None:
        time.sleep(SETTLED_S)
        self._check()
        for client in self.clients:
            if not client.is_alive():
                raise AssertionError(f"{type(client).__name__} has ended")

    def _check(self) -> None:
        if self.record.problems:
            raise AssertionError("\n".join(self.record.problems[:20]))

    def story(self) -> str:
        record = self.record
        lines = [
            f"{record.commits:,} commits acknowledged, {record.reads:,} reads, {record.beats:,} heartbeats"
        ]
        if self.shape.is_gateway:
            lines.append(f"{record.produced:,} records acknowledged, {record.consumed:,} read")
        for name, seconds in self.figures.items():
            shown = ", ".join(f"{each:.1f}" for each in sorted(seconds))
            lines.append(f"{name}: all {GROUPS:,} groups served after {shown} s")
        return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--brokers", type=int, default=1, help="of the Kafka: 1, or 3 and so replicas")
    parser.add_argument(
        "--gateway", action="store_true", help="the nodes are gateways, with data through them"
    )
    arguments = parser.parse_args()
    shape = Shape(arguments.brokers, arguments.gateway)
    print(f"seed {arguments.seed}")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as running:
        rounds = Rounds(Path(folder), random.Random(arguments.seed), running, shape)
        try:
            rounds.play(arguments.rounds)
        except (AssertionError, TimeoutError) as error:
            print(error)
            for each in rounds.nodes.values():
                print(each.log_tail())
            print(rounds.story())
            return 1
        print(rounds.story())
    return 0


if __name__ == "__main__":
    sys.exit(main())
