"""The state machine of a login, by plain calls: each frame in each state (S1 to S9, S27 to S30)."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from struct import Struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.security.sasl.login import (
    OUT_OF_ORDER_BYTES_MAX,
    REFUSED_VERSIONS_MAX,
    STEPS_MAX,
    Login,
    LoginState,
    LoginTerms,
    Step,
)
from coordinator.security.sasl.mechanism import Authenticated, AuthenticationFailed, Challenge
from coordinator.security.sasl.plain import Plain
from coordinator.security.session import Session
from protocol.codec.codec import spec
from protocol.errors import ErrorCode
from protocol.framing import decode_response, encode_request
from protocol.messages import REQUESTS, RESPONSES
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.produce import ProduceRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.protocol.random_messages import random_message

NOW_MS, WALL_MS = 1_000, 1_700_000_000_000
HEAD = Struct(">hhih")
HELLO = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
RIGHT = b"\0alice\0secret"
GENERAL = "Authentication failed during authentication due to invalid credentials with SASL mechanism STEPS"


class Versions:
    """Answers ApiVersions with an empty table; a name of blanks is refused."""

    def answer(self, request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        refused = request.client_software_name == " "
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST if refused else 0)

    def unsupported(self) -> ApiVersionsResponse:
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)

    def software(self, request: ApiVersionsRequest) -> tuple[str, str]:
        return request.client_software_name, request.client_software_version


class Steps:
    """A mechanism whose tokens say what comes of them."""

    name = "STEPS"
    held_bytes = 0

    def begin(self) -> Steps:
        return self

    def step(self, token: bytes, now_ms: int) -> Challenge | Authenticated:
        assert now_ms == WALL_MS, "a credential's time is a time of day"
        if token == b"more":
            return Challenge(b"go on")
        if token == b"fail":
            raise AuthenticationFailed(None, "it says so")
        if token == b"fail with a text":
            raise AuthenticationFailed("its own text")
        if token.startswith(b"for "):
            return Authenticated("steps", b"last", WALL_MS + int(token[4:]))
        return Authenticated(token.decode(), b"last")


def new_login(previous: Session | None = None, max_reauth_ms: Mapping[str, int] | None = None) -> Login:
    terms = LoginTerms({"PLAIN": Plain({"user_alice": "secret"}), "STEPS": Steps()}, max_reauth_ms or {})
    return Login(terms, Versions(), previous)


def send(login: Login, request: Any, version: int) -> tuple[Step, Any]:
    """The step, and its answer decoded."""
    step = login.receive(encode_request(request, version, 7, "tests")[4:], NOW_MS, WALL_MS)
    if not step.answer:
        return step, None
    key = spec(type(request)).api_key
    assert key is not None
    correlation_id, answer = decode_response(RESPONSES[key], version, step.answer[4:])
    assert correlation_id == 7
    return step, answer


def shaken(mechanism: str = "STEPS", version: int = 1, max_reauth_ms: int = 0) -> Login:
    login = new_login(max_reauth_ms={"STEPS": max_reauth_ms})
    step, answer = send(login, SaslHandshakeRequest(mechanism=mechanism), version)
    assert (step.failure, answer.error_code, answer.mechanisms) == (None, 0, ["PLAIN", "STEPS"])
    return login


def authenticate(login: Login, token: bytes, version: int = 2) -> tuple[Step, Any]:
    return send(login, SaslAuthenticateRequest(auth_bytes=token), version)


def assert_closed(login: Login, step: Step) -> None:
    assert (step.answer, step.session) == (b"", None)
    assert step.failure is not None
    assert not step.failure.is_delayed
    assert login.state is LoginState.FAILED


def assert_refused(login: Login, step: Step) -> None:
    assert step.failure is not None
    assert step.failure.is_delayed
    assert step.session is None
    assert login.state is LoginState.FAILED


# ApiVersions and SaslHandshake.


@pytest.mark.parametrize("version", range(3))
def test_a_login_in_all_its_steps(version: int) -> None:
    login = new_login()
    assert send(login, HELLO, 3)[0] == Step(send(new_login(), HELLO, 3)[0].answer)
    assert login.client_software == ("tests", "1")
    send(login, SaslHandshakeRequest(mechanism="PLAIN"), 1)
    step, answer = authenticate(login, RIGHT, version)
    assert step.session == Session("User:alice", "PLAIN")
    assert (answer.error_code, answer.error_message, answer.auth_bytes) == (0, "", b"")
    assert answer.session_lifetime_ms == 0
    assert login.state is LoginState.DONE


def test_api_versions_is_answered_once() -> None:
    login = new_login()
    send(login, HELLO, 3)
    assert_closed(login, send(login, HELLO, 3)[0])


def test_api_versions_that_are_refused_may_be_asked_again_and_not_for_ever() -> None:
    login = new_login()
    for number in range(REFUSED_VERSIONS_MAX):
        if number % 2:
            step, answer = send(login, ApiVersionsRequest(client_software_name=" "), 3)
            assert answer.error_code == ErrorCode.INVALID_REQUEST
        else:
            step = login.receive(HEAD.pack(18, 99, 7, 0) + b"\0", NOW_MS, WALL_MS)
            _, answer = decode_response(ApiVersionsResponse, 0, step.answer[4:])
            assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert step.failure is None
    assert_closed(login, login.receive(HEAD.pack(18, 99, 7, 0) + b"\0", NOW_MS, WALL_MS))


@pytest.mark.parametrize("key", sorted(set(REQUESTS) - {17, 18}))
@pytest.mark.parametrize("after_versions", [False, True])
def test_before_the_handshake_other_apis_close_and_are_not_decoded(key: int, after_versions: bool) -> None:
    login = new_login()
    if after_versions:
        send(login, HELLO, 3)
    assert_closed(login, login.receive(HEAD.pack(key, 0, 7, -1) + b"\xff" * 9, NOW_MS, WALL_MS))


@pytest.mark.parametrize("mechanism", ["GSSAPI", "plain", "", "x" * 1000])
def test_an_unknown_mechanism_is_refused_with_the_known_ones(mechanism: str) -> None:
    login = new_login()
    step, answer = send(login, SaslHandshakeRequest(mechanism=mechanism), 1)
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ["PLAIN", "STEPS"]
    assert_refused(login, step)
    assert step.failure is not None
    assert len(step.failure.reason) < 200


def test_a_handshake_of_a_version_that_there_is_not_closes() -> None:
    login = new_login()
    assert_closed(login, login.receive(HEAD.pack(17, 2, 7, -1) + b"\0\5PLAIN", NOW_MS, WALL_MS))


@pytest.mark.parametrize("version", range(2))
def test_a_second_handshake_is_out_of_order(version: int) -> None:
    login = shaken()
    step, answer = send(login, SaslHandshakeRequest(mechanism="PLAIN"), version)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    assert_refused(login, step)


# Tokens.


def test_a_challenge_is_answered_and_the_exchange_goes_on() -> None:
    login = shaken()
    for _ in range(3):
        step, answer = authenticate(login, b"more")
        assert (step.session, step.failure, answer.auth_bytes) == (None, None, b"go on")
    step, answer = authenticate(login, b"bob")
    assert (step.session, answer.auth_bytes) == (Session("User:bob", "STEPS"), b"last")


def test_an_exchange_does_not_go_on_for_ever() -> None:
    login = shaken()
    for _ in range(STEPS_MAX):
        authenticate(login, b"more")
    step, answer = authenticate(login, b"more")
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert_refused(login, step)


@pytest.mark.parametrize(("token", "text"), [(b"fail", GENERAL), (b"fail with a text", "its own text")])
def test_a_failure_says_the_mechanisms_text_or_kafkas_general_one(token: bytes, text: str) -> None:
    login = shaken()
    step, answer = authenticate(login, token)
    assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, text)
    assert_refused(login, step)


@pytest.mark.parametrize("request_and_version", [(ListGroupsRequest(), 4), (HELLO, 3)])
def test_another_api_in_the_exchange_is_refused_in_its_own_words(
    request_and_version: tuple[Any, int],
) -> None:
    login = shaken()
    step, answer = send(login, *request_and_version)
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert_refused(login, step)


def test_api_versions_of_an_unknown_version_in_the_exchange_is_refused_in_v0() -> None:
    login = shaken()
    step = login.receive(HEAD.pack(18, 99, 7, 0) + b"\0", NOW_MS, WALL_MS)
    assert (
        decode_response(ApiVersionsResponse, 0, step.answer[4:])[1].error_code == ErrorCode.ILLEGAL_SASL_STATE
    )
    assert_refused(login, step)


@pytest.mark.parametrize("tags", [b"", b"\1\5"])
def test_an_unknown_version_of_api_versions_has_a_whole_header_too(tags: bytes) -> None:
    """Its header is of the flexible form: the running broker closes for one that is cut."""
    for login in (new_login(), shaken()):
        assert_closed(login, login.receive(HEAD.pack(18, 99, 7, 0) + tags, NOW_MS, WALL_MS))
    assert new_login().receive(HEAD.pack(18, -1, 7, 0), NOW_MS, WALL_MS).failure is None


@pytest.mark.parametrize(("length", "client_id"), [(-5, b""), (2, b"\xff\xfe")])
def test_any_client_id_may_log_in(length: int, client_id: bytes) -> None:
    """A negative length is null, and bytes that are no UTF-8 are as good as others: as in Kafka."""
    login = new_login()
    body = encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 7, "")[4 + HEAD.size :]
    step = login.receive(HEAD.pack(17, 1, 7, length) + client_id + body, NOW_MS, WALL_MS)
    assert step.failure is None
    assert decode_response(SaslHandshakeResponse, 1, step.answer[4:])[1].error_code == 0


@pytest.mark.parametrize("key", sorted(REQUESTS))
def test_every_api_in_the_exchange_ends_it(key: int) -> None:
    """Whatever follows the header, in every version: refused in its own words, or closed, and no exception."""
    for version in range(spec(REQUESTS[key]).max_version + 2):
        for body in (b"", bytes(40), b"\1" * 40):
            login = shaken()
            step = login.receive(HEAD.pack(key, version, 7, -1) + body, NOW_MS, WALL_MS)
            assert step.session is None or key == 36
            assert login.state in (LoginState.FAILED, LoginState.DONE)


@pytest.mark.parametrize("key", sorted(set(REQUESTS) - {36}))
def test_every_whole_request_in_the_exchange_is_refused_and_answered(key: int) -> None:
    """But for those that want no answer."""
    message = spec(REQUESTS[key])
    for version in range(message.min_version, message.max_version + 1):
        for seed in range(10):
            login = shaken()
            request = random_message(Random(seed), REQUESTS[key], version)
            frame = encode_request(request, version, 7, "tests")[4:]
            step = login.receive(frame, NOW_MS, WALL_MS)
            has_no_answer = isinstance(request, ProduceRequest) and request.acks == 0
            if has_no_answer or len(frame) > OUT_OF_ORDER_BYTES_MAX:
                assert_closed(login, step)
                continue
            assert_refused(login, step)
            assert step.answer


@pytest.mark.parametrize("beyond", [False, True])
def test_only_a_small_request_in_the_exchange_is_decoded_and_answered(beyond: bool) -> None:
    """Half a MiB of names, from anybody, would take two seconds of the loop, and 33 MB to refuse (F1)."""
    count = 500 + 500 * beyond
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["k"] * count)
    frame = encode_request(request, 4, 7, "")[4:]
    assert (len(frame) > OUT_OF_ORDER_BYTES_MAX) is beyond
    login = shaken()
    step = login.receive(frame, NOW_MS, WALL_MS)
    if beyond:
        assert_closed(login, step)
    else:
        assert_refused(login, step)
        assert len(decode_response(FindCoordinatorResponse, 4, step.answer[4:])[1].coordinators) == count


@pytest.mark.parametrize(
    "frame",
    [b"", b"\0" * 9, HEAD.pack(12, 4, 7, 100)],
)
def test_a_frame_without_a_header_closes(frame: bytes) -> None:
    for login in (new_login(), shaken()):
        assert_closed(login, login.receive(frame, NOW_MS, WALL_MS))


def test_bare_tokens_after_a_handshake_of_v0() -> None:
    login = shaken(version=0)
    assert login.receive(b"more", NOW_MS, WALL_MS) == Step(b"\0\0\0\5go on")
    assert login.receive(b"bob", NOW_MS, WALL_MS) == Step(b"\0\0\0\4last", Session("User:bob", "STEPS"))


@pytest.mark.parametrize(("token", "is_delayed"), [(b"fail", False), (b"fail with a text", True)])
def test_a_bare_token_that_fails_closes_late_only_if_it_has_a_text(token: bytes, is_delayed: bool) -> None:
    step = shaken(version=0).receive(token, NOW_MS, WALL_MS)
    assert step.answer == b""
    assert step.failure is not None
    assert step.failure.is_delayed is is_delayed


def test_a_request_in_place_of_a_bare_token_is_a_token() -> None:
    login = shaken("PLAIN", version=0)
    frame = encode_request(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4, 7, "tests")[4:]
    step = login.receive(frame, NOW_MS, WALL_MS)
    assert step.failure is not None
    assert step.answer == b""


def test_a_size_out_of_bounds_fails_late_and_unanswered() -> None:
    login = new_login()
    step = login.refuse_size(524_289, 524_288)
    assert step.answer == b""
    assert_refused(login, step)


# How long a session lasts.


@pytest.mark.parametrize(
    ("token", "max_reauth_ms", "lifetime_ms"),
    [
        (b"bob", 0, None),
        (b"bob", 5000, 5000),
        (b"for 3000", 0, 3000),
        (b"for 3000", 5000, 3000),
        (b"for 9000", 5000, 5000),
        (b"for -10", 0, 0),  # A token in its grace: it has ended (S37).
        (b"for -10", 5000, 0),
    ],
)
def test_a_session_lasts_as_long_as_the_credential_and_the_listener_allow(
    token: bytes, max_reauth_ms: int, lifetime_ms: int | None
) -> None:
    step, answer = authenticate(shaken(max_reauth_ms=max_reauth_ms), token)
    assert step.session is not None
    assert step.session.ends_at_ms == (None if lifetime_ms is None else NOW_MS + lifetime_ms)
    assert answer.session_lifetime_ms == (lifetime_ms or 0)


def test_versions_before_1_are_not_told_and_bound_all_the_same() -> None:
    step, answer = authenticate(shaken(max_reauth_ms=5000), b"bob", 0)
    assert step.session is not None
    assert (step.session.ends_at_ms, answer.session_lifetime_ms) == (NOW_MS + 5000, 0)


# A login that is repeated.

BOB = Session("User:bob", "STEPS", NOW_MS)


def again(mechanism: str = "STEPS") -> Login:
    login = new_login(BOB)
    step, answer = send(login, SaslHandshakeRequest(mechanism=mechanism), 1)
    assert (step.failure, answer.error_code) == (None, 0)
    return login


def test_a_login_may_be_repeated_by_the_same_principal() -> None:
    step, _ = authenticate(again(), b"bob")
    assert step.session == Session("User:bob", "STEPS")


@pytest.mark.parametrize("name", ["carol", "Bob", "bob "])
def test_another_principal_is_refused_by_name(name: str) -> None:
    login = again()
    step, answer = authenticate(login, name.encode())
    text = f"Cannot change principals during re-authentication from User.bob: User.{name}"
    assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, text)
    assert_refused(login, step)


def test_a_failure_says_that_it_was_a_repetition() -> None:
    _, answer = authenticate(again(), b"fail")
    assert answer.error_message == GENERAL.replace("during authentication", "during re-authentication")


def test_another_mechanism_is_found_out_at_its_token() -> None:
    login = again("PLAIN")
    step, answer = authenticate(login, RIGHT)
    assert answer is None
    assert_refused(login, step)


def test_a_mechanism_that_is_not_enabled_closes() -> None:
    login = new_login(BOB)
    assert_closed(login, send(login, SaslHandshakeRequest(mechanism="GSSAPI"), 1)[0])


@given(
    st.lists(
        st.binary(max_size=60)
        | st.sampled_from(
            [
                HEAD.pack(18, 3, 7, -1) + b"\0\2a\2b\0",
                HEAD.pack(17, 1, 7, -1) + b"\0\5STEPS",
                HEAD.pack(17, 0, 7, -1) + b"\0\5PLAIN",
                HEAD.pack(36, 1, 7, -1) + b"\0\0\0\4more",
            ]
        ),
        max_size=8,
    )
)
def test_any_frames_leave_the_machine_in_a_state(frames: list[bytes]) -> None:
    """Frames of any bytes: an answer, a failure or both, and never a session without a token that says so."""
    login = new_login()
    for frame in frames:
        if login.state in (LoginState.FAILED, LoginState.DONE):
            return
        step = login.receive(frame, NOW_MS, WALL_MS)
        assert step.answer or step.failure is not None
