# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Elementary functions without branches or calls, so that loops over them become vector code.

float64; exp to 1 ulp, log1p to 2. Coefficients: Chebyshev interpolation in 60 digits on the reduced
interval. Nothing here raises, and finite arguments give finite results.
"""

from contextlib import suppress
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.core import cgutils
from numba.core.caching import FunctionCache
from numba.extending import intrinsic
from numba.np import arrayobj

# "contract" allows fused multiply-add and nothing else: rounding by a magic number must survive.
# Without error_model "numpy" every division keeps a loop from becoming vector code.
OPTIONS: Any = {"error_model": "numpy", "fastmath": {"contract"}, "nogil": True}


def leaf(function: Any = None, **changed: Any) -> Any:
    """Return the function, compiled into its callers. changed: options of the compiler."""
    compiled = njit(**{**OPTIONS, **changed}, forceinline=True)
    return compiled if function is None else compiled(function)


class _Cache(FunctionCache):
    """Numba's disk cache of a function, with errors treated as a missing cache entry.

    A kernel is compiled at its first call, which may be after the rows are paid for: a disk that is
    full and a file that is damaged cost time, never the call.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the cached code; None where reading it fails."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # whatever reading a damaged file raises
            with suppress(OSError):
                self.flush()  # else it would be read and refused for ever
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store the code; do nothing where writing fails."""
        with suppress(Exception):
            super().save_overload(sig, data)


def kernel(function: Any = None, **changed: Any) -> Any:
    """Return the function, compiled at its first call and cached. changed: compiler options.

    Only entry points are: a function from the cache is machine code, and is never inlined into a
    caller that is compiled later.
    """
    if function is None:
        return partial(kernel, **changed)
    compiled = njit(**{**OPTIONS, **changed})(function)
    if not config.DISABLE_JIT:  # type: ignore[attr-defined]
        compiled._cache = _Cache(function)  # as enable_caching does
    return compiled


def calling(function: Any, others: dict[str, Any]) -> Any:
    """Return a copy of a function that calls these others by the names in its source."""
    names = {**function.__globals__, **others}
    return FunctionType(function.__code__, names, function.__name__, function.__defaults__)


MAGIC = np.float64(1.5 * 2.0**52)  # adding it rounds to an integer, held in the low bits
MAGIC_BITS = int(MAGIC.view(np.int64))
MAGIC_SHORT = np.float32(1.5 * 2.0**23)  # likewise, for float32
MAGIC_SHORT_BITS = np.int32(MAGIC_SHORT.view(np.int32))
LOG2E = np.float64(1.4426950408889634)
LN2_HI, LN2_LO = np.float64(0.693147180369123816490), np.float64(1.90821492927058770002e-10)
LARGEST_ARGUMENT = np.float64(350.0)
NEAR = 0.125  # of a move that the short series below are for
ONE, HALF, TWO = np.float32(1.0), np.float32(0.5), np.float32(2.0)
FAR_SHORT, LOG2E_SHORT = np.float32(80.0), np.float32(1.442695040888963)
LN2_HI_SHORT, LN2_LO_SHORT = np.float32(0.693359375), np.float32(-2.12194440054690583e-4)
R2, R3, R4 = np.float32(0.5), np.float32(1.0 / 6.0), np.float32(1.0 / 24.0)
R5, R6 = np.float32(1.0 / 120.0), np.float32(1.0 / 720.0)
THIRD, FIFTEENTHS = np.float32(-1.0 / 3.0), np.float32(2.0 / 15.0)
TWO_THIRDS, TWO_FIFTHS = np.float32(2.0 / 3.0), np.float32(2.0 / 5.0)
HALF_ROOT, MANTISSA = 0x3FE6A09E667F3BCD, (1 << 52) - 1  # bits of the root of 1/2
LOWEST, HIGHEST = np.float64(-708.0), np.float64(709.0)


@leaf
def _exp_reduced(k, r):
    """Return 2^k e^r for |r| <= log(2)/2, k an integer in the low bits of a float."""
    s = r * r
    a = 0.16666666666666669 * r + 0.5000000000000001
    b = 0.008333333333330039 * r + 0.041666666666623824
    c = 0.00019841269863171557 * r + 0.0013888888917367081
    d = 2.7557268276905696e-06 * r + 2.4801521057868204e-05
    e = 2.5100472505694996e-08 * r + 2.7620201591031547e-07
    p = np.float64(s * ((((e * s + d) * s + c) * s + b) * s + a) + r + 1.0)
    return np.int64((np.float64(k).view(np.int64) << 52) + p.view(np.int64)).view(np.float64)


@leaf
def exp(x):
    """Return e^x, x clamped to [-708, 709]."""
    x = x if x > LOWEST else LOWEST
    x = x if x < HIGHEST else HIGHEST
    k = np.float64(x * LOG2E + MAGIC)
    n = k - MAGIC
    return _exp_reduced(k, (x - n * LN2_HI) - n * LN2_LO)


@leaf
def exp_far(x):
    """Return e^x, x clamped to [-350, 350] so that its square is a normal number."""
    x = x if x > -LARGEST_ARGUMENT else -LARGEST_ARGUMENT
    x = x if x < LARGEST_ARGUMENT else LARGEST_ARGUMENT
    k = np.float64(x * LOG2E + MAGIC)
    n = k - MAGIC
    return _exp_reduced(k, (x - n * LN2_HI) - n * LN2_LO)


@leaf
def log1p_reduced(s):
    """Return 2 atanh(s) for |s| <= 0.172."""
    z = s * s
    w = z * z
    a = 0.3999999999989827 * z + 0.666666666666667
    b = 0.22222211043822487 * z + 0.28571428626533335
    c = 0.1533150172120742 * z + 0.18182895746801428
    return s * (z * (((0.1461916477718642 * w + c) * w + b) * w + a) + 2.0)


@leaf
def log(x):
    """Return log(x), x a normal number above 0."""
    bits = np.float64(x).view(np.int64) - HALF_ROOT + (1024 << 52)
    k = np.int64(((bits >> 52) & 0x7FF) + MAGIC_BITS).view(np.float64) - (MAGIC + 1024.0)
    u = np.int64((bits & MANTISSA) + HALF_ROOT).view(np.float64) - 1.0
    return k * LN2_HI + (k * LN2_LO + log1p_reduced(u / (u + 2.0)))


@leaf
def exp_short(x):
    """Return e^x in float32, x clamped to [-80, 80]; relative error below 5e-7."""
    x = x if x > -FAR_SHORT else -FAR_SHORT
    x = x if x < FAR_SHORT else FAR_SHORT
    k = np.float32(x * LOG2E_SHORT + MAGIC_SHORT)
    n = np.float32(k - MAGIC_SHORT)
    r = np.float32((x - n * LN2_HI_SHORT) - n * LN2_LO_SHORT)
    a = R2 + r * (R3 + r * (R4 + r * (R5 + r * R6)))
    p = np.float32(ONE + r * (ONE + r * a))
    return np.int32(np.int32(k.view(np.int32) << 23) + p.view(np.int32)).view(np.float32)


@leaf
def tanh_half(v):
    """Return tanh(v / 2) for |v| <= NEAR."""
    h = 0.5 * v
    u = h * h
    a = 0.021869488536155203 - 0.008863235529902197 * u
    return h * (1.0 + u * (-1.0 / 3.0 + u * (2.0 / 15.0 + u * (-17.0 / 315.0 + u * a))))


@leaf
def tanh_half_short(v):
    """Return tanh(v / 2) for |v| <= NEAR, in float32: relative error below 1e-7."""
    h = HALF * v
    u = h * h
    return h * (ONE + u * (THIRD + u * FIFTEENTHS))


@leaf
def exp_near_short(v):
    """Return e^v in float32 for |v| <= NEAR, without a division: relative error below 1e-7."""
    u = v * v
    return ONE + (v + u * ((R2 + v * R3) + u * (R4 + v * (R5 + v * R6))))


@leaf
def atanh_twice_short(s):
    """Return 2 atanh(s) in float32 for |s| <= NEAR / 2: relative error below 1e-7."""
    z = s * s
    return s * (TWO + z * (TWO_THIRDS + z * TWO_FIFTHS))


@leaf
def positive(t):
    """Return max(t, 0)."""
    return t if t > 0.0 else 0.0


@leaf
def shifted_bits(v):
    """Return v rounded to the nearest integer, |v| < 2^51, plus MAGIC_BITS: one addition."""
    return int(np.float64(v + MAGIC).view(np.int64))


def _fetch(_, array, index):
    """Prefetch the cache line of array[index]."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        line = builder.bitcast(builder.gep(data, [arguments[1]]), cgutils.voidptr_t)
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [line.type, number, number, number])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(prefetch, [line, number(0), number(3), number(1)])  # to read, first cache
        return context.get_dummy_value()

    return types.void(array, index), generate


