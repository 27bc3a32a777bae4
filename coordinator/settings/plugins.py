"""Keeps pydantic from looking for its plugins, for which it reads the metadata of every installed package.

That, and the import of what reads metadata, takes 15 ms of a start, and more the more is installed. Pydantic's own
switch, the variable PYDANTIC_DISABLE_PLUGINS, would save only part of it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Final

LOADER: Final = "pydantic.plugin._loader"
"""The module that finds plugins. If pydantic renames it, they are looked for: the start is slower, and no more."""


@contextmanager
def without_plugins() -> Iterator[None]:
    """Models that are built meanwhile have no plugins, unless pydantic has looked for them before."""
    if LOADER in sys.modules:
        yield
        return
    loader = ModuleType(LOADER)
    vars(loader)["get_plugins"] = lambda: ()
    sys.modules[LOADER] = loader
    try:
        yield
    finally:
        del sys.modules[LOADER]
