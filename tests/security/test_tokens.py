"""Tokens: what makes them good (S35, S37), and each forgery of F7 by its name, with the time as an argument."""

from __future__ import annotations

import hmac
import json
from base64 import b64encode
from functools import cache
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.security.tokens.compact import LAST_SECOND, UNTRUSTED_CHARS_MAX
from coordinator.security.tokens.keys import Key, KeySet, KeysUnusable, parse_key_set
from coordinator.security.tokens.signed import Expectations, SignedTokens
from coordinator.security.tokens.unsecured import UnsecuredOptionsError, UnsecuredTokens
from coordinator.security.tokens.validated import MAX_NAME_CHARS, TokenRefused, ValidToken
from tests.security.tokens import (
    NOW_MS,
    NOW_S,
    claims,
    ec_key,
    ed_key,
    encoded,
    key_set,
    member,
    rsa_key,
    signed,
    signed_text,
    unsecured,
)

EXPIRY_MS = (NOW_S + 600) * 1000
GOOD = ValidToken("alice", EXPIRY_MS)
EXPECTING = Expectations()


@cache
def keys() -> KeySet:
    return parse_key_set(key_set(member(rsa_key(), kid="one"), member(ec_key(), kid="two"), member(ed_key())))


def validated(token: str, expected: Expectations = EXPECTING, now_ms: int = NOW_MS) -> ValidToken:
    return SignedTokens(keys(), expected).validate(token, now_ms)


def refusal(token: str, expected: Expectations = EXPECTING, now_ms: int = NOW_MS) -> str:
    with pytest.raises(TokenRefused) as refused:
        validated(token, expected, now_ms)
    assert refused.value.missing_scope is None
    return str(refused.value)


# Signed tokens.


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
def test_a_token_signed_with_rsa_is_taken(algorithm: str) -> None:
    assert validated(signed(algorithm=algorithm)) == GOOD
    assert validated(signed(algorithm=algorithm, kid=None)) == GOOD


def test_tokens_signed_with_curves_are_taken_each_with_its_own() -> None:
    assert validated(signed(key=ec_key(), algorithm="ES256", kid="two")) == GOOD
    assert validated(signed(key=ed_key(), algorithm="EdDSA", kid=None)) == GOOD
    larger = parse_key_set(key_set(member(ec_key(ec.SECP384R1), kid="one")))
    validator = SignedTokens(larger, EXPECTING)
    assert validator.validate(signed(key=ec_key(ec.SECP384R1), algorithm="ES384"), NOW_MS) == GOOD
    with pytest.raises(TokenRefused):
        validator.validate(signed(key=ec_key(ec.SECP384R1), algorithm="ES256"), NOW_MS)


def public_texts() -> dict[str, bytes]:
    """A public key as those have it who would make a secret of it."""
    public = rsa_key().public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return {
        "pem": pem,
        "pem without its last line's end": pem.strip(),
        "der": public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        "pkcs1": public.public_bytes(Encoding.PEM, PublicFormat.PKCS1),
        "jwk": json.dumps(member(rsa_key(), kid="one")).encode(),
        "modulus": public.public_numbers().n.to_bytes(256),
    }


@pytest.mark.parametrize("what", public_texts())
@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_forged_hmac_with_a_public_key_is_refused(what: str, algorithm: str) -> None:
    text = f"{encoded({'alg': algorithm, 'kid': 'one'})}.{encoded(claims())}"
    mac = hmac.digest(public_texts()[what], text.encode(), f"sha{algorithm[2:]}")
    assert refusal(f"{text}.{encoded(mac)}") == "it is signed by no algorithm that is taken"


@pytest.mark.parametrize(
    "algorithm", ["none", "None", "NONE", "nOnE", "", None, 0, ["RS256"], "rs256", "RS256 "]
)
def test_forged_none_is_refused(algorithm: Any) -> None:
    for signature in ("", encoded(b"x")):
        header = {"alg": algorithm, "kid": "one"}
        assert refusal(unsecured(header=header, signature=signature)).startswith("it is signed by no")
    assert refusal(unsecured(header={"kid": "one"})).startswith("it is signed by no")


