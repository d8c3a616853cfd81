"""Floating point errors within the library are neither raised nor printed, whatever a caller set.

A caller's `numpy.seterr(all="raise")` would end a call after it has paid, and where depends on the
rows; so would a printed warning. Results are checked where they are made.
"""

import numpy as np

own_errors = np.errstate(all="ignore")  # a decorator
