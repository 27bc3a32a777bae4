"""DescribeConfigs (key 32): the settings of topics, brokers and groups, and where they come from.

Version 0 is gone since Kafka 4.0.

| version | what is new |
|---|---|
| 1 | the baseline: a setting's source, and its synonyms (KIP-226) |
| 2 | an over-quota answer is sent first and the connection muted after (KIP-219) |
| 3 | a setting's type and documentation (KIP-569) |
| 4 | flexible |
"""

from dataclasses import field
from enum import IntEnum

from protocol.codec.codec import request, response, since, struct
from protocol.codec.primitives import Int8, Int16, Int32


class ConfigResourceType(IntEnum):
    """The kinds of resource that have settings."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Where a setting's value comes from."""

    UNKNOWN = 0
    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class ConfigType(IntEnum):
    """The type of a setting's value."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


@struct
class DescribeConfigsResource:
    """One resource, and which of its settings; null asks for all."""

    resource_type: Int8
    resource_name: str
    configuration_keys: list[str] | None = field(default_factory=list)


@request(key=32, versions="1-4", flexible="4+")
class DescribeConfigsRequest:
    """The resources asked for."""

    resources: list[DescribeConfigsResource]
    include_synonyms: bool = False
    include_documentation: bool = since(3, default=False)


@struct
class DescribeConfigsSynonym:
    """A setting whose value would count if the synonyms before it were not set."""

    name: str
    value: str | None
    source: Int8


@struct
class DescribeConfigsResourceResult:
    """One setting; a sensitive one has a null value."""

    name: str
    value: str | None
    read_only: bool = False
    config_source: Int8 = -1
    is_sensitive: bool = False
    synonyms: list[DescribeConfigsSynonym] = field(default_factory=list)
    config_type: Int8 = since(3, default=0, ignorable=True)
    documentation: str | None = since(3, default="", ignorable=True)


@struct
class DescribeConfigsResult:
    """One resource, or why its settings are not shown."""

    error_code: Int16 = 0
    error_message: str | None = ""
    resource_type: Int8
    resource_name: str
    configs: list[DescribeConfigsResourceResult] = field(default_factory=list)


@response(key=32, versions="1-4", flexible="4+")
class DescribeConfigsResponse:
    """One entry per resource of the request."""

    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult] = field(default_factory=list)
