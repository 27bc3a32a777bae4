"""ListConfigResources (key 74): what has settings of its own (KIP-714, KIP-1142).

| version | what is new |
|---|---|
| 0 | was ListClientMetricsResources: client metrics subscriptions only |
| 1 | the kinds of resource asked for, and that of each |
"""

from dataclasses import field

from protocol.codec.codec import request, response, since, struct
from protocol.codec.primitives import Int8, Int16, Int32


@request(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest:
    """The kinds of resource asked for; an empty list asks for all."""

    resource_types: list[Int8] = since(1, default_factory=list)


@struct
class ConfigResource:
    """One resource."""

    resource_name: str
    resource_type: Int8 = since(1, default=16, ignorable=True)


@response(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse:
    """The resources there are."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: list[ConfigResource] = field(default_factory=list)
