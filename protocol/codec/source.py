"""Python code that is written by Python: lines, indentation, fresh names, and the objects the lines refer to.

The codec's two writers share it. It knows nothing of messages; it only makes one function of its
lines, and leaves them where a traceback finds them.
"""

import linecache
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Source:
    """The body of one function, growing line by line."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0
        self._count = 0
        self._globals: dict[str, Any] = {}

    def line(self, text: str) -> None:
        """Add one statement at the present depth."""
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Add a compound statement; what is added inside the `with` is its body."""
        self.line(header + ":")
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, prefix: str) -> str:
        """Make a name that nothing else here has."""
        self._count += 1
        return f"{prefix}{self._count}"

    def bind(self, prefix: str, value: Any) -> str:
        """Give `value` a name that the lines can use; the same object gets the same name."""
        for name, bound in self._globals.items():
            if bound is value:
                return name
        name = self.fresh(prefix)
        self._globals[name] = value
        return name

    def function(self, name: str, title: str) -> Any:
        """Compile the lines and return the function `name` that they define."""
        text = "\n".join(self._lines) + "\n"
        filename = f"<{name} {title}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        namespace = dict(self._globals)
        exec(compile(text, filename, "exec"), namespace)
        return namespace[name]
