"""Sees the turns of the event loop: `on_turn` is called before each wait for sockets and timers.

uvloop's turns are libuv's, which calls a "prepare" handle before each wait; uvloop has none for others, so one is
made beside it, through ctypes, with the functions that uvloop's own extension exports. asyncio's own loop waits in
`select` of its selector, which is wrapped. On any other loop, or if a function is missing, no turns are seen, and
nothing else changes. Knows nothing of what a turn does.
"""

from __future__ import annotations

import asyncio
import ctypes
import sys
import time
from collections.abc import Callable
from typing import Any, Final

OnTurn = Callable[[float], None]
"""Called at the end of each turn, with the seconds so far in which the loop was not waiting."""

_PREPARE: Final = 9  # UV_PREPARE, in uv_handle_type.
_METRICS_IDLE_TIME: Final = 1  # UV_METRICS_IDLE_TIME, in uv_loop_option.
_FUNCTIONS: Final[dict[str, tuple[Any, list[Any]]]] = {
    "uv_handle_size": (ctypes.c_size_t, [ctypes.c_int]),
    "uv_loop_configure": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int]),
    "uv_metrics_idle_time": (ctypes.c_uint64, [ctypes.c_void_p]),
    "uv_backend_fd": (ctypes.c_int, [ctypes.c_void_p]),
    "uv_prepare_init": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p]),
    "uv_prepare_start": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p]),
    "uv_prepare_stop": (ctypes.c_int, [ctypes.c_void_p]),
    "uv_unref": (None, [ctypes.c_void_p]),
    "uv_close": (None, [ctypes.c_void_p, ctypes.c_void_p]),
}
_OnPrepare = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_closed: list[object] = []
"""What libuv may still look at after a handle was closed, until the loop is gone: some hundred bytes each."""


def see_turns(loop: asyncio.AbstractEventLoop, on_turn: OnTurn) -> Callable[[], None] | None:
    """Have `on_turn` called at the end of each turn; return the function that ends it, None if no turns are seen.

    For the loop's thread. It has to be ended before the loop is closed.
    """
    if type(loop).__module__.partition(".")[0] == "uvloop":
        return _see_turns_of_uvloop(loop, on_turn)
    return _see_turns_of_selector(loop, on_turn)


def polled_descriptor(loop: asyncio.AbstractEventLoop) -> int | None:
    """Return the descriptor that libuv waits on, which is epoll's on Linux; None for a loop of another kind."""
    if type(loop).__module__.partition(".")[0] != "uvloop":
        return None
    found = _libuv_of(loop)
    if found is None:
        return None
    uv, address = found
    descriptor = int(uv.uv_backend_fd(address))
    return None if descriptor < 0 else descriptor


def _see_turns_of_uvloop(loop: asyncio.AbstractEventLoop, on_turn: OnTurn) -> Callable[[], None] | None:
    found = _libuv_of(loop)
    if found is None:
        return None
    uv, address = found
    if uv.uv_loop_configure(address, _METRICS_IDLE_TIME):
        return None
    return _start(uv, address, on_turn)


def _libuv_of(loop: asyncio.AbstractEventLoop) -> tuple[Any, int] | None:
    """Return uvloop's libuv, and the address of its loop; None where its functions are not to be had."""
    extension: Any = sys.modules.get("uvloop.loop")
    try:
        # PyDLL: these functions return at once, so the interpreter is not let go of for them.
        uv = ctypes.PyDLL(str(extension.__file__))
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(uv, name)
            function.restype, function.argtypes = result, arguments
        address = _address_of(extension.libuv_get_loop_t_ptr(loop))
    except (AttributeError, OSError):  # Another build of uvloop: without names, or without its own libuv.
        return None
    return uv, address


def _start(uv: Any, address: int, on_turn: OnTurn) -> Callable[[], None] | None:
    handle = ctypes.create_string_buffer(uv.uv_handle_size(_PREPARE))
    idle_time_ns, monotonic_ns = uv.uv_metrics_idle_time, time.monotonic_ns
    callback = _OnPrepare(lambda _: on_turn((monotonic_ns() - idle_time_ns(address)) / 1e9))
    if uv.uv_prepare_init(address, handle):
        return None
    uv.uv_unref(handle)  # It is no reason for the loop to go on.
    uv.uv_prepare_start(handle, ctypes.cast(callback, ctypes.c_void_p))

    def stop() -> None:
        uv.uv_prepare_stop(handle)
        uv.uv_close(handle, None)
        _closed.append((handle, callback))

    return stop


def _address_of(capsule: object) -> int:
    """Return the address that a PyCapsule holds."""
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(pointer_of(capsule, name_of(capsule)))


def _see_turns_of_selector(loop: asyncio.AbstractEventLoop, on_turn: OnTurn) -> Callable[[], None] | None:
    selector = getattr(loop, "_selector", None)  # There is no public way to it; without it no turns are seen.
    if selector is None:
        return None
    select = selector.select
    waited_s = 0.0

    def timed(timeout: float | None = None) -> Any:
        nonlocal waited_s
        began_s = time.monotonic()
        on_turn(began_s - waited_s)
        began_s = time.monotonic()
        found = select(timeout)
        waited_s += time.monotonic() - began_s
        return found

    selector.select = timed
    return lambda: delattr(selector, "select")