def test_forged_keys_of_the_header_are_not_looked_at() -> None:
    """A token that brings its own key, or says where it is, is verified by the issuer's, or not at all."""
    thief = rsa_key("thief")
    brought = member(thief, kid="one")
    headers: tuple[dict[str, Any], ...] = (
        {"jwk": brought},
        {"jku": "http://127.0.0.1:1/keys"},
        {"x5u": "http://127.0.0.1:1/chain"},
        {"x5c": [b64encode(b"certificate").decode()]},
    )
    for header in headers:
        assert refusal(signed(key=thief, **header)) == "its signature is wrong"
        assert validated(signed(**header)) == GOOD
        assert refusal(signed(key=thief, **{**header, "kid": "thief"})) == "there is no key for it"


@pytest.mark.parametrize(
    "header", [{"crit": ["exp"]}, {"crit": []}, {"crit": ["b64"], "b64": False}, {"b64": False}]
)
def test_forged_critical_headers_are_refused(header: dict[str, Any]) -> None:
    assert refusal(signed(**header)) == "it asks for what is not understood"


def test_forged_nested_tokens_are_refused() -> None:
    assert refusal(signed(cty="JWT")) == "it holds another token"
    assert refusal(signed_text({"alg": "RS256", "kid": "one"}, signed().encode())).startswith(
        "the claims is not JSON"
    )


@pytest.mark.parametrize(
    "text",
    [
        '{"sub":"alice","sub":"admin","iat":%d,"exp":%d}',
        '{"sub":"alice","iat":%d,"exp":1,"exp":%d}',
        '{"sub":"alice","iat":%d,"exp":%d,"x":{"a":1,"a":2}}',
        '{"sub":"alice","sub":"alice","iat":%d,"exp":%d}',
    ],
)
def test_forged_double_claims_are_refused(text: str) -> None:
    data = (text % (NOW_S, NOW_S + 600)).encode()
    assert "twice" in refusal(signed_text({"alg": "RS256", "kid": "one"}, data))
    assert "twice" in refusal_unsecured(unsecured(data))


def test_forged_double_headers_are_refused() -> None:
    header = b'{"alg":"none","alg":"RS256","kid":"one"}'
    assert "twice" in refusal(signed_text(header, claims()))


TIMES = (
    *(
        "1e300",
        "1e999",
        "-1e300",
        "NaN",
        "Infinity",
        "-Infinity",
        "9" * 400,
        "9" * 5000,
        "-1",
        "true",
        "null",
        "0",
    ),
    *('"1900000000"', "[1900000000]", str(LAST_SECOND + 1)),
)


@pytest.mark.parametrize("expiry", TIMES)
@pytest.mark.parametrize("claim", ["exp", "iat", "nbf"])
def test_forged_times_are_refused(expiry: str, claim: str) -> None:
    """As the claim says; a time that is long ago is none of those, and a `nbf` of null is none at all."""
    given = {"sub": '"alice"', "iat": str(NOW_S), "exp": str(NOW_S + 600), "nbf": "null", claim: expiry}
    data = "{%s}" % ",".join(f'"{name}":{value}' for name, value in given.items())  # noqa: UP031
    token = signed_text({"alg": "RS256", "kid": "one"}, data.encode())
    if (claim, expiry) in (("iat", "0"), ("nbf", "0"), ("nbf", "null")):
        assert validated(token) == GOOD
    else:
        assert refusal(token)


def test_forged_json_of_great_depth_or_size_is_refused() -> None:
    header = {"alg": "RS256", "kid": "one"}
    for deep in (b"[" * 200_000, b'{"a":' * 200_000, b'{"sub":' + b"[" * 200_000 + b"]" * 200_000 + b"}"):
        assert "nested too deeply" in refusal(signed_text(header, deep))
        assert "nested too deeply" in refusal_unsecured(unsecured(deep[:40_000]))
        assert "the claims has more than" in refusal_unsecured(unsecured(deep))
    large = json.dumps({"alg": "RS256", "kid": "one", "x": "y" * UNTRUSTED_CHARS_MAX}).encode()
    assert "the header has more than" in refusal(signed_text(large, claims()))
    assert validated(signed_text(header, claims(x="y" * 300_000))) == GOOD


