"""From the text of a formula to columns with public bounds. No row is seen here."""
