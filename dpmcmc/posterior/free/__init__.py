"""What follows from a stored release without any charge: see dpmcmc/posterior/stored.py."""
