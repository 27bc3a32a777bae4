"""Names of client certificates and what mapping rules make of them, beside Java's and Kafka's own (T31 to T33)."""

from __future__ import annotations

import base64
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from cryptography import x509
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID, ObjectIdentifier
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.security.tls.der import DerError, element_at, object_identifier
from coordinator.security.tls.names import names_of
from coordinator.security.tls.problems import TlsProblem
from coordinator.security.tls.rules import MappingRules
from harness import java_tools
from tests.security.tls.certificates import self_signed

SOURCE: Final = Path(__file__).parents[2] / "java" / "PrincipalNames.java"

CN, COUNTRY = NameOID.COMMON_NAME, NameOID.COUNTRY_NAME
ORGANIZATION, UNIT = NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME
EMAIL = NameOID.EMAIL_ADDRESS


def attribute(oid: ObjectIdentifier, value: str, kind: _ASN1Type | None = None) -> x509.NameAttribute[str]:
    return x509.NameAttribute(oid, value, kind, _validate=False)


def name(*parts: x509.NameAttribute[str] | list[x509.NameAttribute[str]]) -> x509.Name:
    """A subject as it stands in a certificate: the country first."""
    return x509.Name(
        [x509.RelativeDistinguishedName(part if isinstance(part, list) else [part]) for part in parts]
    )


SUBJECTS: Final = {
    "of the page": name(
        attribute(COUNTRY, "DE", _ASN1Type.PrintableString),
        attribute(ORGANIZATION, "Ex, Inc"),
        [attribute(UNIT, "Dev"), attribute(NameOID.USER_ID, "u7")],
        attribute(CN, "Alice #1"),
        attribute(EMAIL, "a@b.c", _ASN1Type.IA5String),
    ),
    "blanks at both ends": name(attribute(CN, "  two and one ")),
    "blanks alone": name(attribute(CN, "  ")),
    "every escape": name(attribute(CN, ',=+<>#;"\\ /*')),
    "letters of elsewhere": name(
        attribute(CN, "Zoë Ω 漢"), attribute(ORGANIZATION, "Zoë", _ASN1Type.BMPString)
    ),
    "T61": name(attribute(CN, "plain", _ASN1Type.T61String)),
    "no UTF-8": name(
        attribute(CN, "Zo\u00eb", _ASN1Type.T61String), attribute(CN, "\u6f22", _ASN1Type.BMPString)
    ),
    "all keywords": name(
        *(
            attribute(oid, f"v{number}")
            for number, oid in enumerate(
                (
                    *(NameOID.LOCALITY_NAME, NameOID.STATE_OR_PROVINCE_NAME, NameOID.STREET_ADDRESS),
                    *(NameOID.DOMAIN_COMPONENT, NameOID.USER_ID, NameOID.SERIAL_NUMBER, NameOID.TITLE),
                    *(NameOID.GIVEN_NAME, NameOID.SURNAME, NameOID.DN_QUALIFIER, NameOID.PSEUDONYM),
                )
            )
        )
    ),
    "an identifier of its own": name(attribute(ObjectIdentifier("1.3.6.1.4.1.99999.1"), "x#y")),
    "a line feed and a NUL": name(attribute(CN, "a\nb\0c\r")),
    "empty": name(),
    "numeric": name(attribute(CN, "123", _ASN1Type.NumericString)),
    "visible": name(attribute(CN, "vis", _ASN1Type.VisibleString)),
    "universal": name(attribute(CN, "uni", _ASN1Type.UniversalString)),
}

SUBJECT: Final = "CN=alice,OU=Dev,O=Ex\\, Inc,C=DE"
RULES: Final = (
    "DEFAULT",
    "RULE:^CN=(.*?),.*$/$1/",
    "RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/L",
    "RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/U",
    "RULE:^CN=(.*?),OU=(.*?),.*$/$1$3$12$2/",
    "RULE:CN=(.*?)/$1/",
    "RULE:.*/x/",
    "RULE:.*(Ex).*/\\$1$1\\/y/",
    "RULE:nothing/x/, DEFAULT",
    "RULE:nothing/x/",
    "  RULE:^CN=(\\w+),.*$/$1/L ,  DEFAULT ",
    "RULE:^CN=(al|bo)(.*?),.*$/$2-$1-$0/",
    "RULE:^CN=([a-z]*)(x)?,.*$/$1[$2]/",
    "RULE:[^,]*,.*/é/U",
    "RULE:.*/x",
    "RULE:.*",
    "DEFAULT,RULE",
    "default",
    "RULE:(/x/",
    "RULE:.*/x/LU",
    "RULE:.*/x/X",
    "",
    ",,DEFAULT",
    "RULE:^CN=(.*),OU=.*$/$1/,RULE:.*/never/",
    "RULE:.*,O=Ex\\\\, Inc,.*/slash/",
)


