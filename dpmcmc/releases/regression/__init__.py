"""Linear regression from noisy sums of squares: a release, and what is inferred from it for free.

Source: thesis B, chapters 5.2 and 7; Alparslan, Yıldırım and Birbil 2023.
"""
