"""Settings of single listeners, configuration providers, and secrets that are shown nowhere (L1 to L7, S16)."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.security.sasl.mechanisms import MECHANISMS
from coordinator.settings.listeners import SecurityProtocol
from coordinator.settings.model import Settings
from coordinator.settings.providers import CLASSES
from coordinator.settings.sources import SettingsError, load

CANARY = "Sesame-2026"
PLAIN_MODULE = MECHANISMS["PLAIN"]
ENABLED = "sasl.enabled.mechanisms"
LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:9092,EXT://127.0.0.1:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,ext:sasl_plaintext",
}
JAAS = "listener.name.ext.plain.sasl.jaas.config"
ALICE = f'{PLAIN_MODULE} required user_alice="{CANARY}";'
SECURED = LISTENERS | {ENABLED: "PLAIN", JAAS: ALICE}
PROVIDERS = "org.apache.kafka.common.config.provider."


def refused(given: dict[str, str], environment: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(SettingsError) as error:
        load(given, environment)
    assert CANARY not in str(error.value)
    return list(error.value.problems)


def users(settings: Settings) -> dict[str, str]:
    module = settings.of_listener("EXT").login_module("PLAIN")
    assert module is not None
    return dict(module.options)


def test_a_listener_has_its_protocol_and_its_users() -> None:
    settings = load(SECURED).settings
    assert [each.protocol for each in settings.endpoints] == [
        SecurityProtocol.PLAINTEXT,
        SecurityProtocol.SASL_PLAINTEXT,
    ]
    assert users(settings) == {"user_alice": CANARY}
    assert CANARY not in repr(settings)
    assert CANARY not in str(settings)


def test_the_setting_of_a_mechanism_is_over_the_listeners_and_that_over_the_general_one() -> None:
    """L6."""
    name = "connections.max.reauth.ms"
    given = SECURED | {name: "1", f"listener.name.ext.{name}": "2", f"listener.name.ext.plain.{name}": "3"}
    settings = load(given).settings
    ext, plain = settings.of_listener("EXT"), settings.of_listener("PLAINTEXT")
    assert [ext.get(name, "PLAIN"), ext.get(name), plain.get(name)] == [3, 2, 1]
    assert [ext.text(name), plain.text(name), plain.text("log.dirs")] == ["2", "1", ""]
    assert ext.own(name) is not None
    assert plain.own(name) is None


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        # S40: what Kafka has by default is refused by its name.
        (LISTENERS, f"{ENABLED}: the listener EXT asks for GSSAPI, and there are {', '.join(MECHANISMS)}"),
        (
            LISTENERS | {"listener.name.ext.sasl.enabled.mechanisms": "PLAIN"},
            f"{JAAS} is needed by the listener EXT for PLAIN, such as: {PLAIN_MODULE} required;",
        ),
        (SECURED | {ENABLED: ""}, f"{ENABLED}: the listener EXT has none, and none could log in"),
        # Neither without the listener nor without the mechanism does it count (L7).
        (
            LISTENERS
            | {
                ENABLED: "PLAIN",
                "sasl.jaas.config": ALICE,
                "listener.name.ext.sasl.jaas.config": ALICE,
            },
            f"{JAAS} is needed by the listener EXT for PLAIN, such as: {PLAIN_MODULE} required;",
        ),
        (
            SECURED | {JAAS: f'com.example.Login required user_a="{CANARY}";'},
            f"{JAAS} must be of the login module {PLAIN_MODULE}",
        ),
        (
            SECURED | {JAAS: f"{PLAIN_MODULE} required user_a={CANARY}"},
            f"{JAAS}=[hidden] (flag) must be one login module of JAAS, but it does not end in a semicolon",
        ),
        (
            SECURED | {"listener.name.ext.connections.max.reauth.ms": "soon"},
            "listener.name.ext.connections.max.reauth.ms=soon (flag) must be a whole number from 0 to "
            "9223372036854775807",
        ),
        (
            SECURED | {"listener.name.ext.plain.sasl.jaas.confg": CANARY},
            f"unknown setting listener.name.ext.plain.sasl.jaas.confg (flag); did you mean {JAAS}?",
        ),
        (
            LISTENERS | {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXT:TLS"},
            "listener.security.protocol.map: 'EXT:TLS' has an invalid security protocol; there are "
            "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        ),
        (
            SECURED | {"connection.failed.authentication.delay.ms": "100", "connections.max.idle.ms": "100"},
            "connection.failed.authentication.delay.ms=100 must be below connections.max.idle.ms=100",
        ),
    ],
)
def test_what_does_not_fit_is_one_sentence_and_no_start(given: dict[str, str], reported: str) -> None:
    """L1, L7, S15, S40."""
    assert reported in refused(given)


def test_what_is_about_other_listeners_or_like_no_name_is_ignored_as_in_kafka() -> None:
    others = {
        "listener.name.controller.ssl.keystore.password": CANARY,
        "listener.name.ext.my.own.callback.option": CANARY,
        "listener.name.ext.num.io.threads": "3",
    }
    assert load(SECURED | others).ignored == tuple(sorted(others))


def test_names_of_listeners_are_taken_in_any_case_and_the_last_protocol_of_a_name_counts() -> None:
    given = LISTENERS | {
        "listeners": "plaintext://127.0.0.1:9092",
        "listener.security.protocol.map": "Plaintext:SSL,PLAINTEXT:plaintext",
    }
    (endpoint,) = load(given).settings.endpoints
    assert (endpoint.name, endpoint.protocol) == ("PLAINTEXT", SecurityProtocol.PLAINTEXT)


@pytest.mark.parametrize(
    ("host", "protocol", "is_open"),
    [
        ("127.0.0.1", "PLAINTEXT", False),
        ("127.9.9.9", "PLAINTEXT", False),
        ("localhost", "PLAINTEXT", False),
        ("[::1]", "PLAINTEXT", False),
        ("", "PLAINTEXT", True),
        ("10.0.0.1", "PLAINTEXT", True),
        ("10.0.0.1", "SASL_PLAINTEXT", False),
    ],
)
def test_which_listeners_are_worth_a_warning(host: str, protocol: str, is_open: bool) -> None:
    given = SECURED | {
        "listeners": f"EXT://{host}:9093",
        "listener.security.protocol.map": f"EXT:{protocol}",
    }
    (endpoint,) = load(given).settings.endpoints
    assert endpoint.is_open_to_others is is_open


def test_a_listener_on_every_interface_may_be_left_out_of_those_that_are_told() -> None:
    given = {
        "listeners": "PLAINTEXT://127.0.0.1:9092,SSL://0.0.0.0:9093",
        "advertised.listeners": "PLAINTEXT://a:1",
    }
    assert not [each for each in _problems_of(given) if "advertised" in each]
    assert refused({**given, "controller.listener.names": "PLAINTEXT"})[0].startswith(
        "advertised.listeners: at least"
    )


def _problems_of(given: dict[str, str]) -> list[str]:
    try:
        load(given)
    except SettingsError as error:
        return list(error.problems)
    return []


# Configuration providers.


def env(**more: str) -> dict[str, str]:
    return {
        "config.providers": "env",
        "config.providers.env.class": f"{PROVIDERS}EnvVarConfigProvider",
        **more,
    }


def test_a_password_comes_from_the_environment() -> None:
    jaas = f'{PLAIN_MODULE} required user_alice="${{env:ALICE}}" user_bob="b";'
    settings = load(SECURED | env() | {JAAS: jaas}, {"ALICE": CANARY}).settings
    assert users(settings) == {"user_alice": CANARY, "user_bob": "b"}


def test_values_come_from_files(tmp_path: Path) -> None:
    (tmp_path / "secrets.properties").write_text(f"alice={CANARY}\nsize=17\n")
    (tmp_path / "bob").write_text(CANARY)
    given = SECURED | {
        "config.providers": "file,dir",
        "config.providers.file.class": f"{PROVIDERS}FileConfigProvider",
        "config.providers.dir.class": f"{PROVIDERS}DirectoryConfigProvider",
        "config.providers.dir.param.allowed.paths": f"/nowhere,{tmp_path}",
        "group.max.size": f"${{file:{tmp_path}/secrets.properties:size}}",
        JAAS: f'{PLAIN_MODULE} required user_alice="${{file:{tmp_path}/secrets.properties:alice}}" '
        f'user_bob="${{dir:{tmp_path}:bob}}" user_carol="${{other:x}}";',
    }
    settings = load(given).settings
    assert users(settings) == {"user_alice": CANARY, "user_bob": CANARY, "user_carol": "${other:x}"}
    assert settings.group_max_size == 17


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        (
            {JAAS: ALICE.replace(CANARY, "${env:NO}")},
            f"{JAAS} (flag): there is no provider env: config.providers does not name it",
        ),
        (
            env() | {JAAS: ALICE.replace(CANARY, "${env:NO}")},
            f"{JAAS} (flag): the environment has no variable NO that may be used",
        ),
        (
            env(**{"config.providers.env.param.allowlist.pattern": "MY_.*"})
            | {JAAS: ALICE.replace(CANARY, "${env:SET}")},
            f"{JAAS} (flag): the environment has no variable SET that may be used",
        ),
        (
            {"config.providers": "env", "config.providers.env.class": "com.example.Provider"},
            f"config.providers.env.class must be one of {', '.join(CLASSES)}",
        ),
        (
            {
                "config.providers": "file",
                "config.providers.file.class": f"{PROVIDERS}FileConfigProvider",
                "config.providers.file.param.allowed.paths": "/nowhere",
                "log.dir": "${file:/etc/../etc/passwd:x}",
            },
            "log.dir (flag): /etc/../etc/passwd is not under param.allowed.paths",
        ),
    ],
)
def test_what_cannot_be_found_is_no_start(given: dict[str, str], reported: str) -> None:
    assert refused(SECURED | given, {"SET": CANARY}) == [reported]


def test_a_secret_that_came_from_a_provider_is_not_in_what_is_said_of_it() -> None:
    """What is shown is the text of the setting, not what was found for it."""
    given = env() | {"group.max.size": "${env:SIZE}"}
    assert refused(given, {"SIZE": CANARY}) == [
        "group.max.size=${env:SIZE} (flag) must be a whole number from 1 to 2147483647"
    ]
