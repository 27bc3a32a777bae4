"""Key stores and mapping rules (T1 to T13, T32): what another hand wrote is read, damage is one sentence.

JKS stores are written here by the format's description, PKCS12 and PEM by `cryptography`: with several entries,
with certificates that are none, with keys that are none. What is whole is read as what went in. What is damaged
is read as something or refused; of a JKS store that has a password any change of a byte is noticed.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12
from hypothesis import strategies as st

from coordinator.security.tls.contexts import make_context
from coordinator.security.tls.options import tls_options
from coordinator.security.tls.problems import TlsProblem
from coordinator.security.tls.rules import MappingRules
from coordinator.security.tls.stores import read_key_store, read_trust_store
from tests.security.fuzz.properties import CANARY, Property, assert_sentence
from tests.security.tls.certificates import der, encrypted, issued

KINDS: Final = ("JKS", "PKCS12", "PEM")
FEW_ROUNDS: Final = 1
"""Of PKCS12's key derivation: these stores guard nothing."""


class Case(NamedTuple):
    """A store of one kind, what it holds, and the damage."""

    kind: str
    said: str
    """The type that the setting gives."""
    has_key: bool
    others: tuple[bool, ...]
    """Certificates beside the key: each a real one, or bytes that are none."""
    is_key_real: bool
    is_key_encrypted: bool
    has_password: bool
    damage: tuple[int, int, bytes] | None
    """Where, how much is taken away, what is put in its place."""
    seed: int
    rules: str


rule_texts = st.lists(
    st.sampled_from(
        [
            "DEFAULT",
            "RULE:",
            "^CN=(.*?),.*$",
            "/",
            "$1",
            "$9",
            "\\",
            "L",
            "U",
            ",",
            "[a&&b]",
            "(",
            "(?=x)",
            "\\/",
            "x" * 300,
        ]
    )
    | st.text(max_size=3),
    max_size=8,
).map("".join)
cases = st.builds(
    Case,
    kind=st.sampled_from(KINDS),
    said=st.sampled_from(KINDS),
    has_key=st.booleans(),
    others=st.lists(st.booleans(), max_size=2).map(tuple),
    is_key_real=st.booleans(),
    is_key_encrypted=st.booleans(),
    has_password=st.booleans(),
    damage=st.none() | st.tuples(st.integers(0, 4000), st.integers(0, 3), st.binary(max_size=3)),
    seed=st.integers(0, 1 << 32),
    rules=rule_texts,
)


class Made(NamedTuple):
    """The bytes of a store, and what went into it: the key in DER (empty: none), its chain, certificates alone."""

    data: bytes
    key: bytes
    chain: tuple[bytes, ...]
    alone: tuple[bytes, ...]
    is_sound: bool
    """Whether all in it is what it seems."""


@cache
def server_key() -> bytes:
    loaded = serialization.load_pem_private_key(issued().key.encode(), None)
    return loaded.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


@cache
def trusted() -> bytes:
    """A certificate that has not issued the server's: that one would be of its chain, and no anchor (T9)."""
    return der(issued(signed_by_another=True).certificate)


def certificates(case: Case) -> tuple[bytes, ...]:
    chance = Random(case.seed)
    return tuple(trusted() if is_real else chance.randbytes(chance.randrange(60)) for is_real in case.others)


def made(case: Case) -> Made:
    chance = Random(case.seed)
    key = server_key() if case.is_key_real else chance.randbytes(chance.randrange(80))
    chain, alone = (der(issued().certificate),), certificates(case)
    is_sound = all(case.others) and (case.is_key_real or not case.has_key)
    if case.kind == "JKS":
        data = jks(key if case.has_key else b"", chain, alone, chance)
    elif case.kind == "PKCS12":
        alone = tuple(each for each, is_real in zip(alone, case.others, strict=True) if is_real)
        if not case.has_key:
            alone = alone or (trusted(),)  # A store of nothing cannot be written.
        data = p12(case.has_key, alone)
        key, is_sound = server_key(), case.has_key or bool(alone)
    else:
        data = pem_text(case, key, chain + alone, chance).encode()
    return Made(data, key if case.has_key else b"", chain if case.has_key else (), alone, is_sound)


# Writers.


def sun_protected(key: bytes, chance: Random) -> bytes:
    """A key under Sun's protection, in DER: its length has three bytes here, whatever it is."""
    secret, block = CANARY.encode("utf-16-be"), chance.randbytes(20)
    octets, salt = bytearray(), block
    for at in range(0, len(key), 20):
        block = hashlib.sha1(secret + block).digest()
        octets += bytes(a ^ b for a, b in zip(key[at : at + 20], block, strict=False))
    content = salt + octets + hashlib.sha1(secret + key).digest()
    algorithm = bytes.fromhex("300e060a2b060104012a021101010500")
    string = b"\x04\x82" + len(content).to_bytes(2, "big") + content
    return b"\x30\x82" + (len(algorithm) + len(string)).to_bytes(2, "big") + algorithm + string


