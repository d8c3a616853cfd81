# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,call-arg"
# ruff: noqa: ARG001 Numba reads the names of arguments
"""No subnormal numbers while rows are touched: a processor may take a hundred times as long on one.

How long a job runs is seen by everybody, and one row of 1e-40 was some per cent of it in float32.
Threads have a control register each; on Linux a thread is born with its parent's.
"""

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from dpmcmc.kernels.maths import kernel

WORD = ir.IntType(32)
X86 = platform.machine() in ("x86_64", "AMD64")
ARM = platform.machine() in ("aarch64", "arm64")
BITS = 0x8040 if X86 else 1 << 24  # results to zero and operands as zero; flush to zero
for _kind in (np.float32, np.float64):
    np.finfo(_kind)  # which looks for the smallest subnormal once: now, while there are any


def _get(_):
    """Return the floating point control register."""

    def generate(context, builder, signature, arguments):
        if X86:
            place = cgutils.alloca_once(builder, WORD)
            _call(builder, "llvm.x86.sse.stmxcsr", ir.VoidType(), place)
            return builder.zext(builder.load(place), ir.IntType(64))
        return _call(builder, "llvm.aarch64.get.fpcr", ir.IntType(64))

    return types.int64(), generate


def _set(_, value):
    """Set it."""

    def generate(context, builder, signature, arguments):
        if X86:
            place = cgutils.alloca_once(builder, WORD)
            builder.store(builder.trunc(arguments[0], WORD), place)
            _call(builder, "llvm.x86.sse.ldmxcsr", ir.VoidType(), place)
        else:
            _call(builder, "llvm.aarch64.set.fpcr", ir.VoidType(), arguments[0])
        return context.get_dummy_value()

    return types.void(types.int64), generate


def _call(builder: Any, name: str, answer: Any, *given: Any) -> Any:
    taken = [ir.IntType(8).as_pointer() if g.type.is_pointer else g.type for g in given]
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(answer, taken), name)
    cast = [
        builder.bitcast(g, t) if g.type.is_pointer else g for g, t in zip(given, taken, strict=True)
    ]
    return builder.call(function, cast)


if config.DISABLE_JIT or not (X86 or ARM):  # type: ignore[attr-defined]
    control: Any = lambda: 0  # noqa: E731 - nothing compiled, so nothing fast enough to tell
    set_control: Any = lambda value: None  # noqa: ARG005, E731
else:
    get_register, set_register = intrinsic(_get), intrinsic(_set)

    @kernel
    def control():
        """The calling thread's control register."""
        return get_register()

    @kernel
    def set_control(value):
        """Set the calling thread's control register."""
        set_register(value)


def flush() -> None:
    """Have the calling thread, and those that it starts, know no subnormal numbers from now on."""
    set_control(control() | BITS)


@contextmanager
def flushed() -> Iterator[None]:
    """As `flush` while the block runs."""
    before = control()
    set_control(before | BITS)
    try:
        yield
    finally:
        set_control(before)
