"""The compiled functions of each family that the sums over rows call, one file each.

A family has leaves of the same names: `state_of` (the state of a row at the position of the chain,
from which ratios follow), `follow` and `follow_near` (the state after a move), `ratio_cells` and
`ratio_cells_near` (the sum of clipped ratios over a block), `ratios` (the ratio of each row, for
minibatches) and `factors` (the derivatives of the log likelihood by the predictor). A family leaves
out what it does not need. Loops over a block stand inside a leaf; kernels/compiled/dispatch.py
chooses the leaf.
"""
