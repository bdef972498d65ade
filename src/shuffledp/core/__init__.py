"""The vocabulary: seven concepts and the errors, on NumPy alone (no I/O, no clock, no randomness)."""