def _piece(_, array, start, size):  # noqa: ARG001
    """Return array.reshape(-1)[start : start + size], without counting a reference to it.

    Counting costs more than a pass over a block, above all with two threads. The array must be
    contiguous, and a caller must keep a reference.
    """
    vector = types.Array(array.dtype, 1, "C")

    def generate(context, builder, signature, arguments):
        kind, (_, first, count) = signature.args[0], arguments
        data = context.make_array(kind)(context, builder, arguments[0]).data
        view = context.make_array(vector)(context, builder)
        width = context.get_constant(
            types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype))
        )
        start_pointer = builder.gep(data, [first])
        arrayobj.populate_array(view, start_pointer, [count], [width], width, None)
        return view._getvalue()

    return vector(array, types.intp, types.intp), generate


def _uncounted(_, array):
    """Return the array without incrementing its reference count."""

    def generate(context, builder, signature, arguments):
        make = context.make_array(signature.args[0])
        source, view = make(context, builder, arguments[0]), make(context, builder)
        shape = cgutils.unpack_tuple(builder, source.shape)
        strides = cgutils.unpack_tuple(builder, source.strides)
        arrayobj.populate_array(view, source.data, shape, strides, source.itemsize, None)
        return view._getvalue()

    return array(array), generate


def _alone(_):
    """Prevent, where it is called, the inlining of a function, which would slow its loops."""

    def generate(context, builder, *_):
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), generate


def _wide(_):
    """Use vectors of 512 bits in the calling function, where the processor has them.

    On some processors LLVM prefers 256 bits; loops over rows in a cache are faster with 512. The
    binding has no attributes with a value, hence the `add` of the plain set.
    """

    def generate(context, builder, *_):
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.void(), generate


def _plain_piece(array, start, size):
    """Return array.reshape(-1)[start : start + size], interpreted."""
    return array.reshape(-1)[start : start + size]


JIT = not config.DISABLE_JIT  # type: ignore[attr-defined]
fetch: Any = intrinsic(_fetch) if JIT else lambda *_: None
piece: Any = intrinsic(_piece) if JIT else _plain_piece
alone: Any = intrinsic(_alone) if JIT else lambda: None
wide: Any = intrinsic(_wide) if JIT else lambda: None
uncounted: Any = intrinsic(_uncounted) if JIT else lambda array: array


@leaf
def row(array, index):
    """Return array[index], of two dimensions, without counting a reference to it."""
    return piece(array, index * array.shape[1], array.shape[1])