@pytest.mark.parametrize(
    "kid",
    ["../../../../dev/null", "/etc/passwd", "one\0", "' OR 1=1", "http://127.0.0.1/k", "", "ONE", "one "],
)
def test_forged_kids_are_names_and_no_paths(kid: str) -> None:
    assert refusal(signed(kid=kid)) == "there is no key for it"
    secret = f"{encoded({'alg': 'HS256', 'kid': kid})}.{encoded(claims())}"  # Signed with an empty file.
    assert refusal(f"{secret}.{encoded(hmac.digest(b'', secret.encode(), 'sha256'))}").startswith(
        "it is signed"
    )


@pytest.mark.parametrize("kid", [1, ["one"], {"one": 1}, True])
def test_forged_kids_that_are_no_text_are_refused(kid: Any) -> None:
    assert refusal(signed(kid=kid)) == "its kid is no text"


def test_forged_claims_under_a_true_signature_are_refused() -> None:
    header, _, signature = signed().split(".")
    assert refusal(f"{header}.{encoded(claims(sub='admin'))}.{signature}") == "its signature is wrong"
    other = signed(header_is="other").split(".")[0]
    assert refusal(f"{other}.{encoded(claims())}.{signature}") == "its signature is wrong"
    for bad in ("", "AAAA", signature[:-4], signature + "AAAA", encoded(bytes(64)), encoded(bytes(256))):
        assert refusal(f"{header}.{encoded(claims())}.{bad}") == "its signature is wrong"


def test_forged_signatures_of_zeros_by_curves_are_refused() -> None:
    """r = s = 0, which libraries have taken for any text (CVE-2022-21449)."""
    header = encoded({"alg": "ES256", "kid": "two"})
    for zeros in (bytes(64), bytes(63) + b"\1", b""):
        assert refusal(f"{header}.{encoded(claims())}.{encoded(zeros)}") == "its signature is wrong"


def test_an_algorithm_of_another_kind_of_key_finds_none() -> None:
    assert refusal(signed(key=ec_key(), algorithm="ES256", kid="one")) == "there is no key for it"
    only = parse_key_set(key_set(member(rsa_key(), kid="one", alg="RS512")))
    with pytest.raises(TokenRefused, match="no key"):
        SignedTokens(only, EXPECTING).validate(signed(), NOW_MS)


@pytest.mark.parametrize(
    "text", ["", ".", "..", "a.b", "a.b.c.d", "a.b.c.d.e", "\u00e9.a.b", "a a.b.c", "A.B.C", "==.=.="]
)
def test_what_is_no_token_is_refused(text: str) -> None:
    assert refusal(text)
    assert refusal_unsecured(text)


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"null", b"1", b'"x"', b"{", b"{} {}", b"\xff", b'{"sub":"\xe9"}', b"{'a':1}"]
)
def test_claims_that_are_no_object_of_json_are_refused(data: bytes) -> None:
    assert refusal(signed_text({"alg": "RS256", "kid": "one"}, data))
    assert refusal_unsecured(unsecured(data))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"exp": None}, "exp is missing"),
        ({"iat": None}, "iat is missing"),
        ({"sub": None}, "sub is missing, blank, or no text"),
        ({"sub": ""}, "sub is missing, blank, or no text"),
        ({"sub": " \t"}, "sub is missing, blank, or no text"),
        ({"sub": 5}, "sub is missing, blank, or no text"),
        ({"sub": ["alice"]}, "sub is missing, blank, or no text"),
        ({"sub": "\ud800"}, "sub has a character that is none"),
        ({"sub": "x" * (MAX_NAME_CHARS + 1)}, f"sub has more than {MAX_NAME_CHARS} characters"),
        ({"exp": NOW_S - 30}, "it has expired"),
        ({"iat": NOW_S + 601}, "it expires before it was issued"),
        ({"nbf": NOW_S + 31}, "it is not valid yet"),
        ({"nbf": NOW_S + 601}, "it is not valid yet"),
        ({"aud": "kafka"}, "it is for another audience"),
        ({"aud": []}, "it is for another audience"),
        ({"aud": 5}, "its audience is missing, or no text"),
        ({"scope": ""}, "a scope of it is blank, no text, or given twice"),
        ({"scope": ["a", "a "]}, "a scope of it is blank, no text, or given twice"),
        ({"scope": ["a", 1]}, "a scope of it is blank, no text, or given twice"),
    ],
)
def test_claims_that_are_not_good_are_refused(given: dict[str, Any], reason: str) -> None:
    assert refusal(signed(claims(**given))) == reason


