"""Concept 7, engines: where data and randomness meet."""

from shuffledp.engine import counts, files, memory

__all__ = ["counts", "files", "memory"]
