"""Arrow arrays of texts."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa


def texts(values: Sequence[str]) -> pa.StringArray:
    """Return an Arrow array of texts, without the import of pandas that `pa.array` needs."""
    encoded = [value.encode() for value in values]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    buffers = pa.py_buffer(offsets.tobytes()), pa.py_buffer(b"".join(encoded))
    return pa.StringArray.from_buffers(len(encoded), *buffers)
