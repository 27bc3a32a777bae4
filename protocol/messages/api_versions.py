"""ApiVersions (key 18): the first thing a client asks: which APIs, in which versions.

A client may ask in a version that we do not know. The answer is then version 0 with
UNSUPPORTED_VERSION and our own range for this API (KIP-511), and the client asks again. For the same
reason the answer's header is never flexible: the reader cannot know yet which version it will be.

| version | what is new |
|---|---|
| 1 | throttle time in the answer |
| 2 | an over-quota answer is sent first and the connection muted after (KIP-219) |
| 3 | flexible; the client's name and version (KIP-511); cluster features in the answer (KIP-584) |
| 4 | a feature's lowest version may be 0 (KAFKA-17011) |
"""

from dataclasses import field

from protocol.codec.codec import request, response, since, struct
from protocol.codec.primitives import Int16, Int32, Int64


@request(key=18, versions="0-4", flexible="3+")
class ApiVersionsRequest:
    """From version 3 on both fields must match `[a-zA-Z0-9](?:[a-zA-Z0-9\\-.]*[a-zA-Z0-9])?`."""

    client_software_name: str = since(3, default="", ignorable=True)
    client_software_version: str = since(3, default="", ignorable=True)


@struct
class ApiVersion:
    """The versions of one API that are served, both ends included."""

    api_key: Int16
    min_version: Int16
    max_version: Int16


@struct
class SupportedFeatureKey:
    """A feature that this broker could run. Leave it out below version 4 if `min_version` is 0."""

    name: str
    min_version: Int16
    max_version: Int16


@struct
class FinalizedFeatureKey:
    """A feature that the whole cluster has switched on, and its level."""

    name: str
    max_version_level: Int16
    min_version_level: Int16


@response(key=18, versions="0-4", flexible="3+")
class ApiVersionsResponse:
    """What is served; the features are tagged fields, so a plain broker says nothing of them."""

    error_code: Int16 = 0
    api_keys: list[ApiVersion] = field(default_factory=list)
    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)

    supported_features: list[SupportedFeatureKey] = since(3, tag=0, default_factory=list, ignorable=True)
    finalized_features_epoch: Int64 = since(3, tag=1, default=-1, ignorable=True)  # -1: not known.
    finalized_features: list[FinalizedFeatureKey] = since(3, tag=2, default_factory=list, ignorable=True)
    zk_migration_ready: bool = since(3, tag=3, default=False, ignorable=True)
