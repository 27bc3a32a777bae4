"""Every API in every version, asked as one user in one go: what a table of rights is made of.

The requests are written once. They go out on one connection, many at a time, and answers that arrived before are
not looked at again: the same bytes, but for the ids of topics, say the same. So a whole table takes seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from protocol.codec.codec import spec
from protocol.framing import encode_request
from tests.conformance.access_requests import Named
from tests.conformance.access_scenes import tidy_texts
from tests.conformance.answers import read_answer
from tests.conformance.comparison import Entry, normalised
from tests.conformance.connection import CORRELATION_ID
from tests.conformance.run import CLOSED, Run

AT_A_TIME: Final = 32
"""Requests on the way: they and their answers fit into the sockets' buffers."""
ANSWER_TIMEOUT_S: Final = 30.0

Question = tuple[str, Any, int]
"""A request with a word for the transcript and its version."""
Tidy = Callable[[str, int, Any, Named], None]
"""Takes out of an answer what each broker has for itself, by the word, the API key and what is named."""


def versions(request: Any) -> range:
    """All that there are of its API."""
    known = spec(type(request))
    return range(known.min_version, known.max_version + 1)


class Matrix:
    """The questions, and what is known of their answers."""

    def __init__(self, run: Run, named: Named, questions: Iterable[Question], tidy: Tidy) -> None:
        self._run, self._tidy = run, tidy
        self._ids = dict(zip(named.topic_ids, _canonical(named), strict=True))
        self._named = replace(named, topic_ids=tuple(self._ids.values()))
        self._frames = [_Frame(*question) for question in questions]
        self._texts: dict[tuple[str, bytes], str] = {}

    async def ask(self, actor: str, world: str) -> list[str]:
        """Ask all questions as `actor`, and enter the answers into the transcript; return them as texts."""
        texts: list[str] = []
        for start in range(0, len(self._frames), AT_A_TIME):
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                asked = self._frames[start : start + AT_A_TIME]
                texts += [text async for text in self._answers(actor, asked)]
        for frame, text in zip(self._frames, texts, strict=True):
            self._run.saw(f"{world}: {frame.what}", text)
        self._run.asked += len(texts)
        return texts

    async def _answers(self, actor: str, frames: list[_Frame]) -> Any:
        """Ask again on a new connection what is behind a request that the broker closed for."""
        while frames:
            connection = await self._run.free_connection(actor)
            connection.write(b"".join(frame.data for frame in frames))
            try:
                while frames:
                    text = self._text_of(frames[0], await connection.next_frame())
                    frames.pop(0)
                    yield text
            except ConnectionError:
                self._run.hang_up(actor)
                frames.pop(0)
                yield CLOSED

    def _text_of(self, frame: _Frame, answer: bytes) -> str:
        for topic_id, canonical in self._ids.items():
            answer = answer.replace(topic_id, canonical)
        known = self._texts.get((frame.what, answer))
        if known is None:
            known = self._texts[frame.what, answer] = self._read(frame, answer)
        return known

    def _read(self, frame: _Frame, answer: bytes) -> str:
        correlation_id, found = read_answer(frame.key, frame.version, answer)
        assert correlation_id == CORRELATION_ID
        if found.surplus:
            self._run.surplus.add(f"{found.name}: {found.surplus}")
        tidy_texts(found.message)
        self._tidy(frame.note, frame.key, found.message, self._named)
        (step,) = normalised([Entry("", found.message)], *self._run.bootstraps)
        return repr(step.plain)


class _Frame:
    """A question as it is sent."""

    __slots__ = ("data", "key", "note", "version", "what")

    def __init__(self, note: str, request: Any, version: int) -> None:
        known = spec(type(request))
        assert known.api_key is not None
        self.key, self.version, self.note = known.api_key, version, note
        name = type(request).__name__.removesuffix("Request")
        self.what = f"{name} v{version}{f' ({note})' if note else ''}"
        self.data = encode_request(request, version, CORRELATION_ID, "matrix")


def _canonical(named: Named) -> Iterator[bytes]:
    for number, _ in enumerate(named.topic_ids, 1):
        yield bytes((number,)) * 16
