"""IncrementalAlterConfigs (key 44): change single settings of topics, brokers and groups (KIP-339).

| version | what is new |
|---|---|
| 1 | flexible |
"""

from dataclasses import field
from enum import IntEnum

from protocol.codec.codec import request, response, struct
from protocol.codec.primitives import Int8, Int32
from protocol.messages.alter_configs import AlterConfigsResourceResponse


class ConfigOperation(IntEnum):
    """What is done to a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@struct
class IncrementalAlterableConfig:
    """One setting, what is done to it and with which value."""

    name: str
    config_operation: Int8
    value: str | None


@struct
class IncrementalAlterConfigsResource:
    """One resource and the changes to its settings; a setting that is not named stays."""

    resource_type: Int8
    resource_name: str
    configs: list[IncrementalAlterableConfig] = field(default_factory=list)


@request(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
    """Resources to change, or only to check."""

    resources: list[IncrementalAlterConfigsResource]
    validate_only: bool = False


@response(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    """One entry per resource of the request."""

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = field(default_factory=list)
