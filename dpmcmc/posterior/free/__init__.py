"""Posteriors from a stored release, at no cost: see dpmcmc/posterior/stored.py."""
