"""Who clients are by their certificates, strangers and the server, renewed certificates (T30 to T37)."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.x509.oid import NameOID
from structlog.testing import capture_logs

from coordinator.runtime.turn_share import unlimited
from coordinator.security.session import ANONYMOUS, NO_SESSION, Session
from coordinator.security.tls.contexts import TlsContext
from coordinator.security.tls.options import tls_options
from coordinator.security.tls.problems import TlsProblem
from coordinator.security.tls.reloading import ReloadableContext, check_compatible
from coordinator.security.tls.stores import KeyStore
from coordinator.server.entrances import EntranceError
from coordinator.server.strangers import Stranger
from coordinator.server.tls_listener import NO_RULE, Texts, TlsListener, TlsListeners
from coordinator.server.tls_transport import TlsBuffers
from coordinator.settings.listeners import ListenerConfig, SecurityProtocol
from coordinator.settings.prefixed import ListenerSettings, OwnValue, Place
from tests.security.tls.certificates import Issued, authority_pem, client_context, issued, self_signed
from tests.security.tls.wired import Receiver, Wired

pytestmark = pytest.mark.asyncio


class Failures:
    """Stands for the server's strangers: keeps what failed."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.held_bytes = 0

    def count_failure(self, stranger: Stranger, listener: str, reason: str) -> None:
        self.reasons.append(f"{listener}: {reason}")

    def hold(self, stranger: Stranger, held_bytes: int) -> None:
        self.held_bytes = held_bytes


class Server:
    """Keeps what a listener reports of strangers; runs what is for a thread at once."""

    def __init__(self) -> None:
        self.strangers: Any = Failures()
        self.turn = unlimited(lambda action: None)
        self.clock: Any = None
        self.readers: Any = self
        self.events: list[str] = []
        self.is_full = False

    def on_stranger(self, stranger: Stranger, ip: str) -> bool:
        self.events.append(f"stranger at {ip}")
        return not self.is_full

    def on_stranger_known(self, stranger: Stranger) -> None:
        self.events.append("known")

    def on_stranger_gone(self, stranger: Stranger) -> None:
        self.events.append("gone")

    def submit(self, work: Callable[[], Any], done: Callable[[Future[Any]], None]) -> None:
        finished: Future[Any] = Future()
        finished.set_result(work())
        done(finished)


class Identified(Receiver):
    def __init__(self) -> None:
        super().__init__()
        self.session: Session = NO_SESSION


def store(folder: Path, made: Issued) -> dict[str, str]:
    (folder / "key.pem").write_text(made.pem)
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "key.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority_pem(),
    }


def contexts(folder: Path, client_auth: str = "requested", **more: str) -> ReloadableContext:
    settings = store(folder, issued()) | {name.replace("_", "."): value for name, value in more.items()}
    return ReloadableContext(tls_options(settings.get, client_auth))


class Opened:
    """A connection through a listener."""

    def __init__(
        self,
        folder: Path,
        shown: Issued | None = None,
        client_auth: str = "requested",
        identifies: bool = True,
        server: Server | None = None,
        rules: str = "DEFAULT",
    ) -> None:
        self.server = server or Server()
        found = contexts(folder, client_auth, ssl_principal_mapping_rules=rules)
        self.listener = TlsListener("TLS", found, self.server, TlsBuffers(), identifies)
        self.inner = Identified()
        self.stranger = Stranger(0)
        self.wired = Wired(self.inner, client=client_context(shown, folder))
        self.wired.transport = self.listener.wrap(self.inner, self.stranger)
        self.wired.transport.connection_made(self.wired.lower)


async def test_a_certificate_says_who_the_client_is(tmp_path: Path) -> None:
    """T31."""
    opened = Opened(tmp_path, issued("alice", common_name="alice"))
    opened.wired.shake_hands()
    assert opened.inner.session.principal.startswith("User:CN=alice,")
    assert opened.server.events == ["stranger at 10.1.2.3", "known"]


