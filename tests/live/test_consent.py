"""Both budgets of a device, over all collections, and what somebody must say yes to before it is answered."""

import dataclasses
import time

import pytest

import live_support as live
import shuffledp as sdp
from live import server_support
from live.serve.test_report_command import ANSWERS, call, network
from live.test_roles import refused
from shuffledp.live.design import Settings, choose_protocols, make_collection
from shuffledp.live.device import Device
from shuffledp.live.wire.document import Windows
from shuffledp.live.wire.promise import compute_guarantee

__all__ = ["network"]
SAID = {"way": "bus", "home": "yes"}
PLEDGE = live.make_collection().pledge


def make(floor=3.0, title="A test", **changes):
    pledge = dataclasses.replace(PLEDGE, local_epsilon=floor, trust_the_shuffler=floor > 8)
    return live.make_collection(pledge=dataclasses.replace(pledge, **changes), title=title)


def test_a_floor_of_15_needs_a_yes_and_nothing_is_kept_without_one(tmp_path):
    """Also if the document is of format 1, which has no word for it."""
    device = Device(tmp_path / "outbox.sqlite")
    for raw in (make(15.0).raw, live.as_format_1(make(15.0).raw)):
        collection = sdp.live.wire.Collection.read(raw)
        assert "its floor is above 8: local epsilon = 15" in device.ask_consent(collection)
        assert refused(device.answer, collection, SAID, 1001.0) == "consent"
        assert device.list_unsettled(collection) == []
    assert device.spent.floor == 0.0
    window = device.answer(make(15.0), SAID, 1001.0, accept_floor=True)
    assert device.list_unsettled(make(15.0)) == [window]
    assert device.spent.floor == 15.0


def test_fifteen_collections_at_floor_3_cost_45_and_not_next_to_nothing(tmp_path):
    device = Device(tmp_path / "outbox.sqlite", budget=100.0)
    small = [make(title=f"Number {place}") for place in range(15)]
    for collection in small[:2]:
        device.answer(collection, SAID, 1001.0)
    assert "would add up to 9, which is above 8" in device.ask_consent(small[2])
    more = make(3.000001, title="a little more")
    assert "would add up to 9.00001, which is above 8" in device.ask_consent(more)
    assert refused(device.answer, small[2], SAID, 1001.0) == "consent"
    for collection in small[2:]:
        device.answer(collection, SAID, 1001.0, accept_floor=True)
    assert (device.spent.epsilon, device.spent.floor) == (15 * 4.0, 45.0)
    assert str(device.spent) == "epsilon: 60 of 100 spent, 40 left; floor: 45 of 8 spent, 0 left"
    richer = Device(tmp_path / "outbox.sqlite", budget=100.0, floor_budget=48.0)
    assert richer.ask_consent(make(title="One more")) is None


def test_floors_add_up_to_the_last_digit(tmp_path):
    """0.7 and 0.1 and 0.1 are 0.9, and three of 2.6 are 7.8."""
    device = Device(tmp_path / "outbox.sqlite", floor_budget=0.9)
    for place, floor in enumerate((0.7, 0.1)):
        row = (bytes([place]), floor)
        device._db.execute("INSERT INTO reports VALUES (?, 0, NULL, x'', 'sent', 0.1, ?)", row)
    asked = tuple(dataclasses.replace(each) for each in live.questions(0.05))
    fits = live.make_collection(
        questions=asked, pledge=dataclasses.replace(PLEDGE, local_epsilon=0.1)
    )
    assert device.ask_consent(fits) is None
    more = dataclasses.replace(PLEDGE, local_epsilon=0.1000001)
    assert device.ask_consent(live.make_collection(questions=asked, pledge=more)) is not None


def test_a_yes_is_no_way_around_the_budget_of_promises(tmp_path):
    device = Device(tmp_path / "outbox.sqlite", budget=1.0)
    with pytest.raises(sdp.BudgetError, match="spent"):
        device.answer(make(), SAID, 1001.0, accept_floor=True)


