"""Whatever a command prints as a table fits into 80 columns, in one style of box."""

import re

import pytest
from rich.cells import cell_len

PROMISE = ("--epsilon", 1, "--delta", "1e-6")
WAYS = ("--column", "way", "--categories", "car,bicycle,bus,train,other", "--on-invalid", "drop")
LEDGER = ("--ledger", "l.json", "--budget-epsilon", 9, "--budget-delta", "1e-3")
SURVEY = """\
epsilon = 1.0
delta = 1e-6

[questions.way]
task = "histogram"
text = "How do you get to work?"
categories = ["car", "bicycle", "bus", "train", "a way with a rather long name that nobody has"]

[questions.home]
task = "count"

[collection]
title = "The way to work"
people = 2000
"""
COMMANDS = [
    ("run", "count", "people.csv", "--column", "home", *PROMISE),
    ("run", "histogram", "people.csv", *WAYS, *PROMISE, *LEDGER),
    ("run", "histogram", "people.csv", *WAYS, *PROMISE, "--by", "home", "--groups", "true,false"),
    ("run", "mean", "people.csv", "--column", "minutes", "--lower", 0, "--upper", 120, *PROMISE),
    ("run", "sum", "people.csv", "--column", "minutes", "--lower", 0, "--upper", 120, *PROMISE),
    ("run", "quantiles", "people.csv", "--column", "minutes", "--lower", 0, "--upper", 127, *PROMISE),
    ("plan", "histogram", "--n", "1e6", "--k", 20, "--epsilon", 1, "--delta", "1e-8"),
    ("plan", "mean", "--n", "1e4", "--lower", 0, "--upper", 120, *PROMISE),
    ("amplify", "--epsilon0", 2, "--n", "1e6", "--delta", "1e-8", "--all"),
    ("amplify", "--epsilon0", 2, "--n", "1e6", "--delta", "1e-8", "--randomizer", "krr", "--k", 5, "--all"),
    ("calibrate", "--epsilon", 1, "--n", "1e6", "--delta", "1e-8"),
    ("audit", "krr", "--k", 3, "--epsilon0", 1, "--n", 12, "--epsilon", 0.5, "--delta", 0.02),
    ("people-needed", "histogram", "--k", 64, "--alpha", 0.05, "--epsilon", 1, "--delta", "1e-8"),
    ("learn", "people.csv", *WAYS, *PROMISE),
    ("frequencies", "people.csv", "--column", "minutes", "--where", "way = 'tram'", "--epsilon", 1),
    ("survey", "check", "survey.toml", "--n", "1e6"),
    ("collection", "new", "survey.toml", "--out", "c", "--url", "http://127.0.0.1:8000"),
    ("ledger", "show", "l.json"),
    ("doctor",),
    ("demo", "--n", 2000, "--out", "d"),
    ("--help",),
]  # fmt: skip
ADDRESS = re.compile(r"\S{50,}")
"""A path, a hash or a link has no place to be broken."""
HEAVY_HEAD, ROUNDED = set("┏┳┓┃┡╇┩━├┼┤└┴┘│─"), set("╭╮╰╯│─")


QUICK = {("survey", "check"), ("collection", "new"), ("ledger", "show"), ("doctor",)}


def _mark(words):
    """A few in every run, the others with the sweeps."""
    quick = words[:2] in QUICK or ("krr" in words and "--all" in words)
    return words if quick else pytest.param(words, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    "words", [_mark(each) for each in COMMANDS], ids=lambda words: " ".join(map(str, words))[:60]
)
def test_what_is_printed_fits_and_has_one_box(shuffledp, people, words):
    (people.parent / "survey.toml").write_text(SURVEY)
    if words[0] == "ledger":
        assert shuffledp("run", "count", "people.csv", "--column", "home", *PROMISE, *LEDGER).exit_code == 0  # fmt: skip
    result = shuffledp(*words)
    assert result.exit_code == 0, result.output
    long = [line for line in result.stdout.splitlines() if cell_len(line) > 80]
    assert [line for line in long if not ADDRESS.search(line)] == []
    drawn = {letter for letter in result.stdout if "─" <= letter <= "╿"}
    assert drawn <= (ROUNDED if "--help" in words else HEAVY_HEAD)
