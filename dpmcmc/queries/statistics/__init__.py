"""Noisy statistics of one column, and inference of a parameter from them."""
