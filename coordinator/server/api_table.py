"""The API table: what is served, in which versions, by which handler. Dispatch and ApiVersions both read it.

An API is advertised if and only if it has a row here, so nothing is promised that does not work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from coordinator.server.api_counts import ApiCounts
from coordinator.server.pending import UNKNOWN_SOFTWARE, Pending
from coordinator.server.prepared import Prepare, Prepared
from coordinator.topics.feature_levels import HIGHEST_LEVELS, SUPPORTED_FEATURES, FeatureLevels
from protocol.codec.codec import spec
from protocol.errors import ErrorCode
from protocol.messages import REQUESTS
from protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from protocol.messages.versions import REPORTED_FROM

API_VERSIONS_KEY = 18

Handler = Callable[[Any, Pending], None]


@dataclass(frozen=True, slots=True)
class Api:
    """One row of the table: an API, its served versions and handler, and whether its requests pipeline."""

    key: int
    name: str
    request_class: type
    min_version: int  # Served from here; Produce is *reported* from 0 for librdkafka's sake.
    max_version: int
    flexible_since: int
    handle: Handler
    counts: ApiCounts
    pipelines: bool
    """Whether a request changes state at once and only its answer waits: then the next such request may start."""
    prepare: Prepare | None = None
    """Prepares a request that clients repeat, so that the following ones like it are not decoded; None: never."""
    prepare_for: Callable[[Pending, Any, int, bytes], Prepared | None] | None = None
    """As `prepare`, and used in its place, where it matters whose request it is."""


FEATURES_FROM_0_SINCE = 4
"""Clients of earlier versions cannot read a feature whose lowest version is 0 (KAFKA-17011)."""

MAX_SOFTWARE_CHARS = 256
"""Characters that are kept of the name and of the version of a client's library while it is connected."""

PIPELINED = {0, 8, 9, 12}
"""Produce, OffsetCommit, OffsetFetch, Heartbeat. All others wait for the answers before them, as in Kafka."""


def api_table(
    handlers: Mapping[int, Handler],
    prepare: Mapping[int, Prepare] | None = None,
    features: Callable[[], FeatureLevels] = lambda: HIGHEST_LEVELS,
    counts: Mapping[int, ApiCounts] | None = None,
) -> dict[int, Api]:
    """Return the table, by API key, for `handlers` by API key; a key without a handler is not served.

    `features` returns the current feature levels, for ApiVersions; `counts` are those that handlers count in.
    """
    counts, prepare = counts or {}, prepare or {}
    table = {
        key: _api(key, handle, counts.get(key) or ApiCounts(key), prepare.get(key))
        for key, handle in handlers.items()
    }
    own = ApiCounts(API_VERSIONS_KEY)
    table[API_VERSIONS_KEY] = _api(API_VERSIONS_KEY, ApiVersionsHandler(table, features), own)
    return table


def _api(key: int, handle: Handler, counts: ApiCounts, prepare: Prepare | None = None) -> Api:
    request_class = REQUESTS[key]
    message = spec(request_class)
    return Api(
        key=key,
        name=request_class.__name__.removesuffix("Request"),
        request_class=request_class,
        min_version=message.min_version,
        max_version=message.max_version,
        flexible_since=message.flexible_since,
        handle=handle,
        counts=counts,
        pipelines=key in PIPELINED,
        prepare=prepare,
    )


class ApiVersionsHandler:
    """Handler of ApiVersions (key 18), which answers with the rows of the table (KIP-35, KIP-511)."""

    def __init__(self, table: Mapping[int, Api], features: Callable[[], FeatureLevels]) -> None:
        self._table = table
        self._features = features

    def __call__(self, request: ApiVersionsRequest, pending: Pending) -> None:
        response = self.answer(request, pending.api_version)
        if not response.error_code:
            pending.connection.client_software = self.software(request)
        pending.reply(response)

    def answer(self, request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        """Return the answer to a request of a version that is served."""
        is_refused = version >= 3 and not _is_valid(request)
        return self._response(version, ErrorCode.INVALID_REQUEST if is_refused else ErrorCode.NONE)

    def software(self, request: ApiVersionsRequest) -> tuple[str, str]:
        """Return the name and version of the client's library that are kept for the connection."""
        name, version = request.client_software_name, request.client_software_version
        if not name and not version:
            return UNKNOWN_SOFTWARE
        unknown_name, unknown_version = UNKNOWN_SOFTWARE
        return name[:MAX_SOFTWARE_CHARS] or unknown_name, version[:MAX_SOFTWARE_CHARS] or unknown_version

    def _response(self, api_version: int, error: ErrorCode) -> ApiVersionsResponse:
        if error:
            return ApiVersionsResponse(error_code=error)
        features = self._features()
        return ApiVersionsResponse(
            api_keys=self._rows(),
            supported_features=[
                SupportedFeatureKey(name=name, min_version=levels[0], max_version=levels[-1])
                for name, levels in SUPPORTED_FEATURES.items()
                if levels[0] > 0 or api_version >= FEATURES_FROM_0_SINCE
            ],
            finalized_features_epoch=features.epoch,
            finalized_features=[
                FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, level in features.levels.items()
                if level > 0  # At 0 a feature is not finalized.
            ],
        )

    def _rows(self) -> list[ApiVersion]:
        return [
            ApiVersion(
                api_key=key,
                min_version=REPORTED_FROM.get(key, row.min_version),
                max_version=row.max_version,
            )
            for key, row in sorted(self._table.items())
        ]

    def unsupported_version(self, _request: None, pending: Pending) -> None:
        """Answer a request of an unknown version in v0, which every client reads, with error 35 (KIP-511)."""
        pending.api_version = 0
        pending.reply(self.unsupported())

    def unsupported(self) -> ApiVersionsResponse:
        """Return the answer to a request of an unknown version, to be sent in v0."""
        row = self._table[API_VERSIONS_KEY]
        own = ApiVersion(api_key=API_VERSIONS_KEY, min_version=row.min_version, max_version=row.max_version)
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[own])


def _is_valid(request: ApiVersionsRequest) -> bool:
    """Whether the client's software name and version are made of letters, digits, '-' and '.' only (KIP-511)."""
    return _is_software_word(request.client_software_name) and _is_software_word(
        request.client_software_version
    )


def _is_software_word(word: str) -> bool:
    inner = word.replace("-", "").replace(".", "")
    return inner.isascii() and inner.isalnum() and word[0].isalnum() and word[-1].isalnum()
