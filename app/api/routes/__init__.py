"""The addresses of the contract, grouped by what they speak of."""
