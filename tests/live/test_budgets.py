"""Budgets are exact decimals: whatever was promised for the windows is enough for the windows, and for no more."""

import asyncio
import dataclasses

import pytest
from typer.testing import CliRunner

import live_support as live
import shuffledp as sdp
from live.test_roles import open_analyzer
from shuffledp.cli import app
from shuffledp.core.errors import ParameterError
from shuffledp.ledger import Budget
from shuffledp.ledger.budget import Charge, find_excess
from shuffledp.live.design import Settings, choose_protocols, make_collection
from shuffledp.live.device import Device
from support import every

WINDOWS = (2, 3, 5, 6, 7, 10, 12, 24, 26, 52)


@pytest.mark.parametrize("windows", every(4, WINDOWS))
def test_so_many_windows_fit_and_one_more_does_not(windows):
    """Every seventh epsilon of four digits; floating-point products fail for about one in eight."""
    failing = 0
    for digits in range(1, 100_000, 7):
        epsilon, delta = digits / 10_000, digits / 10**12
        budget = Budget.for_releases(windows, epsilon=epsilon, delta=delta)
        charge = Charge(epsilon=epsilon, delta=delta)
        assert find_excess([charge] * windows, budget) is None
        failing += epsilon * windows < budget.epsilon
        if digits % 700 == 1:
            assert find_excess([charge] * (windows + 1), budget) is not None
    assert (failing > 100) == (windows != 2)


def charge(analyzer, window):
    analyzer._charge(window)


def make(windows, epsilon):
    pledge = dataclasses.replace(live.make_collection().pledge, epsilon=epsilon, delta=1e-2)
    times = dataclasses.replace(live.make_collection().windows, count=windows)
    return live.make_collection(pledge=pledge, windows=times)


def test_the_last_window_is_charged(tmp_path):
    collection = make(3, 4.1003)
    assert 3 * 4.1003 < 12.3009
    analyzer = open_analyzer(tmp_path / "a", collection)
    for window in range(3):
        charge(analyzer, window)
    assert analyzer.ledger.spent(collection.id.hex()).epsilon == 12.3009


@pytest.mark.parametrize("windows", [100, 101])
def test_deltas_that_add_up_to_one_are_refused_at_the_start(windows):
    """A hundred windows of 0.01 each: the last one could never be charged."""
    with pytest.raises(ParameterError, match=f"delta=0.01 must be below 1/{windows}"):
        make(windows, 3.0)
    make(99, 3.0)


def test_a_budget_that_the_operator_changed_is_used(tmp_path):
    """An older version wrote a budget that is a hair too small: the remedy that it suggested works."""
    collection = make(3, 4.1003)
    name = collection.id.hex()
    analyzer = open_analyzer(tmp_path / "a", collection)
    ledger = analyzer.ledger
    for window in range(2):
        entry = ledger.charge(
            analyzer.guarantee,
            dataset=name,
            budget=Budget(epsilon=3 * 4.1003, delta=3 * 1e-2),
            note={"title": collection.title, "window": window},
            key=f"{name}:{window}",
        )
        ledger.mark_released(entry)
    with pytest.raises(sdp.BudgetError, match="the budget is"):
        charge(analyzer, 2)
    words = ["ledger", "budget", str(ledger.path), "--dataset", name]
    done = CliRunner().invoke(app, [*words, "--epsilon", "12.3009", "--delta", "0.03"])
    assert done.exit_code == 0, done.output
    charge(analyzer, 2)
    charge(analyzer, 2)  # a crash repeats it, and it costs nothing
    assert ledger.spent(name).releases == 3


def test_a_delta_that_adds_up_to_one_is_refused_before_anything_is_made():
    survey = sdp.Survey.read(
        {"epsilon": 8.0, "delta": 0.1, "questions": {"home": {"task": "count"}}}
    )
    settings = Settings(people=100, windows=10)
    design = choose_protocols(survey, settings)
    with pytest.raises(sdp.ParameterError, match=r"delta=0.1 must be below 1/10"):
        make_collection(design, settings)
    make_collection(design, dataclasses.replace(settings, windows=9))


def test_a_device_spends_its_budget_to_the_last_digit(tmp_path):
    """0.7 and 0.1 and 0.1 are 0.9, which floating-point numbers are not."""
    device = Device(tmp_path / "outbox.sqlite", budget=0.9)
    for place, epsilon in enumerate((0.7, 0.1, 0.1)):
        device._db.execute(
            "INSERT INTO reports VALUES (?, 0, NULL, x'', 'acknowledged', ?, 0.5)",
            (bytes([place]), epsilon),
        )
    assert sum([0.7, 0.1, 0.1]) != 0.9
    assert device.spent.epsilon == 0.9
    collection = make(2, 4.0)
    with pytest.raises(sdp.BudgetError, match=r"spent epsilon = 0.9 of 0.9"):
        device.answer(collection, {"way": "bus", "home": "yes"}, 1001.0)
    device._db.execute("DELETE FROM reports WHERE collection = ?", (bytes([2]),))
    richer = Device(tmp_path / "outbox.sqlite", budget=4.8)
    richer.answer(collection, {"way": "bus", "home": "yes"}, 1001.0)
    assert richer.spent.epsilon == 4.8


def test_a_window_that_the_ledger_refuses_does_not_keep_the_others(tmp_path, monkeypatch):
    """Its operator is told why; readers are told that they must wait."""
    from shuffledp.live.serve import analyzer as role

    collection = make(3, 4.1003)
    analyzer = open_analyzer(tmp_path / "a", collection)
    asked, said = [], []

    def work(analyzer, sign, client, window):
        asked.append(window)
        if window == 1:
            raise sdp.BudgetError("epsilon would be too large, in /secret/ledger.sqlite")

    monkeypatch.setattr(role, "_work_on", work)
    waiting = role.work_once(analyzer, b"", None, said.append)
    assert asked == [0, 1, 2]
    assert waiting == {1: "it cannot be published now; the operator is told why"}
    assert "/secret/" in str(said[0])


def test_an_analyzer_that_cannot_work_says_so(tmp_path):
    from live.serve.test_servers import client
    from shuffledp.live.serve.analyzer import make_app
    from shuffledp.live.serve.journal import Health, Journal

    lines = []
    health = Health(Journal("analyzer", write=lines.append))
    app = make_app(open_analyzer(tmp_path / "a", make(3, 4.1003)), {}, health)

    async def look():
        async with client(app, "http://localhost") as reader:
            answer = await reader.get("/healthz")
            return answer.status_code, answer.text

    assert asyncio.run(look()) == (200, "ok\n")
    health.fail("work", "BudgetError: too large", uptime=0.0)
    assert asyncio.run(look()) == (503, "failing: work\n")
    assert "too large" in lines[0]
    health.mend("work", uptime=1.0)
    assert asyncio.run(look()) == (200, "ok\n")