async def test_without_a_certificate_the_client_is_anonymous(tmp_path: Path) -> None:
    """T5, T30."""
    opened = Opened(tmp_path)
    opened.wired.shake_hands()
    assert opened.inner.session.principal == ANONYMOUS


async def test_rules_make_the_name(tmp_path: Path) -> None:
    """T32."""
    rules = "RULE:^CN=(.*?),.*$/$1/U,DEFAULT"
    opened = Opened(tmp_path, issued("alice", common_name="alice"), rules=rules)
    opened.wired.shake_hands()
    assert opened.inner.session.principal == "User:ALICE"


async def test_a_client_that_no_rule_names_is_not_let_in(tmp_path: Path) -> None:
    """T32."""
    rules = "RULE:^CN=bob,.*$/bob/"
    opened = Opened(tmp_path, issued("alice", common_name="alice"), rules=rules)
    opened.wired.shake_hands()
    assert not opened.wired.lower.is_closed, "it is closed at its first request, and not before"
    assert opened.server.events == ["stranger at 10.1.2.3"]
    opened.wired.send(b"x")
    assert opened.wired.lower.is_closed
    opened.wired.transport.connection_lost(None)
    assert opened.inner.transport is None
    assert opened.server.events == ["stranger at 10.1.2.3", "gone"]
    assert opened.server.strangers.reasons == [f"TLS: {NO_RULE}"]


