"""Pure functions on numbers: exact randomness from words, certified rounding, safe searches."""
