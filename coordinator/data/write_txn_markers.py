"""WriteTxnMarkers (key 27): end transactions on partitions, for a transaction coordinator or an administrator.

The coordinator of this process writes markers without this API; tools that end a hanging transaction
(`kafka-transactions abort`) use it. The answer leaves when the last marker is durable.
"""

from __future__ import annotations

from functools import partial

from coordinator.data.broker import Broker, ClientRequest
from coordinator.topics.refusal import Countdown
from protocol.errors import ErrorCode
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from protocol.records.control import Marker

Results = dict[int, dict[str, dict[int, ErrorCode]]]
"""Errors by producer id, topic and partition; of several markers for the same one the last outcome counts."""


def handle(broker: Broker, request: WriteTxnMarkersRequest, pending: ClientRequest) -> None:
    """Write the markers, and answer per producer and partition. Errors: those of `Markers.write`."""
    results: Results = {}
    countdown = Countdown(lambda: pending.reply(_response(results)))
    for asked in request.markers:
        _write(broker, asked, results, countdown)
    countdown.seal()


def _write(broker: Broker, asked: WritableTxnMarker, results: Results, countdown: Countdown) -> None:
    marker = Marker(
        asked.producer_id,
        asked.producer_epoch,
        asked.coordinator_epoch,
        asked.transaction_result,
        asked.transaction_version,
    )

    def on_written(topic: str, index: int, error: ErrorCode) -> None:
        results.setdefault(asked.producer_id, {}).setdefault(topic, {})[index] = error
        countdown.end()

    for topic in asked.topics:
        for index in topic.partition_indexes:
            countdown.begin()
            broker.markers.write(marker, topic.name, index, partial(on_written, topic.name, index))


def _response(results: Results) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)
                            for index, error in partitions.items()
                        ],
                    )
                    for name, partitions in topics.items()
                ],
            )
            for producer_id, topics in results.items()
        ]
    )
