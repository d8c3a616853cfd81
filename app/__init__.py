"""The service: its API and pages, what they do, the ledger, and what is stored."""

import os

# Before NumPy is loaded. Threads of BLAS wait for each other in loops: beside other processes that
# took a job 25 times the work itself, and blocks of rows have threads of their own.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
