"""HTTP that asks for a token, and HTTPS: of a real daemon, and as the command line asks it."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from coordinator.http.exchange import HttpProblem
from coordinator.http.start import is_loopback
from coordinator.http.token import OPEN_PATHS, TOKEN_MIN, BearerToken, TokenError
from harness.daemon import ROOT, MusterDaemon
from harness.http_client import HttpAnswer, get, send_raw
from harness.processes import HOST, free_port, wait_until
from harness.secured import Certificates
from harness.wire import WireClient
from muster.client_properties import ClientSettings
from muster.http_api import _reachable
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.http.test_http_daemon import FEW, PATIENCE_S, daemon_with_http, join

TOKEN = "canary-of-the-token.0123456789"
KEY_PASSWORD = "canary-of-the-key"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[MusterDaemon, int]]:
    daemon, port = daemon_with_http(tmp_path_factory.mktemp("http_token"), **{"muster.http.token": TOKEN})
    with daemon:
        wait_until(lambda: get(port, "/readyz", BEARER).status == 200, "the shards are loaded", PATIENCE_S)
        yield daemon, port


@pytest.fixture(scope="module")
def encrypted(
    certificates: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[MusterDaemon, int]]:
    """HTTPS whose token is in a file, and whose key has a password."""
    folder, port = tmp_path_factory.mktemp("https"), free_port()
    (folder / "token").write_text(f"{TOKEN}\n")
    locked = folder / "locked.pem"
    command = [
        "openssl",
        "pkcs8",
        "-topk8",
        "-in",
        str(certificates.server),
        "-passout",
        f"pass:{KEY_PASSWORD}",
    ]
    key = subprocess.run(command, check=True, capture_output=True).stdout
    text = certificates.server.read_bytes()
    locked.write_bytes(key + text[text.index(b"-----BEGIN CERTIFICATE") :])
    settings = {
        **FEW,
        "muster.http.listeners": f"https://{HOST}:{port}",
        "muster.http.token.file": str(folder / "token"),
        "muster.http.ssl.keystore.location": str(locked),
        "muster.http.ssl.key.password": KEY_PASSWORD,
    }
    with MusterDaemon(folder / "daemon", settings) as daemon:
        yield daemon, port


def get_tls(port: int, path: str, certificates: Certificates, **headers: str) -> HttpAnswer:
    trusting = ssl.create_default_context(cafile=str(certificates.authority))
    connection = HTTPSConnection(HOST, port, timeout=PATIENCE_S, context=trusting)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return HttpAnswer(answer.status, dict(answer.getheaders()), answer.read())
    finally:
        connection.close()


def test_all_but_probes_ask_for_the_token(asking: tuple[MusterDaemon, int]) -> None:
    """Also what is not there: without the token it does not show."""
    _, port = asking
    assert {path: get(port, path).status for path in OPEN_PATHS} == dict.fromkeys(OPEN_PATHS, 200)
    for path in ("/metrics", "/api/v1/groups", "/api/v1/events", "/api/v1/settings", "/nothing"):
        refused = get(port, path)
        assert (refused.status, refused.headers["WWW-Authenticate"]) == (401, 'Bearer realm="muster"')
    assert get(port, "/metrics", BEARER).status == 200
    assert get(port, "/nothing", BEARER).status == 404


@pytest.mark.parametrize(
    "shown",
    [
        *("", "Bearer", "Bearer ", f"Basic {TOKEN}", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}0", TOKEN),
        *(
            f"Bearer {TOKEN} {TOKEN}",
            f"Bearer {TOKEN.upper()}",
            f"Bearer {TOKEN}, Bearer x",
            "Bearer \xff\xfe",
        ),
    ],
)
def test_what_is_not_the_token_is_refused(shown: str) -> None:
    with pytest.raises(HttpProblem) as refused:
        BearerToken(TOKEN).check(shown)
    assert refused.value.status == 401
    assert TOKEN not in str(refused.value.document())


@pytest.mark.parametrize("shown", [f"Bearer {TOKEN}", f"bearer  {TOKEN}", f"BEARER {TOKEN} "])
def test_the_token_is_taken_whatever_the_case_of_its_scheme(shown: str) -> None:
    BearerToken(TOKEN).check(shown)


@pytest.mark.parametrize(
    "text", ["", "a" * (TOKEN_MIN - 1), "a" * 1025, "with a blank in it", "with=in-the-midst"]
)
def test_what_is_no_token_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(TokenError) as refused:
        BearerToken(text)
    assert not text or text not in str(refused.value)


def test_the_token_is_shown_nowhere(asking: tuple[MusterDaemon, int]) -> None:
    """Not in the log, not to clients, not over HTTP, where its name is."""
    daemon, port = asking
    assert get(port, "/metrics", {"Authorization": "Bearer wrong"}).status == 401
    settings = get(port, "/api/v1/settings", BEARER, q="muster.http.token")
    (found,) = [each for each in settings.json["settings"] if each["name"] == "muster.http.token"]
    assert (found["value"], found["is_secret"]) == (None, True)
    resource = DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)
    with WireClient(daemon.bootstrap, "looker") as client:
        answer = client.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4)
    shown = {config.name: config for result in answer.results for config in result.configs}
    assert (shown["muster.http.token"].value, shown["muster.http.token"].is_sensitive) == (None, True)
    assert "canary" not in repr(answer)
    log = daemon.log_path.read_text()
    assert "requests without the token" in log
    assert "canary" not in log


def test_https_answers_as_http_does(encrypted: tuple[MusterDaemon, int], certificates: Certificates) -> None:
    daemon, port = encrypted
    assert get_tls(port, "/livez", certificates).status == 200
    assert get_tls(port, "/metrics", certificates).status == 401
    began = time.monotonic()
    page = get_tls(port, "/metrics", certificates, **BEARER, Connection="close")
    assert b"muster_connections" in page.body
    assert time.monotonic() - began < 10, (
        "the end of an answer comes with it, not when it is waited for no longer"
    )
    assert (
        get_tls(port, "/api/v1/groups", certificates, **BEARER, Origin=f"https://{HOST}:{port}").status == 200
    )
    assert "canary" not in daemon.log_path.read_text()


def test_strangers_in_a_handshake_hold_up_nobody(
    encrypted: tuple[MusterDaemon, int], certificates: Certificates
) -> None:
    """Plain text is refused; those that say nothing are let go after a while, and others are answered."""
    daemon, port = encrypted
    assert b"HTTP/1.1 200" not in send_raw(port, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
    silent = [socket.create_connection((HOST, port), timeout=PATIENCE_S) for _ in range(20)]
    assert get_tls(port, "/livez", certificates).status == 200
    for each in silent:
        each.close()
    wait_until(lambda: get_tls(port, "/livez", certificates).status == 200, "it answers", PATIENCE_S)
    assert "Traceback" not in daemon.log_path.read_text()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"muster.http.token": "short-canary"}, "the token of HTTP must have"),
        ({"muster.http.token.file": "/absent"}, "muster.http.token.file /absent cannot be read"),
        ({"muster.http.token": TOKEN, "muster.http.token.file": "/absent"}, "are both given"),
        (
            {"muster.http.listeners": "http://0.0.0.0:0"},
            "set muster.http.token.file, or muster.http.token=none",
        ),
        ({"muster.http.listeners": f"http://{HOST}:0,http://[::]:0"}, "are not on loopback alone"),
        ({"muster.http.listeners": f"https://{HOST}:0"}, "ssl.keystore.location, or key and"),
        (
            {"muster.http.listeners": f"https://{HOST}:0", "muster.http.ssl.keystore.location": "/absent"},
            "/absent cannot be read",
        ),
        (
            {
                "muster.http.listeners": f"https://{HOST}:0",
                "muster.http.ssl.keystore.location": "/absent",
                "muster.http.ssl.keystore.password": "a-canary",
            },
            "ssl.keystore.password is not for the type PEM",
        ),
        (
            {
                "muster.http.listeners": f"https://{HOST}:0",
                "muster.http.ssl.keystore.location": "/absent",
                "muster.http.ssl.keystore.type": "PKCS12",
            },
            "ssl.keystore.location is given without ssl.keystore.password",
        ),
    ],
)
def test_what_cannot_be_used_keeps_the_daemon_from_starting(
    tmp_path: Path, settings: dict[str, str], sentence: str
) -> None:
    given = {"listeners": f"PLAINTEXT://{HOST}:0", "log.dirs": str(tmp_path / "log"), **FEW}
    given = {**given, "muster.http.listeners": f"http://{HOST}:0", **settings}
    overrides = [part for name, value in given.items() for part in ("--override", f"{name}={value}")]
    done = subprocess.run(
        [sys.executable, "-m", "muster", "serve", *overrides],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 2
    assert sentence in done.stderr.splitlines()[-1]
    assert "canary" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("host", "settings", "status"),
    [
        ("0.0.0.0", {"muster.http.token": "none"}, 200),
        ("0.0.0.0", {"muster.http.token": TOKEN}, 401),
        ("127.0.0.1", {"muster.http.token": "none"}, 200),
    ],
)
def test_a_listener_beyond_loopback_is_open_where_that_is_said(
    tmp_path: Path, host: str, settings: dict[str, str], status: int
) -> None:
    port = free_port()
    given = {**FEW, "muster.http.listeners": f"http://{host}:{port}", **settings}
    with MusterDaemon(tmp_path, given) as daemon:
        assert get(port, "/api/v1/groups").status == status
        warned = "whoever reaches it reads all of it" in daemon.log_path.read_text()
    assert warned == (host == "0.0.0.0" and status == 200)


@pytest.mark.parametrize(
    ("host", "is_here"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True)]
    + [(each, False) for each in ("", "10.0.0.7", "::", "0.0.0.0", "muster.example", "localhost.example")],
)
def test_loopback_is_what_this_machine_alone_reaches(host: str, is_here: bool) -> None:
    assert is_loopback(host) == is_here


def muster(*arguments: str, environment: dict[str, str]) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    done = subprocess.run(
        [sys.executable, "-m", "muster", *arguments],
        cwd=ROOT,
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", ["file", "variable", "none"])
def test_the_command_line_shows_the_token(
    encrypted: tuple[MusterDaemon, int], certificates: Certificates, tmp_path: Path, kind: str
) -> None:
    """What HTTP alone knows is there with it, and not without."""
    daemon, _ = encrypted
    group = f"lagging-{kind}"
    with WireClient(daemon.bootstrap, "joiner") as client:
        join(client, group)
    file = tmp_path / "token"
    file.write_text(TOKEN)
    option = ["--http-token-file", str(file)] if kind == "file" else []
    environment = {"SSL_CERT_FILE": str(certificates.authority)}
    environment |= {"MUSTER_HTTP_TOKEN": TOKEN} if kind == "variable" else {}
    said = muster(
        "top", "--json", "--times", "1", "--bootstrap", daemon.bootstrap, *option, environment=environment
    )
    (row,) = [row for row in json.loads(said) if row["group_id"] == group]
    assert (row["lost_ms"] is not None) == (kind != "none")


def test_the_token_does_not_go_to_others_in_clear() -> None:
    """Where HTTP is served is what the cluster says."""
    settings = ClientSettings(http_token=TOKEN)
    shown = {
        listener: found.token if (found := _reachable(listener, "10.0.0.7", settings)) else None
        for listener in ("http://10.0.0.7:1", "http://0.0.0.0:1", "https://10.0.0.7:1", "https://0.0.0.0:1")
    }
    assert list(shown.values()) == [None, None, TOKEN, TOKEN]
    here = _reachable("http://127.0.0.1:1", "127.0.0.1", settings)
    assert here is not None
    assert here.token == TOKEN
    assert TOKEN not in repr(here)
