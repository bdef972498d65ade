"""The table of docs/guides/comparison.md, from what `python benchmarks/comparison.py --save` measured last."""

import json
from pathlib import Path

RESULT = Path(__file__).resolve().parents[2] / "benchmarks" / "comparison.json"


def table() -> str:
    """A row for each tool, then when and where it was measured."""
    run = json.loads(RESULT.read_text(encoding="utf-8"))
    rows = ["| what | tool | RMSE, or epsilon | CPU time |", "|---|---|---|---|"]
    for line in run["lines"]:
        shown = line["what"], line["tool"], f"{line['value']:.4g}", show_seconds(line["seconds"])
        rows.append(f"| {' | '.join(shown)} |")
    return "\n".join([*rows, "", f"Measured on {run['date']}: {run['machine']}."]) + "\n"


def show_seconds(value: float) -> str:
    """Two digits are more than a shared machine repeats.

    >>> show_seconds(0.00123), show_seconds(1.87)
    ('1.2 ms', '1.9 s')
    """
    return f"{1e3 * value:.2g} ms" if value < 0.1 else f"{value:.2g} s"
