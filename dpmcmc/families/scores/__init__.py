"""What regressions say of single rows, and what their responses are."""
