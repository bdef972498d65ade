"""The list of docs/theory/errata.md, from what the checks of experiments/errata say and find."""

from pathlib import Path

from shuffledp.lab import load

PAGE = Path(__file__).resolve().parents[1] / "theory" / "errata.md"
MARK = "<!-- generated from experiments/errata -->\n\n"


def write() -> None:
    head, mark, _ = PAGE.read_text().partition(MARK)
    assert mark, f"{PAGE} has no mark"
    PAGE.write_text(head + mark + load("errata").run.__globals__["page"]())


if __name__ == "__main__":
    write()