@pytest.mark.parametrize(
    "given",
    [
        {"iat": NOW_S + 300},  # In the future, which jose4j does not look at.
        {"nbf": NOW_S + 30},
        {"iat": 1.5},
        {"scope": "a a"},
        {"scope": ["a", "b"]},
        {"scope": 5},
        {"iss": 5},
        {"aud": None, "sub": " alice\n"},
    ],
)
def test_claims_that_are_good_are_taken(given: dict[str, Any]) -> None:
    assert validated(signed(claims(**given))) == GOOD


def test_a_token_in_its_grace_is_taken_and_has_ended() -> None:
    token = signed(claims(iat=1, exp=NOW_S - 29))
    assert validated(token) == ValidToken("alice", (NOW_S - 29) * 1000)
    assert refusal(token, now_ms=NOW_MS + 1000) == "it has expired"
    assert refusal(token, Expectations(skew_s=29)) == "it has expired"


def test_issuer_audience_and_the_names_of_claims_are_those_of_the_settings() -> None:
    expected = Expectations("https://issuer", frozenset({"kafka", "other"}), "email", "scp", 0)
    good = {"iss": "https://issuer", "aud": ["x", "kafka"], "email": "a@b", "sub": None}
    assert validated(signed(claims(**good)), expected) == ValidToken("a@b", EXPIRY_MS)
    assert validated(signed(claims(**good | {"aud": "other"})), expected)
    for bad in ({"iss": None}, {"iss": "https://issuer/"}, {"iss": ["https://issuer"]}):
        assert refusal(signed(claims(**good | bad)), expected) == "its issuer is another"
    assert refusal(signed(claims(**good | {"aud": "x"})), expected) == "it is for another audience"
    assert refusal(signed(claims(**good | {"aud": None})), expected) == "its audience is missing, or no text"
    assert refusal(signed(claims(**good | {"scp": [""]})), expected).startswith("a scope")


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="abcXYZ019-_.=+/", max_size=60))
def test_no_text_passes_for_a_token(text: str) -> None:
    refusal(text)
    refusal_unsecured(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMED = st.dictionaries(
    st.sampled_from(["sub", "exp", "iat", "nbf", "aud", "iss", "scope", "alg", "kid", "crit"]),
    JSON,
    max_size=6,
)


@settings(max_examples=100, deadline=None)
@given(NAMED, NAMED)
def test_no_header_and_no_claims_do_more_than_be_refused(
    header: dict[str, Any], given: dict[str, Any]
) -> None:
    """With any of a header beside what is right, and any claims: either a name, or a refusal."""
    for token in (
        signed_text({"alg": "RS256", "kid": "one"}, claims() | given),
        signed_text(header, claims()),
        unsecured(claims() | given),
        unsecured(header=header),
    ):
        for validator in (SignedTokens(keys(), EXPECTING), UnsecuredTokens({})):
            try:
                valid = validator.validate(token, NOW_MS)
            except TokenRefused:
                continue
            assert valid.name.encode()
            assert 0 < valid.expires_at_ms <= LAST_SECOND * 1000


# Key sets.


def test_keys_of_kinds_that_are_not_known_are_left_out() -> None:
    strange: list[Any] = [
        {"kty": "oct", "k": encoded(b"secret" * 8), "kid": "oct", "alg": "HS256"},
        {"kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "small"},
        member(rsa_key("small", 1024), kid="1024"),
        member(rsa_key(), kid="enc", use="enc"),
        member(rsa_key(), kid="ops", key_ops=["sign"]),
        {**member(ec_key(), kid="off"), "y": encoded(bytes(32))},
        {"kty": "EC", "crv": "P-256", "kid": "none"},
        {**member(rsa_key()), "kid": 5},
        {"kty": ["RSA"]},
        {},
    ]
    found = parse_key_set(
        json.dumps({"keys": [*strange, "text", None, member(rsa_key(), kid="one")]}).encode()
    )
    assert len(found) == 1
    assert "one" in found


def test_the_private_half_of_a_key_is_not_looked_at() -> None:
    private = {**member(rsa_key(), kid="one"), "d": "AQAB", "p": "", "q": 5}
    found = parse_key_set(key_set(private)).find("one", "RS256")
    assert isinstance(found, Key)
    assert "public" not in repr(found)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"keys":5}',
        b'{"keys":[]}',
        b'{"keys":[{"kty":"oct"}]}',
        b"[" * 100_000,
        b"\xff",
    ],
)
def test_what_is_no_key_set_is_one_sentence(data: bytes) -> None:
    with pytest.raises(KeysUnusable):
        parse_key_set(data)


