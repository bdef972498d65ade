"""Every picture of the documentation, drawn anew: `make pictures`.

`COMMANDS` says which command draws which files; a test compares that with the pictures that there are. Needs
Matplotlib, and Chromium with Playwright for the screens of pages.
"""

import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = {
    "docs/figures/amplification.py": (
        "docs/theory/img/all-bounds.svg",
        "docs/theory/img/each-bound.svg",
        "docs/theory/img/own-law.svg",
    ),
    "docs/figures/distribution.py": ("docs/howto/img/cdf.svg",),
    "docs/figures/epsilon.py": (
        "docs/guides/img/errors.svg",
        "docs/guides/img/odds.svg",
        "docs/guides/img/others.svg",
    ),
    "docs/figures/home.py": ("docs/img/trust.svg",),
    "docs/figures/screens.py": tuple(
        f"docs/img/screens/{page}-{scheme}.svg"
        for page in ("answer", "desk", "results")
        for scheme in ("dark", "light")
    ),
    "docs/figures/words.py": ("docs/howto/img/words.svg",),
    "benchmarks/cost.py docs/img/dealing-cost.svg docs/img/dealing-cost.json --draw": (
        "docs/img/dealing-cost.svg",
    ),
    "benchmarks/scale.py docs/img/cost-by-size.svg docs/img/cost-by-size.json --draw": (
        "docs/img/cost-by-size.svg",
    ),
    "-m shuffledp plan histogram --n 1e6 --k 1024 --epsilon 1 --delta 1e-8 --force "
    "--plot docs/howto/img/plan.svg": ("docs/howto/img/plan.svg",),
}
BY_HAND = (
    "docs/guides/img/rows-and-people.svg",
    "docs/img/icon.svg",
    "docs/img/logo.svg",
    "docs/img/shuffle-model.svg",
)
"""Drawings that are their own source."""


def main() -> None:
    for command, files in COMMANDS.items():
        sys.stdout.write(f"{', '.join(files)}\n")
        words = [sys.executable, *shlex.split(command)]
        subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)  # noqa: S603


if __name__ == "__main__":
    main()
