"""Summary statistics with intervals that know the noise."""