def asked(lines: list[str]) -> list[str | None]:
    """What Java answers to each line; None where it refuses."""
    command = [java_tools.java(), "-cp", java_tools.classpath(), str(SOURCE)]
    said = subprocess.run(
        command, input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=60, check=True
    ).stdout
    answers = [base64.b64decode(line).decode() for line in said.splitlines()]
    return [None if answer == "!" else answer[1:] for answer in answers]


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode() or "===="


def mapped(rules: str, subject: str) -> str | None:
    try:
        return MappingRules(rules).name_of(subject)
    except TlsProblem:
        return None


def test_the_subject_of_the_page() -> None:
    """T31."""
    found = names_of(self_signed(SUBJECTS["of the page"])).subject
    assert found == r"1.2.840.113549.1.9.1=#16056140622e63,CN=Alice \#1,OU=Dev+UID=u7,O=Ex\, Inc,C=DE"


def test_subjects_are_written_as_java_writes_them(java: None) -> None:
    ours = {title: names_of(self_signed(subject)).subject for title, subject in SUBJECTS.items()}
    theirs = asked([f"subject {subject.public_bytes().hex()}" for subject in SUBJECTS.values()])
    assert ours == dict(zip(SUBJECTS, theirs, strict=True))


def test_rules_make_of_a_subject_what_kafkas_make_of_it(java: None) -> None:
    ours = {rules: mapped(rules, SUBJECT) for rules in RULES}
    theirs = asked([f"rules {encoded(rules)} {encoded(SUBJECT)}" for rules in RULES])
    assert ours == dict(zip(RULES, theirs, strict=True))


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ("RULE:(?=x).*/x/", "no pattern that is supported"),
        ("RULE:(.)\\1.*/x/", "no pattern that is supported"),
        ("RULE:[a-z&&[^b]].*/x/", "a class within a class"),
        ("RULE:.*/$1/", "its pattern has none"),
        ("RULE:.*/$x/", "no replacement"),
        ("RULE:.*/x", "is no rule"),
        ("x" * 70_000, "more than"),
    ],
)
def test_rules_that_cannot_be_kept_are_refused_at_the_start(rules: str, problem: str) -> None:
    """T33: what Java's patterns have and RE2 has not."""
    with pytest.raises(TlsProblem, match=problem):
        MappingRules(rules)


def test_a_rule_takes_no_longer_for_a_subject_that_was_made_for_it() -> None:
    """F6: a nested repetition of `re` would take for ever."""
    assert MappingRules("RULE:(a+)+b/x/").name_of("a" * 10_000) is None


@given(st.text(max_size=60), st.text(max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_text_is_a_rule_or_refused(rules: str, subject: str) -> None:
    mapped(rules, subject)
    mapped(f"RULE:{rules}/$1/,DEFAULT", subject)


def test_alternative_names() -> None:
    names = (x509.DNSName("a.example"), x509.DNSName("b.example"))
    both, one = names_of(self_signed(name(), *names)), names_of(self_signed(name(), names[0]))
    assert one.alternatives < both.alternatives
    assert len(both.alternatives) == 2
    assert names_of(self_signed(name())).alternatives == frozenset()


@given(st.binary(max_size=200))
@settings(max_examples=500, deadline=None)
def test_no_bytes_are_a_certificate_by_accident(data: bytes) -> None:
    with pytest.raises(TlsProblem):
        names_of(data)


@given(st.integers(0, 400), st.integers(0, 255))
@settings(max_examples=300, deadline=None)
def test_a_certificate_with_another_byte_is_read_or_refused(position: int, byte: int) -> None:
    certificate = bytearray(CERTIFICATE)
    certificate[position % len(certificate)] = byte
    with suppress(TlsProblem):
        assert names_of(bytes(certificate)).subject is not None


CERTIFICATE: Final = self_signed(SUBJECTS["of the page"], x509.DNSName("a.example"))


@pytest.mark.parametrize(
    ("content", "dotted"),
    [
        (bytes.fromhex("550403"), "2.5.4.3"),
        (bytes.fromhex("2a864886f70d010901"), "1.2.840.113549.1.9.1"),
        (bytes.fromhex("883703"), "2.999.3"),
        (b"\x00", "0.0"),
    ],
)
def test_object_identifiers(content: bytes, dotted: str) -> None:
    assert object_identifier(content) == dotted


@pytest.mark.parametrize(
    "data", [b"", b"\x30", b"\x30\x80", b"\x30\x85\1\1\1\1\1", b"\x30\x05ab", b"\x30\x82\1"]
)
def test_lengths_beyond_what_there_is_are_refused(data: bytes) -> None:
    with pytest.raises(DerError):
        element_at(data)
