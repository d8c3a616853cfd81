"""Public intervals of a row's log likelihood ratio, from bounds alone: one file a family.

Scalar code: plain Python for the planner, compiled for the kernels. `dispatch` chooses
the file. Derivations: docs/proofs/dp_penalty.md, section 2.
"""
