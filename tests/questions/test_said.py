"""What answers, surveys and their plans say stays as it is, to the last letter (see said_table.py)."""

import datetime
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import shuffledp as sdp
from said_table import SaidTable, signatures
from shuffledp.core.domain import Bins, Cells
from shuffledp.core.privacy import Guarantee, Model
from shuffledp.engine import Filter, People
from shuffledp.numerics.intervals.laplace import DiscreteLaplace, DiscreteLaplaceError
from shuffledp.questions import (
    answer,
    asking,
    bounds,
    files,
    parts,
    people,
    plans,
    prepared,
    question,
    ratios,
    reading,
    remarks,
)
from shuffledp.questions import survey as surveys
from shuffledp.questions.question import Question
from shuffledp.tasks import TASKS, task_named

_I = np.arange(400)
_DAYS = [datetime.date(2019, 12, 1) + datetime.timedelta(days=int(i)) for i in _I * 11 % 90]
ROWS = pa.table(
    {
        "who": _I * _I % 151,
        "way": [("car", "bus", "tram")[i] for i in _I * 7 // 5 % 3],
        "minutes": pa.array(_I * 37 % 16, mask=_I % 9 == 0),
        "km": pa.array((_I * 29 % 97) / 10.0, mask=_I % 7 == 0),
        "home": _I % 3 == 0,
        "full": _I * 37 % 16,
        "deep": -(2.0 ** (_I % 5)),
        "day": _DAYS,
        "times": [datetime.datetime(each.year, each.month, each.day, 7) for each in _DAYS],
        "word": [f"{n}" for n in _I * 37 % 16],
        "maybe": pa.array(_I % 3 == 0, mask=_I % 5 == 0),
        "how": [("car", None, "tram", "none")[i] for i in _I * 7 // 5 % 4],
        "when": [None if i % 6 == 0 else each for i, each in enumerate(_DAYS)],
    }
)
_MANY = np.arange(20_000)


def ask(task, column=None, model="central", epsilon=2.0, data=ROWS, seed=1, **given):
    """An answer that is the same every time."""
    if isinstance(task, sdp.Survey):
        return sdp.ask(data, task, rng=sdp.SeededWords(seed), **given)
    given = {"rng": sdp.SeededWords(seed), "column": column, "model": model, **given}
    if model == "shuffle":
        given = {"delta": 1e-5, **given}
    return sdp.ask(data, task, epsilon=epsilon, **given)


def told(answer):
    """Everything in it, without the version."""
    return {name: each for name, each in answer.to_dict().items() if name != "version"}


def charged(task, column=None, where="who >= 0", **given):
    """The same, where nobody may learn whom a filter takes, and who has no value: as if a ledger were charged."""
    return told(ask(task, column, where=replace(Filter.read(where), private=True), **given))


def survey(questions, epsilon=2.0, delta=1e-5, **given):
    return sdp.Survey(epsilon=epsilon, delta=delta, questions=tuple(questions), honest=1.0, **given)


def q(name, task, column=None, by=None, groups=None, **options):
    own = ("weight", "error", "protocol", "people", "optional", "auto", "on_invalid", "text")
    beside = {each: options.pop(each) for each in own if each in options}
    return Question(
        name=name, task=task, column=column or name, by=by, groups=groups, options=options, **beside
    )


def rows(of="people", **given):
    return People.read("who", of=of, **given)


def band(reached, values=None, rate=0.5):
    """Counts of bands, as a first release has them."""
    value = np.zeros(bounds.ALL.size)
    value[list(reached)] = 500.0 if values is None else values
    law = DiscreteLaplaceError(noise=DiscreteLaplace(rate=rate), shape=(bounds.ALL.size,))
    return sdp.Estimate(value=value, error=law, limits=(0.0, 1e4))


def choose(*places, bands=bounds.ALL, points=()):
    """The ends that are chosen if these bands have enough people."""
    reached = np.zeros(bands.size, dtype=np.bool_)
    reached[list(places)] = True
    found = bounds.choose_bounds(reached, bands, points)
    return None if found is None else [bands.ends[place] for place in found]


def on_one(kind, **options):
    """A task as it is declared."""
    return task_named(kind).declare(options).task


CATEGORIES = ("car", "bus", "tram")
MIXED = (
    q("way", "histogram", categories=CATEGORIES),
    q("home", "count"),
    q("full", "mean", lower=0, upper=15),
)
SHAPED = (
    q("full", "quantiles", lower=0, upper=15, at=[0.25, 0.5]),
    q("home", "count", by="way", groups=CATEGORIES),
)
TABLE = SaidTable(
    path=Path(__file__).with_name("said.txt"),
    names={
        "Bins": Bins,
        "CATEGORIES": CATEGORIES,
        "Cells": Cells,
        "MANY": _MANY,
        "Model": Model,
        "MIXED": MIXED,
        "People": People,
        "ROWS": ROWS,
        "SHAPED": SHAPED,
        "TASKS": TASKS,
        "ask": ask,
        "band": band,
        "bounds": bounds,
        "Guarantee": Guarantee,
        "charged": charged,
        "choose": choose,
        "np": np,
        "on_one": on_one,
        "pa": pa,
        "people": people,
        "q": q,
        "ratios": ratios,
        "replace": replace,
        "rows": rows,
        "sdp": sdp,
        "signatures": signatures,
        "modules": [
            answer,
            asking,
            bounds,
            files,
            parts,
            people,
            plans,
            prepared,
            question,
            ratios,
            reading,
            remarks,
            surveys,
        ],
        "survey": survey,
        "told": told,
    },
)


@pytest.mark.parametrize("expression", TABLE.said)
def test_said(expression):
    TABLE.check(expression)


if __name__ == "__main__":
    TABLE.write()
