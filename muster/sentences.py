"""What a command says beside its output: a sentence on standard error, and no more of it than can be read.

What was given is repeated in it, and that may be a whole file which a shell put in the place of a name.
"""

from __future__ import annotations

import sys
from typing import Final

MAX_CHARACTERS: Final = 1_000
_HEAD, _TAIL = 600, 300  # What is wrong stands at the beginning, as a rule, and why it is at the end.


def say(sentence: object) -> None:
    """Print the sentence to standard error under the program's name, cut if it is too long."""
    remark(f"muster: {sentence}")


def remark(sentence: str) -> None:
    """Print what belongs to the output and is none: to standard error, cut if it is too long."""
    print(cut(sentence), file=sys.stderr, flush=True)


def cut(text: str) -> str:
    """`text`, its middle left out if it has more than MAX_CHARACTERS; how many it has is said then."""
    if len(text) <= MAX_CHARACTERS:
        return text
    left_out = len(text) - _HEAD - _TAIL
    return f"{text[:_HEAD]} [... {left_out:,} of {len(text):,} characters left out ...] {text[-_TAIL:]}"
