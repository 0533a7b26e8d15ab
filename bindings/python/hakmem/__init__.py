# SPDX-License-Identifier: MIT
"""hakmem, a memory allocator, as a library that a program is started with: `python -m hakmem run -- PROGRAM`."""

import ctypes
import os

__all__ = ["path", "is_active", "stats"]

FIELDS = ("live", "cached", "resident", "mapped", "peak_mapped")


def path():
    """The library, for LD_PRELOAD."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "libhakmem.so.0")


def _function(name):
    try:
        return getattr(ctypes.CDLL(None), name)
    except AttributeError:
        return None


def is_active():
    """Whether this process runs on hakmem."""
    return _function("hak_stat_read") is not None


def stats():
    """Bytes by name: live, cached, resident, mapped, peak_mapped; None where hakmem is not active."""
    read = _function("hak_stat_read")
    if read is None:
        return None
    read.argtypes, found = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint64)], {}
    for name in FIELDS:
        value = ctypes.c_uint64()
        if read(name.encode(), ctypes.byref(value)) == 0:
            found[name] = value.value
    return found
