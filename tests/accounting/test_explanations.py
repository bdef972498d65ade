"""Whole explanations, as they were last agreed on: nothing that is said of a promise changes unseen.

Look at each sentence that changed, and write them anew by
`PYTHONPATH=src:tests python -m accounting.test_explanations`.
"""

from pathlib import Path

import pytest

from shuffledp import protocols
from shuffledp.accounting.explain import _one_in, explain

PATH = Path(__file__).with_name("explanations.txt")
TINY = {"n": 1000, "epsilon": 1.0, "delta": 1e-6}
CASES = {
    "a local answer": lambda: protocols.rr.make_local(epsilon=1.0),
    "a local answer that tells nearly all": lambda: protocols.krr.make_local(k=3, epsilon=301.0),
    "a count": lambda: protocols.rr.make(**TINY),
    "a count without a slack": lambda: protocols.pure_count.make(n=60, epsilon=1.0),
    "a histogram by dummies": lambda: protocols.dummies_histogram.make(k=4, **TINY),
    "a sum whose messages depend on the value": lambda: protocols.zsum.make(**TINY),
    "a small epsilon": lambda: protocols.rr.make(n=10**6, epsilon=0.005, delta=1e-8, honest=0.5),
}


def read():
    parts = PATH.read_text(encoding="utf-8").split("\n== ")
    return dict(part.removeprefix("== ").rstrip("\n").split("\n", 1) for part in parts)


@pytest.mark.parametrize("name", CASES)
def test_an_explanation_says_what_it_said(name):
    assert explain(CASES[name]()).rstrip("\n") == read()[name]


@pytest.mark.parametrize(
    ("delta", "chance"), [(6e-6, "100,000"), (1e-8, "100,000,000"), (0.3, "3")]
)
def test_how_often_delta_strikes_is_rounded_to_more_often(delta, chance):
    assert _one_in(delta) == chance


def write():
    texts = (f"== {name}\n{explain(make()).rstrip()}\n" for name, make in CASES.items())
    PATH.write_text("\n".join(texts), encoding="utf-8")


if __name__ == "__main__":
    write()
