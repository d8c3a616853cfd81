"""Bugs planted on purpose in copies of the tree: a test of the tests."""