async def test_with_sasl_the_client_stays_a_stranger_until_it_has_logged_in(tmp_path: Path) -> None:
    """T4."""
    opened = Opened(tmp_path, issued("alice", common_name="alice"), identifies=False)
    opened.wired.shake_hands()
    assert opened.inner.transport is not None
    assert opened.inner.session is NO_SESSION
    assert opened.server.events == ["stranger at 10.1.2.3"]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_required_certificate_that_is_missing_is_an_alert(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    """T6."""
    opened = Opened(tmp_path, client_auth="required")
    opened.wired.client = fixed(version).wrap_bio(
        opened.wired.from_server, opened.wired.from_client, server_hostname="localhost"
    )
    with pytest.raises(ssl.SSLError, match="ALERT"):
        opened.wired.shake_hands().to_client()
    opened.wired.transport.connection_lost(None)
    assert opened.server.events == ["stranger at 10.1.2.3", "gone"]
    reason = "TLS: SSL handshake failed: PEER_DID_NOT_RETURN_A_CERTIFICATE"
    assert opened.server.strangers.reasons == [reason]


def fixed(version: ssl.TLSVersion) -> ssl.SSLContext:
    context = client_context()
    context.minimum_version = context.maximum_version = version
    return context


async def test_a_certificate_of_another_authority_is_refused_where_one_is_only_requested(
    tmp_path: Path,
) -> None:
    """T5."""
    opened = Opened(tmp_path, issued("alice", signed_by_another=True))
    with pytest.raises(ssl.SSLError, match="ALERT_UNKNOWN_CA"):
        opened.wired.shake_hands().to_client()


async def test_a_certificate_in_the_trust_store_is_trusted_by_itself(tmp_path: Path) -> None:
    """T3: without who signed it, and no other of the same authority with it."""
    alice, bob = issued("alice"), issued("bob")
    found = contexts(tmp_path, "required", ssl_truststore_certificates=alice.certificate)
    wired = Wired(context=found.current.context, client=client_context(alice, tmp_path)).shake_hands()
    assert wired.host.events == ["stranger", "handshake"]
    with pytest.raises(ssl.SSLError, match="ALERT_UNKNOWN_CA"):
        Wired(context=found.current.context, client=client_context(bob, tmp_path)).shake_hands().to_client()


async def test_a_stranger_beyond_a_maximum_is_aborted_at_once(tmp_path: Path) -> None:
    server = Server()
    server.is_full = True
    opened = Opened(tmp_path, server=server)
    assert opened.wired.lower.is_aborted
    opened.wired.transport.connection_lost(None)
    assert server.events == ["stranger at 10.1.2.3", "gone"]
    assert server.strangers.reasons == []


async def test_the_end_of_a_strangers_time_is_the_end_of_its_handshake(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    assert opened.stranger.end is not None
    assert opened.stranger.peer == "10.1.2.3:4567"
    opened.stranger.end("not known within 5 ms")
    opened.wired.transport.connection_lost(None)
    assert opened.server.strangers.reasons == ["TLS: SSL handshake failed: not known within 5 ms"]


# Renewal.


def replaced(folder: Path, made: Issued) -> None:
    (folder / "new.pem").write_text(made.pem)
    (folder / "new.pem").replace(folder / "key.pem")


async def test_a_renewed_certificate_is_for_new_connections(tmp_path: Path) -> None:
    """T27, T35."""
    found = contexts(tmp_path)
    before = found.current
    assert not found.reload()
    assert found.current is before
    replaced(tmp_path, issued("localhost", "127.0.0.1", "more.example"))
    with pytest.raises(TlsProblem, match=r"which only ssl\.allow\.dn\.changes"):
        found.reload()  # Its subject is another: trustme gives each a number.
    assert found.current is before


async def test_another_trust_store_is_taken_though_the_key_is_the_same(tmp_path: Path) -> None:
    """Whom an authority that is trusted no more has vouched for comes in no more (T35)."""
    trusted = tmp_path / "trust.pem"
    trusted.write_text(authority_pem())
    settings = store(tmp_path, issued()) | {"ssl.truststore.location": str(trusted)}
    del settings["ssl.truststore.certificates"]
    found = ReloadableContext(tls_options(settings.get, "requested"))
    before = found.current
    assert not found.reload()
    (tmp_path / "other.pem").write_text(trustme.CA().cert_pem.bytes().decode())
    (tmp_path / "other.pem").replace(trusted)
    assert found.reload()
    assert found.current is not before


@pytest.mark.parametrize(
    ("names", "allowed", "problem"),
    [
        (("localhost", "127.0.0.1", "more.example"), "ssl_allow_dn_changes", None),
        (("localhost",), "ssl_allow_dn_changes", "lacks a subject alternative name"),
        (("localhost",), "ssl_allow_san_changes", "which only ssl.allow.dn.changes"),
    ],
)
async def test_a_certificate_for_others_is_refused(
    tmp_path: Path, names: tuple[str, ...], allowed: str, problem: str | None
) -> None:
    """T36."""
    found = contexts(tmp_path, **{allowed: "true"})
    before = found.current
    replaced(tmp_path, issued(*names))
    if problem is None:
        assert found.reload()
        assert found.current is not before
        return
    with pytest.raises(TlsProblem, match=problem):
        found.reload()
    assert found.current is before
    assert not found.reload(), "it is said once"


@pytest.mark.parametrize(("name", "fits"), [("MUSTER.example", True), ("muster.elsewhere", False)])
async def test_a_subject_may_come_back_in_letters_of_another_case(
    tmp_path: Path, name: str, fits: bool
) -> None:
    """T36."""

    def for_subject(common_name: str) -> TlsContext:
        made = (self_signed(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])),)
        return TlsContext(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), KeyStore("", made, made), True)

    options = tls_options(store(tmp_path, issued()).get, None)
    with nullcontext() if fits else pytest.raises(TlsProblem, match=r"which only ssl\.allow\.dn\.changes"):
        check_compatible(for_subject("muster.Example"), for_subject(name), options)


async def test_both_may_be_allowed(tmp_path: Path) -> None:
    found = contexts(tmp_path, ssl_allow_dn_changes="true", ssl_allow_san_changes="true")
    replaced(tmp_path, issued("elsewhere.example"))
    assert found.reload()