MEMBER_NAMES = st.sampled_from(["kty", "kid", "n", "e", "crv", "x", "y", "use", "alg", "key_ops"])
MEMBER_VALUES = JSON | st.sampled_from(["RSA", "EC", "OKP", "P-256", "Ed25519", "AQAB"])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.dictionaries(MEMBER_NAMES, MEMBER_VALUES, max_size=8), max_size=3))
def test_no_key_set_does_more_than_be_refused(members: list[dict[str, Any]]) -> None:
    try:
        found = parse_key_set(key_set(*members))
    except KeysUnusable:
        return
    assert len(found)


# Tokens without a signature.


def validated_unsecured(token: str, now_ms: int = NOW_MS, **options: str) -> ValidToken:
    named = {f"unsecuredValidator{name}": value for name, value in options.items()}
    return UnsecuredTokens(named).validate(token, now_ms)


def refusal_unsecured(token: str, now_ms: int = NOW_MS, **options: str) -> str:
    with pytest.raises(TokenRefused) as refused:
        validated_unsecured(token, now_ms, **options)
    return str(refused.value)


def test_an_unsecured_token_is_taken_until_it_ends() -> None:
    assert validated_unsecured(unsecured()) == GOOD
    assert validated_unsecured(unsecured(claims(iat=None, exp=NOW_S + 0.25))) == ValidToken(
        "alice", NOW_MS + 250
    )
    assert refusal_unsecured(unsecured(), EXPIRY_MS) == "it has expired"
    assert validated_unsecured(unsecured(), EXPIRY_MS - 1) == GOOD
    assert validated_unsecured(unsecured(), EXPIRY_MS + 99, AllowableClockSkewMs="100") == GOOD


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"exp": None}, "exp is missing"),
        ({"sub": None}, "sub is missing, blank, or no text"),
        ({"iat": NOW_S + 1}, "it was issued in the future"),
        ({"iat": "1"}, "iat is no number"),
        ({"scope": 5}, "its scope is neither a text nor a list of them"),
    ],
)
def test_unsecured_claims_that_are_not_good_are_refused(given: dict[str, Any], reason: str) -> None:
    assert refusal_unsecured(unsecured(claims(**given))) == reason


def test_a_signed_token_is_no_unsecured_one() -> None:
    for token in (
        signed(),
        unsecured(signature="AAAA"),
        unsecured(header={}),
        unsecured(header={"alg": "None"}),
    ):
        assert refusal_unsecured(token).startswith("it is signed, or says so")


def test_the_options_of_the_login_module_count() -> None:
    assert validated_unsecured(unsecured(claims(email="e")), PrincipalClaimName="email").name == "e"
    needs: dict[str, Any] = {"RequiredScope": "a b"}
    assert validated_unsecured(unsecured(claims(scope=["b", "a", "c"])), **needs) == GOOD
    assert validated_unsecured(unsecured(claims(scp=["b", "a"])), ScopeClaimName="scp", **needs) == GOOD
    for scope in (None, "a b", ["a"], []):
        with pytest.raises(TokenRefused) as refused:
            validated_unsecured(unsecured(claims(scope=scope)), **needs)
        assert refused.value.missing_scope == "[a, b]"
    for wrong in ({"AllowableClockSkewMs": "-1"}, {"AllowableClockSkewMs": "soon"}, {"RequiredScope": 'a"b'}):
        with pytest.raises(UnsecuredOptionsError):
            UnsecuredTokens({f"unsecuredValidator{name}": value for name, value in wrong.items()})
