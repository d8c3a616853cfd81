"""Summary statistics with intervals that include the noise."""
