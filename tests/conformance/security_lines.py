"""The facts of docs/kafka-security.md by their letters, as scenarios name them: "security S12".

They stand apart from those of docs/kafka.md, whose letters are others: `--only security` plays them all, and
`--only "security S12"` those about one. A scenario may name any of them; none has to be shown here, as many are
about clients, logs and files, which other tests look at.
"""

from __future__ import annotations

from typing import Final

_COUNTS: Final = {"L": 11, "T": 37, "S": 44, "A": 28, "Q": 22, "F": 14}

SECURITY_LINES: Final = tuple(
    f"security {letter}{number}" for letter, count in _COUNTS.items() for number in range(1, count + 1)
)