def jks(key: bytes, chain: tuple[bytes, ...], alone: tuple[bytes, ...], chance: Random) -> bytes:
    def text(value: str) -> bytes:
        return len(value.encode()).to_bytes(2, "big") + value.encode()

    def block(value: bytes) -> bytes:
        return len(value).to_bytes(4, "big") + value

    entries = [
        b"\0\0\0\2" + text(f"ca{number}") + bytes(8) + text("X.509") + block(each)
        for number, each in enumerate(alone)
    ]
    if key:
        listed = b"".join(text("X.509") + block(each) for each in chain)
        count = len(chain).to_bytes(4, "big")
        entries.append(
            b"\0\0\0\1" + text("broker") + bytes(8) + block(sun_protected(key, chance)) + count + listed
        )
        chance.shuffle(entries)
    body = b"\xfe\xed\xfe\xed\0\0\0\2" + len(entries).to_bytes(4, "big") + b"".join(entries)
    return body + hashlib.sha1(CANARY.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


@cache
def p12(has_key: bool, alone: tuple[bytes, ...]) -> bytes:
    key: Any = serialization.load_der_private_key(server_key(), None) if has_key else None
    own = x509.load_der_x509_certificate(der(issued().certificate)) if has_key else None
    others = [x509.load_der_x509_certificate(each) for each in alone]
    protection = PrivateFormat.PKCS12.encryption_builder().kdf_rounds(FEW_ROUNDS).build(CANARY.encode())
    return pkcs12.serialize_key_and_certificates(b"broker", key, own, others or None, protection)


def pem_text(case: Case, key: bytes, listed: tuple[bytes, ...], chance: Random) -> str:
    def block(label: str, content: bytes) -> str:
        encoded = b64encode(content).decode()
        between = chance.choice(["\n", " ", "\r\n\t"])
        lines = between.join(encoded[at : at + 64] for at in range(0, len(encoded), 64))
        return f"-----BEGIN {label}-----{between}{lines}{between}-----END {label}-----{between}"

    blocks = [block("CERTIFICATE", each) for each in listed]
    if case.has_key:
        is_encrypted = case.is_key_encrypted and case.is_key_real
        blocks.insert(0, encrypted_key() if is_encrypted else block("PRIVATE KEY", key))
    return "What stands between is skipped.\n".join(blocks)


@cache
def encrypted_key() -> str:
    return encrypted(issued().key, CANARY)


# What has to hold.


def check(case: Case) -> str:
    """Read the store as a key store and as a trust store, and make a context of it."""
    _check_rules(case.rules)
    made_ = made(case)
    data = made_.data
    if case.damage is not None:
        at, taken, put = case.damage
        at = at % (len(data) + 1)
        data = data[:at] + put + data[at + taken :]
    is_whole = data == made_.data
    with TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        path.write_bytes(data)
        outcomes = {_read_keys(case, made_, path, is_whole), _read_trusted(case, made_, path, is_whole)}
    is_read = "read" in outcomes
    if is_whole:
        return "read" if is_read else "refused"
    return "damaged and read" if is_read else "damaged and refused"


def _is_kind(case: Case) -> bool:
    """T10: PEM is told from the others by the setting, these by their first bytes."""
    return (case.kind == "PEM") == (case.said == "PEM")


def _read_keys(case: Case, made_: Made, path: Path, is_whole: bool) -> str:
    password = None if case.said == "PEM" else CANARY
    try:
        store = read_key_store(path, case.said, password, CANARY if case.said == "PEM" else None)
    except TlsProblem as problem:
        _assert_problem(problem, path)
        _expect(not (is_whole and _is_kind(case) and made_.is_sound and case.has_key), problem)
        return "refused"
    assert CANARY not in repr(store)
    if is_whole:
        assert _is_kind(case)
        assert case.has_key
        assert store.chain[0] == made_.chain[0]
        if not (case.is_key_encrypted and case.is_key_real and case.kind == "PEM"):
            assert _content(store.key_pem) == made_.key
    elif case.kind == "JKS":
        raise AssertionError("a damaged store with a password was read")
    _use(case, path, is_whole and made_.is_sound)
    return "read"


def _use(case: Case, path: Path, is_good: bool) -> None:
    """What was read goes to OpenSSL, which has the last word on the key."""
    settings = {"ssl.keystore.type": case.said, "ssl.keystore.location": str(path)}
    settings["ssl.key.password" if case.said == "PEM" else "ssl.keystore.password"] = CANARY
    try:
        context = make_context(tls_options(settings.get, None))
    except TlsProblem as problem:
        _assert_problem(problem, path)
        _expect(not is_good, problem)
    else:
        assert CANARY not in repr(context)


def _read_trusted(case: Case, made_: Made, path: Path, is_whole: bool) -> str:
    password = None if case.said == "PEM" or (case.kind == "JKS" and not case.has_password) else CANARY
    try:
        store = read_trust_store(path, case.said, password)
    except TlsProblem as problem:
        _assert_problem(problem, path)
        is_good = (
            _is_kind(case) and all(case.others) and made_.alone and (case.kind != "PEM" or made_.is_sound)
        )
        _expect(not (is_whole and is_good), problem)
        return "refused"
    if is_whole:
        wanted = made_.chain + made_.alone if case.kind == "PEM" else made_.alone
        assert set(wanted) <= set(store.certificates)
    elif case.kind == "JKS" and password is not None:
        raise AssertionError("a damaged store with a password was read")
    return "read"


def _expect(is_right: object, problem: TlsProblem) -> None:
    """Fail with what was raised, where a good store was refused."""
    assert is_right, f"a good store: {problem}"


def _content(text: str) -> bytes:
    return b64decode("".join(text.splitlines()[1:-1]))


def _check_rules(text: str) -> None:
    """Rules are rules or one sentence; and whatever the subject, a name is made or none."""
    try:
        rules = MappingRules(text)
    except TlsProblem as problem:
        _assert_problem(problem, Path("/"))
        return
    for subject in ("CN=alice,O=x", "", "CN=" + "a" * 3000, "\0\n/$1\\"):
        name = rules.name_of(subject)
        assert name is None or isinstance(name, str)


def _assert_problem(problem: TlsProblem, path: Path) -> None:
    assert_sentence(str(problem).replace(str(path), "<path>"))


STORES: Final = Property("stores", cases, check, frozenset({"read", "refused", "damaged and refused"}))
