"""Public intervals of a row's log likelihood ratio, from bounds alone: one file a family.

Scalar code that runs both as it stands (the planner) and compiled (the kernels). `dispatch` chooses
the file. Derivations: docs/proofs/dp_penalty.md, section 2.
"""
