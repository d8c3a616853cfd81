"""The scores of single rows of each regression, and how its responses are predicted."""
