"""An empirical privacy audit: attacks on every algorithm, and a search for noise that is too small.

`./dev audit` runs both and writes a report. It asks two questions of the system as it is shipped:
how well does the best attacker that we can write tell two neighbouring datasets apart, and does any
admitted request get other noise than it is charged for?
"""
