"""From the text of a formula to columns with public bounds, without reading any row."""
