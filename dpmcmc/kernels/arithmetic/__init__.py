"""Arithmetic that planner and samplers run as plain Python, and that kernels compile.

Nothing here imports anything but NumPy and its own package.
"""
