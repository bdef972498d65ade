"""What every task is and says, and what it makes of counts with noise, stays as it is (see said_table.py)."""

import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import shuffledp as sdp
from said_table import SaidTable, signatures, spell
from shuffledp import tasks
from shuffledp.core.analyzer import Estimate
from shuffledp.core.domain import Bins, Cells
from shuffledp.core.texts import Keys, Texts
from shuffledp.numerics.intervals import DiscreteLaplaceError, TwoBinomialsError
from shuffledp.numerics.intervals.laplace import DiscreteLaplace
from shuffledp.tasks import groups, histogram, numbers, totals
from shuffledp.tasks.groups import Grouped

WAYS = sdp.Categories(k=2, names=("car", "bus"))


def facts(name):
    """Everything that a task says about itself, without what it does."""
    task = tasks.TASKS[name]
    names = [each for each in dir(task) if not each.startswith("_")]
    said = {each: getattr(task, each) for each in names}
    plain = {each: value for each, value in said.items() if _is_plain(value)}
    return "\n".join(f"{each}: {spell(value)}" for each, value in plain.items())


def _is_plain(value):
    return isinstance(value, str | bool | float | int | tuple | type(None))


def defaults(module):
    """The signatures of a module; properties have no address."""
    return re.sub(" at 0x[0-9a-f]+", "", signatures(module))


def declare(name, column=None, **options):
    """A declared task, what protocols and readers are told of it, and how much a person moves its answer."""
    column = None if column is None else sdp.engine.take_column(column)
    declared = tasks.task_named(name).declare(options, column)
    task = declared.task
    told = task.arguments(), task.remarks(), task.document_name, task.sampled, task.values
    return declared, told, task.sensitivity(10), task.relate(10)


def by_group(name, people=0, steps=None, level=0.9, **options):
    """A question by group, and its answer from bins with discrete Laplace noise; of so many people, with that of theirs."""
    task = Grouped.of(tasks.task_named(name).declare(options).task, WAYS)
    task = task if steps is None else task.round_to(steps)
    counts = 37.0 * np.arange(task.domain.size) % 50 + 3
    noise = DiscreteLaplace(rate=Fraction(3, 2))
    error = DiscreteLaplaceError(noise=noise, shape=counts.shape)
    if people:
        seen = np.rint(0.98 * counts + 0.01 * people).astype(np.int64)
        error = TwoBinomialsError(observed=seen, n=people, p=0.99, q=0.01, value=counts)
    bins = Estimate(value=counts, error=error, limits=(0.0, float(people or counts.sum())))
    found = task.convert(bins)
    about = task, task.document_name, task.labels, task.remarks(), task.step, task.blur
    answers = found.value, found.limits, found.labels, found.stderr, found.interval(level)
    more = found.exact_interval(level), task.amplify_noise(), Grouped.show(found, level)
    return "\n".join(map(spell, (*about, *answers, *more)))


TABLE = SaidTable(
    path=Path(__file__).with_name("said.txt"),
    names={
        "Bins": Bins,
        "Cells": Cells,
        "Grouped": Grouped,
        "Keys": Keys,
        "Texts": Texts,
        "WAYS": WAYS,
        "by_group": by_group,
        "declare": declare,
        "defaults": defaults,
        "facts": facts,
        "groups": groups,
        "histogram": histogram,
        "np": np,
        "numbers": numbers,
        "sdp": sdp,
        "tasks": tasks,
        "totals": totals,
    },
)


@pytest.mark.parametrize("expression", TABLE.said)
def test_said(expression):
    TABLE.check(expression)


if __name__ == "__main__":
    TABLE.write()
