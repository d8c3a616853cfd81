"""Released statistics whose noise is known, and what they tell of a parameter."""
