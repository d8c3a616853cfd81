"""Flushing of subnormal numbers to zero while rows are read.

Arithmetic on subnormal numbers can take a hundred times as long, and the running time of a job is
public: one row of 1e-40 made it some per cent longer in float32. The mode is set in a control
register of each thread; on Linux a new thread inherits that of its parent.
"""

import ctypes
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

# Offset in C's fenv_t of Linux of the control register of vector arithmetic, and its bits for
# flushing results and operands to zero, which on ARM are one bit.
PLACES = {"x86_64": (28, 0x8040), "aarch64": (0, 1 << 24)}
SIZE = 64  # of a buffer with room for any fenv_t
PLACE, BITS = PLACES.get(platform.machine(), (0, 0)) if sys.platform == "linux" else (0, 0)
LIBM = ctypes.CDLL("libm.so.6" if platform.libc_ver()[0] == "glibc" else None) if BITS else None
for _kind in (np.float32, np.float64):
    np.finfo(_kind)  # computes and stores the smallest subnormal, before they are flushed


def control() -> int:
    """Return the calling thread's control register; 0 on an unknown platform."""
    return ctypes.c_uint32.from_buffer(_environment(), PLACE).value


def set_control(value: int) -> None:
    """Set the calling thread's control register."""
    environment = _environment()
    ctypes.c_uint32.from_buffer(environment, PLACE).value = value
    if LIBM is not None:
        LIBM.fesetenv(environment)


def flush() -> None:
    """Flush subnormal numbers to zero in this thread, and in those that it starts."""
    set_control(control() | BITS)


@contextmanager
def flushed() -> Iterator[None]:
    """Flush subnormal numbers to zero within the context."""
    before = control()
    set_control(before | BITS)
    try:
        yield
    finally:
        set_control(before)


def _environment() -> "ctypes.Array[ctypes.c_char]":
    """Return the calling thread's floating point environment."""
    environment = ctypes.create_string_buffer(SIZE)
    if LIBM is not None:
        LIBM.fegetenv(environment)
    return environment
