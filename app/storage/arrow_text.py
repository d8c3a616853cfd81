"""Texts in Arrow's memory."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa


def texts(values: Sequence[str]) -> pa.StringArray:
    """An Arrow array of texts. `pa.array` would import pandas to look at the list."""
    encoded = [value.encode() for value in values]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    buffers = pa.py_buffer(offsets.tobytes()), pa.py_buffer(b"".join(encoded))
    return pa.StringArray.from_buffers(len(encoded), *buffers)
