# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Dot products with rows of float32 at any addresses in memory, computed in float64.

Written with LLVM's own vectors, because the compiler does not generate such code itself: four rows
are read at a time, and their sums are folded into one vector. The position of a row among the four
changes no bit of its sum.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = ROWS = 4  # numbers in a vector, and rows that are read at once
DOUBLE, INDEX = ir.DoubleType(), ir.IntType(64)
WIDE, NARROW = ir.VectorType(DOUBLE, LANES), ir.VectorType(ir.FloatType(), LANES)
# which lanes of two vectors are added: neighbours, then neighbouring pairs
FOLDS = (((0, 4, 2, 6), (1, 5, 3, 7)), ((0, 1, 4, 5), (2, 3, 6, 7)))


def _plain(flat, starts, at, weights, here, there):
    """Write the dot products of `dots`, interpreted."""
    for i in range(at, at + ROWS):
        row = flat[starts[i] : starts[i] + weights.shape[1]].astype(np.float64)
        here[i], there[i] = weights @ row


def _dots(_, flat, starts, at, weights, here, there):
    """Write the dot products of four rows with both weights into here and there [at : at + ROWS].

    flat: float32. starts: int64, where rows begin in it. weights (2, columns), in whole LANES.
    """

    def generate(context, builder, signature, arguments):
        def array(k):
            return context.make_array(signature.args[k])(context, builder, arguments[k])

        def pointer(data, index, kind):
            return builder.bitcast(builder.gep(data, [index]), kind.as_pointer())

        def picked(left, right, lanes):
            mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), list(lanes))
            return builder.shuffle_vector(left, right, mask)

        rows, begins, first, weights = array(0).data, array(1).data, arguments[2], array(3)
        columns = builder.extract_value(weights.shape, 1)
        lines = [
            builder.load(builder.gep(begins, [builder.add(first, INDEX(r))])) for r in range(ROWS)
        ]
        nothing = ir.Constant(WIDE, [0.0] * LANES)
        sums = [cgutils.alloca_once_value(builder, nothing) for _ in range(2 * ROWS)]
        with cgutils.for_range_slice(builder, INDEX(0), columns, INDEX(LANES)) as (column, _):
            weights_of_both = [
                builder.load(pointer(weights.data, index, WIDE), align=8)
                for index in (column, builder.add(columns, column))
            ]
            for r, line in enumerate(lines):
                single = pointer(rows, builder.add(line, column), NARROW)
                x = builder.fpext(builder.load(single, align=4), WIDE)
                for total, w in zip(sums[r::ROWS], weights_of_both, strict=True):
                    product = builder.fmul(w, x, flags=("contract",))
                    sum_so_far = builder.fadd(builder.load(total), product, flags=("contract",))
                    builder.store(sum_so_far, total)
        folded = [builder.load(total) for total in sums]
        for even, odd in FOLDS:
            folded = [
                builder.fadd(picked(a, b, even), picked(a, b, odd))
                for a, b in zip(folded[::2], folded[1::2], strict=True)
            ]
        for k, total in zip((4, 5), folded, strict=True):
            builder.store(total, pointer(array(k).data, first, WIDE), align=8)
        return context.get_dummy_value()

    return types.void(flat, starts, at, weights, here, there), generate


dots: Any = _plain if config.DISABLE_JIT else intrinsic(_dots)  # type: ignore[attr-defined]
