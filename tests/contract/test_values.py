"""Every protocol of a task takes every value of the task: the choice decides nothing that a caller sees."""

import numpy as np
import pandas as pd
import pytest

import shuffledp as sdp
from shuffledp.core.privacy import Model
from shuffledp.planner.choice import choose, order_candidates
from shuffledp.tasks import Count, Histogram, Mean, Quantiles, Sum

BITS = [True, False, True] * 20
WHOLE, REAL = sdp.Integers(lower=0, upper=9), sdp.Reals(lower=0.0, upper=9.0, steps=16)
UNIT = sdp.Integers(lower=0, upper=1)
NUMBERS = [0, 9, 4] * 20
TASKS = {
    "count": (Count(domain=sdp.Bits()), (BITS, [*map(int, BITS)])),
    "sum of bits": (Sum(domain=UNIT), (BITS, [*map(int, BITS)])),
    "sum": (Sum(domain=WHOLE), (NUMBERS,)),
    "sum of reals": (Sum(domain=REAL), (NUMBERS, [0.0, 8.75, 4.0] * 20)),
    "mean of bits": (Mean(domain=UNIT), (BITS, [*map(int, BITS)])),
    "mean": (Mean(domain=WHOLE), (NUMBERS,)),
    "mean of reals": (Mean(domain=REAL), (NUMBERS, [0.0, 8.75, 4.0] * 20)),
    "histogram": (Histogram(domain=sdp.Categories(k=3)), ([0, 1, 2] * 20,)),
    "quantiles": (Quantiles(domain=WHOLE), (NUMBERS,)),
}


def list_forms(values):
    """The same values as a list and as columns of other libraries."""
    yield values
    yield np.array(values)
    yield pd.Series(values)


def list_choices():
    for name, (task, _) in TASKS.items():
        for each in order_candidates(task):
            if each.model is Model.CENTRAL:
                continue
            yield pytest.param(
                name, each.name, each.model, id=f"{name}-{each.name}-{each.model.value}"
            )


@pytest.mark.parametrize(("asked", "name", "model"), [*list_choices()])
def test_every_protocol_takes_every_value(asked, name, model):
    task, columns = TASKS[asked]
    delta = 1e-2 if model is Model.SHUFFLE else 0.0
    try:
        made = choose(task, n=60, epsilon=2.0, delta=delta, honest=1.0, model=model, protocol=name)
    except sdp.UnsupportedError:
        pytest.skip("not for so few people")
    taken = set()
    for values in columns:
        for form in list_forms(values):
            sdp.run(made, form, sdp.SeededWords(1))
            codes = task.domain.codes(form)
            taken.add(tuple(codes.tolist()))
            coded = made.randomizer.domain.codes(form)
            assert coded.shape == codes.shape
    assert taken
