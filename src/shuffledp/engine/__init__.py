"""Concept 7, engines: where data and randomness meet."""
