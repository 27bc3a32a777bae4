"""Has Python compile the methods of dataclasses when they are first used, rather than as each class is made.

For every dataclass Python writes and compiles up to six methods. A start of the daemon makes 170 such classes,
with 850 methods, of which its imports call one in twelve; the rest took 50 ms, a sixth of the start. Here a class
is given a descriptor in the place of a method, which puts the method into its place when somebody looks for it.
From then on all is as Python itself would have made it (`tests/test_lazy_dataclasses.py` holds both equal).

It replaces a private function of the standard library. Where there is none, or it takes other arguments, as from
Python 3.13 on, it does nothing: the start is slower, and no more. What a class is for is no matter of this module.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, Final

_PARAMETERS: Final = ("name", "args", "body", "globals", "locals", "return_type")
"""Those of the function that compiles a method, in Python 3.11 and 3.12."""

_COMPILE: Final[Callable[..., Any] | None] = getattr(dataclasses, "_create_fn", None)


def compile_methods_lazily() -> bool:
    """Have the methods of later dataclasses compiled on first use. Returns whether this Python can do it."""
    if _COMPILE is None or tuple(inspect.signature(_COMPILE).parameters) != _PARAMETERS:
        return False
    vars(dataclasses)["_create_fn"] = _LazyMethod
    return True


class _LazyMethod:
    """Stands in a class for a method that is not compiled yet; takes what dataclasses' own compiler takes."""

    __slots__ = ("__name__", "_how", "_method", "_what")

    def __init__(self, name: str, *what: object, **how: object) -> None:
        self.__name__ = name
        self._what, self._how = what, how
        self._method: Any = None

    def __get__(self, instance: object, owner: type) -> Any:
        method = self._compiled()
        for holder in owner.__mro__:
            if vars(holder).get(self.__name__) is self:
                method.__qualname__ = f"{holder.__qualname__}.{self.__name__}"
                setattr(holder, self.__name__, method)
        return method if instance is None else method.__get__(instance, owner)

    def __call__(self, *arguments: object) -> Any:
        """Called by the function that dataclasses puts around `__repr__`, of which a class knows nothing."""
        return self._compiled()(*arguments)

    def _compiled(self) -> Any:
        """The method. Two threads may both compile it: they make the same."""
        if self._method is None:
            assert _COMPILE is not None
            self._method = _COMPILE(self.__name__, *self._what, **self._how)
        return self._method
