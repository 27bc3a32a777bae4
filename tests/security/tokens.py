"""Tokens, keys and key sets for tests, and a server of key sets on loopback."""

from __future__ import annotations

import json
import threading
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from functools import cache
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

NOW_MS = 1_800_000_000_000
NOW_S = NOW_MS // 1000


def rsa_key(name: str = "one", bits: int = 2048) -> rsa.RSAPrivateKey:
    """A private key, the same for the same name."""
    return _made(name, bits)


@cache
def _made(_name: str, bits: int) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


@cache
def ec_key(curve: type[ec.EllipticCurve] = ec.SECP256R1) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(curve())


@cache
def ed_key() -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


def member(key: Any, **others: Any) -> dict[str, Any]:
    """The member of a key set for a private key's public half."""
    kinds: tuple[tuple[Any, Any], ...] = (
        (rsa.RSAPrivateKey, RSAAlgorithm),
        (ec.EllipticCurvePrivateKey, ECAlgorithm),
        (ed25519.Ed25519PrivateKey, OKPAlgorithm),
    )
    for kind, algorithm in kinds:
        if isinstance(key, kind):
            found: dict[str, Any] = algorithm.to_jwk(key.public_key(), as_dict=True)
            found.pop("key_ops", None)
            return {**found, **others}
    raise TypeError(key)


def key_set(*members: Mapping[str, Any]) -> bytes:
    return json.dumps({"keys": members}).encode()


def encoded(part: bytes | Mapping[str, Any] | str) -> str:
    """A part of a token: a mapping becomes JSON."""
    data = json.dumps(part).encode() if isinstance(part, Mapping) else part
    data = data.encode() if isinstance(data, str) else data
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def claims(**others: Any) -> dict[str, Any]:
    """Claims that are good at NOW_MS; None takes one away."""
    found = {"sub": "alice", "iat": NOW_S - 10, "exp": NOW_S + 600, **others}
    return {name: value for name, value in found.items() if value is not None}


def unsecured(given: Mapping[str, Any] | bytes | None = None, header: Any = None, signature: str = "") -> str:
    header = {"alg": "none"} if header is None else header
    return f"{encoded(header)}.{encoded(claims() if given is None else given)}.{signature}"


def signed_text(
    header: Any, given: Mapping[str, Any] | bytes, key: Any = None, algorithm: str = "RS256"
) -> str:
    """A token with this very header and these claims, signed by the algorithm whatever the header says."""
    text = f"{encoded(header)}.{encoded(given)}"
    found = jwt.algorithms.get_default_algorithms()[algorithm]
    return f"{text}.{encoded(found.sign(text.encode(), rsa_key() if key is None else key))}"


def signed(
    given: Mapping[str, Any] | None = None, key: Any = None, algorithm: str = "RS256", **header: Any
) -> str:
    """A token; `kid` is "one" unless the header says otherwise, None takes it away."""
    named = {"alg": algorithm, "kid": "one", **header}
    named = {name: value for name, value in named.items() if value is not None}
    return signed_text(named, claims() if given is None else given, key, algorithm)


class KeyServer:
    """Serves a key set on loopback on a thread; `answer` may be replaced, and counts who asks."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.asked = 0
        self.answer: Callable[[BaseHTTPRequestHandler], None] = self._serve
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked += 1
                outer.answer(self)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}/keys.json"

    def __enter__(self) -> KeyServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(self.body)))
        request.end_headers()
        request.wfile.write(self.body)
