"""Guarantees from parameters: every delta is an upper bound after truncation and rounding."""
