"""Concept 7, engines: where data and randomness meet."""

from shuffledp.engine import counts, memory

__all__ = ["counts", "memory"]
