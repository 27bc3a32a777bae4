"""aiokafka as one link of a chain: copies a topic to another in transactions, exactly once. SIGTERM ends it.

aiokafka cannot send the generation of the group in whose name it commits in a transaction (KIP-447), nor
wait for offsets that another's transaction holds open. So it is one process for all partitions, with one
transactional id: its next life ends what the last left open (`begin_transaction` waits for that), and only then
looks where to go on.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from harness.reporting import Config, report

BATCH = 200


async def relay(config: Config) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    producer = AIOKafkaProducer(
        bootstrap_servers=config["bootstrap"],
        transactional_id=config["transactional_id"],
        transaction_timeout_ms=30_000,  # Longer than it sleeps and the broker is away, one after the other.
    )
    consumer = AIOKafkaConsumer(
        bootstrap_servers=config["bootstrap"],
        group_id=config["group"],
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    async with producer, consumer:
        consumer.assign([TopicPartition(config["source"], number) for number in range(config["partitions"])])
        report("ready")
        while not stop.is_set():
            async with producer.transaction():
                await copy_some(consumer, producer, config)


async def copy_some(consumer: AIOKafkaConsumer, producer: AIOKafkaProducer, config: Config) -> None:
    """A batch and the offsets behind it, inside the transaction that is open; an error aborts that."""
    batch = await consumer.getmany(timeout_ms=500, max_records=BATCH)
    for partition, records in batch.items():
        for record in records:
            await producer.send(config["target"], record.value, partition=partition.partition)
    if batch:
        ends = {partition: records[-1].offset + 1 for partition, records in batch.items()}
        await producer.send_offsets_to_transaction(ends, config["group"])


if __name__ == "__main__":
    asyncio.run(relay(json.loads(sys.argv[1])))
