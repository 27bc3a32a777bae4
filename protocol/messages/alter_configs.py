"""AlterConfigs (key 33): replace all settings of topics, brokers and groups. Deprecated since KIP-339.

| version | what is new |
|---|---|
| 1 | an over-quota answer is sent first and the connection muted after (KIP-219) |
| 2 | flexible |
"""

from dataclasses import field

from protocol.codec.codec import request, response, struct
from protocol.codec.primitives import Int8, Int16, Int32


@struct
class AlterableConfig:
    """One setting and its new value."""

    name: str
    value: str | None


@struct
class AlterConfigsResource:
    """One resource and all its new settings; a setting that is not named goes back to its default."""

    resource_type: Int8
    resource_name: str
    configs: list[AlterableConfig] = field(default_factory=list)


@request(key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest:
    """Resources to change, or only to check."""

    resources: list[AlterConfigsResource]
    validate_only: bool = False


@struct
class AlterConfigsResourceResponse:
    """The result for one resource."""

    error_code: Int16 = 0
    error_message: str | None = ""
    resource_type: Int8
    resource_name: str


@response(key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse:
    """One entry per resource of the request."""

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = field(default_factory=list)
