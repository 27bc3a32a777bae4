"""Host and Origin: which requests a page of another site may have caused."""

from __future__ import annotations

import pytest

from coordinator.http.exchange import HttpProblem
from coordinator.http.guard import Guard

GUARD = Guard(["0.0.0.0", "muster.internal", ""])


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "LocalHost:9640", "localhost.:1", "127.0.0.1:9640", "[::1]:9640", "10.0.0.7"),
        *("MUSTER.internal:80", "[2001:db8::1]", None),
    ],
)
def test_the_names_of_this_daemon_are_answered(host: str | None) -> None:
    GUARD.check(host, None)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:9640",
        "localhost.evil.example",
        *("evil-localhost", "evil.localhost", "notlocalhost.:9640", "evil.muster.internal"),
        "127.0.0.1.evil.example",
        "",
        "muster",
        "[evil]",
    ],
)
def test_another_name_that_points_here_is_refused(host: str) -> None:
    with pytest.raises(HttpProblem) as refused:
        GUARD.check(host, None)
    assert refused.value.status == 421


@pytest.mark.parametrize(
    ("host", "origin"), [("localhost:9640", "http://localhost:9640"), ("127.0.0.1", "HTTP://127.0.0.1")]
)
def test_a_page_of_our_own_may_ask(host: str, origin: str) -> None:
    GUARD.check(host, origin)


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "http://localhost:8080",
        "https://localhost:9640",
        "http://localhost:9640.evil",
        "",
    ],
)
def test_a_page_of_another_site_is_refused(origin: str) -> None:
    with pytest.raises(HttpProblem) as refused:
        GUARD.check("localhost:9640", origin)
    assert refused.value.status == 403


def test_with_https_alone_a_page_of_http_is_another_site() -> None:
    encrypted = Guard([], {"https"})
    encrypted.check("localhost:9640", "https://localhost:9640")
    with pytest.raises(HttpProblem) as refused:
        encrypted.check("localhost:9640", "http://localhost:9640")
    assert refused.value.status == 403
