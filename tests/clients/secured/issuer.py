"""An issuer of bearer tokens on loopback, as OAuth's client credentials grant has it (RFC 6749, section 4.4).

The path of the request says what kind of token is asked for, one of LIFETIMES_S. Every token is made when it is
asked for.
"""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from harness.processes import HOST
from tests.conformance.tokens import claims, signed

LIFETIMES_S: Final = {"right": 600, "wrong": 600, "expired": -600, "brief": 16}
"""The kinds of tokens and how long each is good for; "wrong" is for another audience. Clients are told half of
it: who logs in again with the token that it has then has one that lasts for a while."""


def token(kind: str) -> str:
    now_s, audience = int(time.time()), {"aud": "others"} if kind == "wrong" else {}
    return signed(
        claims(iat=min(now_s, now_s + 2 * LIFETIMES_S[kind]), exp=now_s + LIFETIMES_S[kind], **audience)
    )


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        kind = self.path.rpartition("/")[2]
        granted = {"access_token": token(kind), "token_type": "Bearer", "expires_in": LIFETIMES_S[kind] // 2}
        body = json.dumps(granted).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # Of the five that it is by default, many clients at once wait for seconds.


class Issuer:
    """Serves tokens while it is entered."""

    def __init__(self) -> None:
        self._server = _Server((HOST, 0), _Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Issuer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def url(self, kind: str) -> str:
        return f"http://{HOST}:{self._server.server_port}/{kind}"

    def java_options(self) -> str:
        """What lets Kafka's Java client ask this issuer."""
        urls = ",".join(self.url(kind) for kind in LIFETIMES_S)
        return f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={urls}"
