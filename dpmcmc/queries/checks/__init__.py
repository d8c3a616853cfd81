"""Whether a fitted regression fits the rows: a histogram by its predictive distribution."""
