"""Run the benchmarks and print one table: `python benchmarks/run.py [name ...]`.

Names: those in NAMES below; all of them by default. `--markdown` prints the
table for docs/reference/benchmarks.md. A goal that is missed is reported and is no failure; a benchmark
that was answered from memory is refused: its rows are missing, and the exit code is 1.
"""

import argparse
import sys
from importlib import import_module

from timing import RememberedError, Row, markdown, missing, show

NAMES = (
    "words",
    "dealing",
    "krr",
    "oracles",
    "intervals",
    "accountant",
    "makers",
    "planner",
    "surveys",
    "quantiles",
    "heavy_hitters",
    "shuffled",
    "shuffled_sums",
    "learning",
    "testing",
    "audit",
    "commands",
    "memory",
    "engines",
    "cluster",
    "people",
    "bounds",
    "categories",
    "import_time",
    "start",
    "live",
)


def main() -> None:
    parser = argparse.ArgumentParser(description="Ratios against peers and baselines in one run.")
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(NAMES))
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    asked = parser.parse_args()
    unknown = sorted(set(asked.names) - set(NAMES))
    if unknown:
        parser.error(f"no benchmark named {', '.join(unknown)}; there are {', '.join(NAMES)}")
    rows: list[Row] = []
    refused = False
    for name in asked.names or NAMES:
        sys.stderr.write(f"{name} ...\n")
        try:
            rows += import_module(name).rows()
        except RememberedError as error:
            refused = True
            rows.append(missing(f"{name}: REFUSED", str(error)))
            sys.stderr.write(f"{name}: refused: {error}\n")
    if asked.markdown:
        sys.stdout.write(markdown(rows))
    else:
        show(rows, "Benchmarks")
    if refused:
        sys.exit(1)


if __name__ == "__main__":
    main()
