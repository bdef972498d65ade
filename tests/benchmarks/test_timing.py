"""Benchmarks measure work: the timer refuses what is answered from memory."""

import gc
import importlib
import importlib.util
import sys
from functools import lru_cache
from pathlib import Path

import pytest

from repository import ROOT
from shuffledp import SeededWords
from shuffledp.numerics import dealing

PATH = ROOT / "benchmarks" / "timing.py"


def load(path: Path):
    spec = importlib.util.spec_from_file_location("benchmark_timing", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


timing = load(PATH)


class Clock:
    """CPU time that passes only while something works."""

    now = 0.0

    def process_time(self) -> float:
        return self.now


CLOCK = Clock()


def work(milliseconds: float) -> None:
    CLOCK.now += milliseconds / 1e3


@lru_cache
def remember(question: int) -> None:
    work(4)


remember.__module__ = "shuffledp.somewhere"


@pytest.fixture(autouse=True)
def fresh_clock(monkeypatch):
    monkeypatch.setattr(timing, "time", CLOCK)
    monkeypatch.setattr(CLOCK, "now", 0.0)
    remember.cache_clear()


def test_the_same_question_again_is_refused():
    """Also if the cold call has filled the cache already."""
    with pytest.raises(timing.RememberedError, match="must ask a new question"):
        timing.measure({"ours": lambda _: remember(0)}, 3)


def test_fresh_questions_are_timed():
    took = timing.measure({"ours": remember}, 3)["ours"]
    assert took.cold == took.fresh == pytest.approx(0.004)


def test_one_slow_candidate_does_not_excuse_another():
    with pytest.raises(timing.RememberedError, match="second"):
        timing.measure({"first": lambda _: work(4), "second": lambda _: remember(1)}, 2)


def test_cold_is_told_apart():
    """A late import is part of the first call, and of no other."""
    imported = []

    def ask(question: int) -> None:
        if not imported:
            work(30)
            imported.append(question)
        work(1)

    took = timing.measure({"ours": ask}, 2)["ours"]
    assert took.cold == pytest.approx(0.031)
    assert took.fresh == pytest.approx(0.001)


def test_forgetting_leaves_other_caches_alone():
    @lru_cache
    def other(x: int) -> int:
        return x

    @lru_cache
    def table() -> int:
        return 1

    table.__module__ = "shuffledp.somewhere"
    other(1)
    table()
    remember(7)
    timing.forget()
    assert other.cache_info().currsize == 1
    assert table.cache_info().currsize == 1, "what has no parameter remembers no question"
    assert remember.cache_info().currsize == 0


def test_tables_that_no_question_changes_are_kept():
    """Fair coins in blocks take milliseconds to tabulate: otherwise every benchmark that deals would be refused."""
    names = {each.rpartition(".") for each in timing.TABLES}
    tables = [getattr(importlib.import_module(module), name) for module, _, name in names]
    dealing.binomial(10**6, 1, 1, SeededWords(1))
    sizes = [table.cache_info().currsize for table in tables]
    assert min(sizes) > 0
    timing.forget()
    assert [table.cache_info().currsize for table in tables] == sizes


def test_frozen_caches_are_forgotten_too():
    """The command line freezes what it has loaded, and the garbage collector does not list that."""
    remember(7)
    gc.freeze()
    try:
        timing.forget()
        assert remember.cache_info().currsize == 0
    finally:
        gc.unfreeze()


def test_a_factor_below_three_is_noise():
    timing._check_work("ours", [0.029, 0.010])
    with pytest.raises(timing.RememberedError, match=r"10 ms, the first 31 ms"):
        timing._check_work("ours", [0.031, 0.010])


def test_a_refused_benchmark_fails_the_run(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(PATH.parent))
    monkeypatch.setitem(sys.modules, "timing", timing)
    run = load(PATH.parent / "run.py")

    class Refused:
        @staticmethod
        def rows():
            raise timing.RememberedError("ours: it must ask a new question")

    monkeypatch.setattr(run, "import_module", {"words": Refused}.get)
    monkeypatch.setattr(sys, "argv", ["run.py", "words"])
    with pytest.raises(SystemExit) as stopped:
        run.main()
    assert stopped.value.code == 1
    assert "REFUSED" in capsys.readouterr().out
