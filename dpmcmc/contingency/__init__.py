"""Contingency tables of declared columns: how rows become cells, and how counts are released."""
