"""Synthetic tables from noisy marginals, and the rules that combine analyses of them."""
