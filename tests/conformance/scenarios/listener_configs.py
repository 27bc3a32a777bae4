"""What may be set for a single listener at run time (Q21, T35, T36): which changes are taken, by their errors.

Words differ: Kafka's are those of its classes. Other settings of a listener, which Kafka keeps without effect and
then refuses all others for, are left alone (L10).
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from protocol.errors import ErrorCode
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from tests.conformance.encrypted import TLS, client, connect
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.scenarios.tls import VERSIONS
from tests.conformance.secured import SECURED
from tests.conformance.topic_scenes import quietly
from tests.security.tls.certificates import issued

BROKER, NODE, ALL = 4, "1", ""
SET, DELETE = 0, 1
PREFIX: Final = f"listener.name.{TLS.lower()}."
LIMITS: Final = ("max.connections", "max.connection.creation.rate")
LOCATION: Final = "ssl.keystore.location"
CONFIGS: Final = "configs of listeners"

Changes = dict[str, str | None]


async def alter(run: Run, scope: str, changes: Changes, validate_only: bool = False) -> int:
    """The error of a change of the broker's settings, which goes into the transcript; None takes one back."""
    configs = [
        IncrementalAlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
        for name, value in changes.items()
    ]
    resource = IncrementalAlterConfigsResource(resource_type=BROKER, resource_name=scope, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    error = int((await quietly(run, request, 1)).responses[0].error_code)
    shown = {name: value if value in (None, "", "0", "-1", "x") else "..." for name, value in changes.items()}
    run.saw(f"{shown} of {scope or 'all'}{', only checked' if validate_only else ''}", error)
    return error


async def is_served(run: Run) -> None:
    """A new connection through TLS is let in."""
    (await connect(run.other_bootstraps[TLS], client(VERSIONS["TLSv1.3"]))).close()


@scenario("security Q21", on=SECURED, choices=LIMITS, in_turn=CONFIGS)
async def limits_of_a_listener_may_change_and_not_to_nothing(run: Run, choice: str) -> None:
    name = PREFIX + choice
    for value in ("0", "-1", "x", ""):
        for scope in (NODE, ALL):
            error = await alter(run, scope, {name: value})
            run.expect(error == ErrorCode.INVALID_REQUEST, f"{value!r} is refused")
    for scope in (NODE, ALL):
        taken: tuple[Changes, ...] = ({name: "10000"}, {name: None})
        for changes in taken:
            run.expect(await alter(run, scope, changes) == ErrorCode.NONE, f"{changes} are taken")
            await is_served(run)


@scenario("security T35", "security T36", on=SECURED, in_turn=CONFIGS)
async def a_store_of_a_listener_may_be_another_that_is_for_the_same(run: Run) -> None:
    with tempfile.TemporaryDirectory() as folder:
        same, other, torn = (Path(folder) / name for name in ("same.pem", "other.pem", "torn.pem"))
        same.write_text(issued().pem)
        other.write_text(issued("elsewhere.example").pem)
        torn.write_text("no key")
        for scope, option, path in (
            (NODE, PREFIX + LOCATION, torn),
            (NODE, PREFIX + LOCATION, other),
            (NODE, PREFIX + LOCATION, Path(folder) / "nowhere.pem"),
            (NODE, LOCATION, same),
            (ALL, LOCATION, same),
            (ALL, PREFIX + LOCATION, same),
        ):
            error = await alter(run, scope, {option: str(path)})
            run.expect(error == ErrorCode.INVALID_REQUEST, f"{path.name} is refused")
        for validate_only in (True, False):
            error = await alter(run, NODE, {PREFIX + LOCATION: str(same)}, validate_only)
            run.expect(error == ErrorCode.NONE, "it is taken")
        await is_served(run)
        run.expect(await alter(run, NODE, {PREFIX + LOCATION: None}) == ErrorCode.NONE, "and taken back")
        await is_served(run)


@scenario("security T36", on=SECURED, in_turn=CONFIGS)
async def an_option_of_a_store_that_does_not_fit_is_refused(run: Run) -> None:
    for changes in (
        {"ssl.keystore.password": "secret"},
        {"ssl.keystore.type": "XYZ"},
        {"ssl.keystore.key": issued().key},
        {"ssl.truststore.location": "/nowhere/trusted.pem"},
        {"ssl.truststore.password": "secret"},
    ):
        error = await alter(run, NODE, {PREFIX + name: value for name, value in changes.items()})
        run.expect(error == ErrorCode.INVALID_REQUEST, f"{list(changes)} is refused")
    await is_served(run)
