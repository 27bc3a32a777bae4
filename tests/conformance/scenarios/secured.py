"""Users of the SASL listener: who they are once they have logged in (docs/kafka-security.md S and A)."""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.metadata import MetadataRequest
from tests.conformance.actors import OTHER_TOPIC, TOPIC
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.secured import SECURED, WITHOUT_RIGHTS

METADATA_VERSION = 12


@scenario("security L9", "security S11", on=SECURED)
async def a_user_that_logged_in_is_told_of_its_own_listener(run: Run) -> None:
    """The super user sees all, a user without rights sees no topic, and each the SASL listener's address."""
    for actor in ("admin", WITHOUT_RIGHTS):
        run.logs_in(actor)
    for actor in ("harness", "admin", WITHOUT_RIGHTS):
        connection = await run.free_connection(actor)
        reply = await connection.send(MetadataRequest(topics=None), METADATA_VERSION)
        found = {topic.name for topic in reply.topics} & {TOPIC, OTHER_TOPIC}
        (node,) = reply.brokers
        run.saw(f"{actor} sees", [*sorted(found), run.bootstraps.index(f"{node.host}:{node.port}")])
        run.expect(bool(found) is (actor != WITHOUT_RIGHTS), f"{actor}: sees the topics it may see")


@scenario("security A21", on=SECURED)
async def a_user_without_rights_finds_no_coordinator(run: Run) -> None:
    run.logs_in(WITHOUT_RIGHTS)
    request = FindCoordinatorRequest(coordinator_keys=[run.group])
    reply = await run.answer(await run.send(WITHOUT_RIGHTS, request, 4))
    (found,) = reply.coordinators
    run.expect(found.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED, "DESCRIBE of the group is needed")
