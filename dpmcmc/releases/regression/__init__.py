"""Linear regression from noisy sums of squares, and posteriors of them at no further cost.

Source: thesis B, chapters 5.2 and 7; Alparslan, Yıldırım and Birbil 2023.
"""
