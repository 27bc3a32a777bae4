"""What DescribeConfigs shows of the settings of logins: all but their secrets (docs/kafka-security.md F12)."""

from __future__ import annotations

from protocol.messages.describe_configs import (
    ConfigResourceType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.secured import SECURED, SECURITY

NAMES = [
    *sorted(SECURITY.keys() - {"authorizer.class.name"}),
    # Over general ones, and with a mechanism's prefix that Kafka's DescribeConfigs does not know.
    *("listener.name.sasl.sasl.enabled.mechanisms", "listener.name.tokens.sasl.enabled.mechanisms"),
    "listener.name.sasl.oauthbearer.sasl.oauthbearer.expected.issuer",
    *("sasl.jaas.config", "connections.max.reauth.ms", "sasl.server.max.receive.size", "config.providers"),
]


@scenario("security F12", versions=range(1, 5), on=SECURED)
async def the_settings_of_logins_are_shown_without_their_secrets(run: Run, version: int) -> None:
    resource = DescribeConfigsResource(
        resource_type=ConfigResourceType.BROKER, resource_name="1", configuration_keys=NAMES
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    await run.answer(await run.send("harness", request, version))