@pytest.mark.parametrize("people", [2_000])
def test_a_weekly_collection_for_a_year(tmp_path, people):
    """52 reports at floor 3 with delta = 1e-8: their floors are stated as a sum, and each device decides."""
    survey = sdp.Survey.read(
        {"epsilon": 8.0, "delta": 1e-8, "questions": {"home": {"task": "count"}}}
    )
    settings = Settings(people=people, windows=52, reports_per_device=52, start=1000, seconds=100)
    design = choose_protocols(survey, settings)
    assert design.pledge.local_epsilon == 3.0
    assert design.pledge.epsilon < 8.0
    collection, _, _ = make_collection(design, settings)
    assert collection.pledge.floor == 156.0
    assert "3 for each of 52 reports, 156 together" in collection.pledge.describe_floor()
    device = Device(tmp_path / "outbox.sqlite")
    device.check(collection.raw, collection.id)
    assert refused(device.answer, collection, {"home": "yes"}, 1001.0) == "consent"
    for week in range(52):
        now = 1001.0 + 100 * week
        assert device.answer(collection, {"home": "yes"}, now, accept_floor=True) == week
    assert (device.spent.epsilon, device.spent.floor) == (collection.pledge.epsilon, 156.0)
    assert (
        refused(device.answer, collection, {"home": "yes"}, 6201.0, accept_floor=True) == "closed"
    )


def test_the_words_of_many_reports_are_paid_for_with_half_of_delta():
    """At the epsilon that is stated they cost less than the other half; a delta that they exceed is refused."""
    from shuffledp.accounting.base import bound_generator

    pledge = dataclasses.replace(PLEDGE, delta=1e-8, min_batch=2_000, reports_per_device=40)
    asked = live.questions(1.5)[1:]
    found = compute_guarantee(asked, pledge)
    assert bound_generator(2_000, 40, found.epsilon) < 0.5e-8 < bound_generator(2_000, 40, 40 * 1.5)
    # 20 reports are paid for with what they have without a shuffler: far less than half of delta.
    few = compute_guarantee(asked, dataclasses.replace(pledge, reports_per_device=20))
    assert bound_generator(2_000, 20, 20 * 1.5) < 1e-9
    assert few.epsilon < found.epsilon
    with pytest.raises(sdp.UnsupportedError, match="too small for the words"):
        compute_guarantee(asked, dataclasses.replace(pledge, delta=1e-27))


def test_the_command_prints_floor_promise_and_id_before_it_sends(network, tmp_path):
    shuffler = network()
    shuffler.outcomes = [sdp.WireError("unreachable", "away")] * 5
    done = call(tmp_path, shuffler.collection, *ANSWERS)
    lines = done.output.splitlines()
    assert lines[0] == f"Collection {shuffler.collection.id.hex()}"
    assert lines[1].startswith(
        "Promise, if shuffler and analyzer do not conspire and 20 of the reports of a batch come from honest devices: "
        "epsilon = 4, delta = 0.01 (for all reports"
    )
    assert "the floor" not in lines[2]
    assert "local epsilon = 3: somebody who thought yes" in done.output
    assert "epsilon: 4 of 8 spent, 4 left; floor: 3 of 8 spent, 5 left" in done.output


def test_the_command_needs_a_yes(network, tmp_path):
    pledge = dataclasses.replace(PLEDGE, local_epsilon=15.0, trust_the_shuffler=True)
    shuffler = network(pledge=pledge)
    done = call(tmp_path, shuffler.collection, *ANSWERS)
    assert done.exit_code != 0
    assert "--accept-floor" in done.output + str(done.stderr)
    assert shuffler.inners == []
    again = call(tmp_path, shuffler.collection, *ANSWERS, "--accept-floor")
    assert again.exit_code == 0, again.output
    assert len(shuffler.inners) == 1


def test_windows_of_the_past_are_not_asked_for(tmp_path):
    windows = Windows(start=int(time.time()) - 500, seconds=100, count=3, grace=10)
    device = Device(tmp_path / "outbox.sqlite")
    assert (
        refused(device.answer, live.make_collection(windows=windows), SAID, time.time()) == "closed"
    )


def test_noise_of_the_servers_counts_on_no_honest_report(capsys):
    from shuffledp.cli.report import _tell_price

    _tell_price(server_support.make_collection())
    assert "if shuffler and analyzer do not conspire: epsilon = 3, " in capsys.readouterr().out


def test_a_price_is_of_all_reports_or_of_each(capsys):
    from shuffledp.cli.report import _tell_price

    for composed, what in (
        (True, "all reports of a device together"),
        (False, "each report of a device"),
    ):
        pledge = dataclasses.replace(PLEDGE, reports_per_device=2, composed=composed, delta=1e-2)
        _tell_price(live.make_collection(pledge=pledge))
        assert f"(for {what})." in capsys.readouterr().out
