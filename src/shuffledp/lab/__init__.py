"""The laboratory: runs the experiments and writes the report."""
