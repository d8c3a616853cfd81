"""Files as programs write them: one table, exported in many ways, with its schema."""