async def test_a_file_that_is_gone_or_torn_keeps_the_old_certificate_and_is_said_once(tmp_path: Path) -> None:
    """T37."""
    server = Server()
    listeners = TlsListeners(server, 0)
    listeners.open(config(SecurityProtocol.SSL), own_settings(store(tmp_path, issued())))
    for damage in ((tmp_path / "key.pem").unlink, lambda: (tmp_path / "key.pem").write_text("torn")):
        damage()
        with capture_logs() as lines:
            listeners.reload()
            listeners.reload()
        assert [line["event"] for line in lines] == ["certificates stay as they were"]
    replaced(tmp_path, issued())
    with capture_logs() as lines:
        listeners.reload()
    assert [line["event"] for line in lines] == ["certificates read again"]


async def test_files_are_looked_at_every_so_often_until_the_stop() -> None:
    """T37."""
    looks = 0
    looked = asyncio.Event()

    class Counting:
        def reload(self, texts: Texts) -> None:
            nonlocal looks
            looks += 1
            looked.set()

    listeners = TlsListeners(Server(), 1)
    listeners.add(Counting())
    await looked.wait()
    listeners.stop()
    before = looks
    loop = asyncio.get_running_loop()
    later = loop.create_future()
    loop.call_later(0.002, later.set_result, None)  # A timer that is due later fires later.
    await later
    assert looks == before


# What is refused at the start.


def config(protocol: SecurityProtocol) -> ListenerConfig:
    return ListenerConfig("TLS", "127.0.0.1", 0, "127.0.0.1", 0, protocol)


def own_settings(general: dict[str, str], **own: str) -> ListenerSettings:
    prefixed = {
        Place("TLS", "", name.replace("_", ".")): OwnValue(value, value) for name, value in own.items()
    }
    return ListenerSettings("TLS", general.get, prefixed)


async def test_a_listener_without_a_key_does_not_start() -> None:
    """L8."""
    with pytest.raises(EntranceError, match=r"the listener TLS has no TLS: ssl\.keystore\.location"):
        TlsListeners(Server(), 0).open(config(SecurityProtocol.SSL), own_settings({}))


@pytest.mark.parametrize(
    ("protocol", "own", "is_asked_for"),
    [
        (SecurityProtocol.SSL, {}, True),
        (SecurityProtocol.SASL_SSL, {}, False),
        (SecurityProtocol.SASL_SSL, {"ssl_client_auth": "required"}, True),
    ],
)
async def test_for_sasl_ssl_only_a_prefixed_client_auth_counts(
    tmp_path: Path, protocol: SecurityProtocol, own: dict[str, str], is_asked_for: bool
) -> None:
    """T4: without a trust store it shows whether certificates are asked for."""
    general = {**store(tmp_path, issued()), "ssl.client.auth": "required"}
    del general["ssl.truststore.certificates"]
    listeners = TlsListeners(Server(), 0)
    with capture_logs() as lines:
        if is_asked_for:
            with pytest.raises(EntranceError, match=r"ssl\.client\.auth asks for certificates"):
                listeners.open(config(protocol), own_settings(general, **own))
        else:
            listeners.open(config(protocol), own_settings(general, **own))
    assert bool(lines) is not is_asked_for


async def test_files_are_looked_at_once_more_if_that_is_asked_for_meanwhile() -> None:
    """A certificate that is renewed while the stores are read is not forgotten (T37)."""
    held: list[Callable[[Future[Any]], None]] = []
    server = Server()
    server.readers = SimpleNamespace(submit=lambda work, done: held.append(done))
    listeners = TlsListeners(server, 0)
    for _ in range(3):
        listeners.reload()
    finished: Future[Any] = Future()
    finished.set_result(None)
    looks = 0
    while held:
        (done,) = held
        held.clear()
        looks += 1
        done(finished)
    assert looks == 2
