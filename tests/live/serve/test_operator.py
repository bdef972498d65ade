"""The planner behind the operator's desk."""

import math
import os
import subprocess
from types import SimpleNamespace

import httpx
import pytest

import live_support as live
import shuffledp as sdp
from shuffledp.core.errors import DataError, ParameterError, UnsupportedError
from shuffledp.live.design import choose_protocols, make_collection
from shuffledp.live.serve import folders
from shuffledp.live.serve.folders import Home
from shuffledp.live.serve.operator import Desk, Planner, read_form
from shuffledp.live.wire import Collection

SURVEY = {
    "epsilon": 1.0,
    "delta": 1e-8,
    "questions": {"way": {"task": "histogram", "categories": ["car", "bus", "foot"]}},
    "collection": {"people": 5000},
}


def survey(**changes):
    return {**SURVEY, **changes}


def test_error_bars_shrink_with_the_floor():
    def widths(floor):
        content = survey(collection={"people": 5000, "local_epsilon": floor})
        found = Planner().preview(content)["questions"]
        return [row["high"] - row["low"] for each in found for row in each["estimate"]]

    assert all(wide > narrow for wide, narrow in zip(widths(1.0), widths(4.0), strict=True))


def test_a_sum_has_people_times_the_error_of_the_mean():
    one = survey(questions={"total": {"task": "sum", "lower": 0, "upper": 10}})
    mean = survey(questions={"total": {"task": "mean", "lower": 0, "upper": 10}})
    (of_sum,), (of_mean,) = (
        each["questions"][0]["estimate"] for each in map(Planner().preview, (one, mean))
    )
    assert of_sum["value"] == pytest.approx(5000 * of_mean["value"], rel=1e-6)
    wide = of_sum["high"] - of_sum["value"]
    assert wide == pytest.approx(5000 * (of_mean["high"] - of_mean["value"]), rel=0.05)


WAYS = {"categories": ["car", "bus", "foot"]}
TEN = {"lower": 0, "upper": 10}


@pytest.mark.parametrize(
    ("asked", "bars", "unit", "ends"),
    [
        ({"task": "count"}, 1, 5000, (None, None)),
        ({"task": "histogram", **WAYS}, 3, 5000, (None, None)),
        ({"task": "bins", "edges": [0, 5, 10]}, 2, 5000, (None, None)),
        ({"task": "sum", **TEN}, 1, 50_000, (0, 10)),
        ({"task": "mean", **TEN}, 1, 10, (0, 10)),
        ({"task": "median", **TEN}, 1, 10, (0, 10)),
        ({"task": "sum", "lower": -5, "upper": 10, "by": "w", "groups": ["a", "b"]}, 2, 75_000, (-5, 10)),
        ({"task": "mean", "lower": -5, "upper": 10, "by": "w", "groups": ["a", "b"]}, 2, 15, (-5, 10)),
    ],
)  # fmt: skip
def test_a_preview_has_bars_and_the_unit_of_their_errors(asked, bars, unit, ends):
    """The unit is how far the answer can move: so an error of 0.01 is a hundredth of the picture."""
    found = Planner().preview(survey(questions={"x": asked}))
    assert (found["epsilon"] <= 1.0, found["delta"], found["local_epsilon"]) == (True, 1e-8, 3.0)
    assert found["guess"] == pytest.approx(math.exp(3) / (1 + math.exp(3)))
    assert found["min_batch"] == 2500
    (shown,) = found["questions"]
    assert (shown["name"], shown["part"], shown["people"]) == ("x", None, 5000)
    assert (shown["lower"], shown["upper"]) == ends
    assert shown["unit"] == unit
    rows = shown["estimate"]
    assert len(rows) == bars
    for row in rows:
        assert row["low"] <= row["value"] <= row["high"]
        assert 0 < row["high"] - row["low"] < 0.25 * unit
    if asked["task"] in ("histogram", "bins"):
        values = [row["value"] for row in rows]
        assert sum(values) == 5000
        assert values == sorted(values, reverse=True)
    if asked["task"] == "count":  # randomized response at the floor
        (row,), p = rows, math.exp(3) / (1 + math.exp(3))
        wide = 1.96 * math.sqrt(5000 * p * (1 - p)) / (2 * p - 1)
        assert row["high"] - row["value"] == pytest.approx(wide, rel=1e-6)
        assert row["value"] - row["low"] == pytest.approx(wide, rel=1e-6)


@pytest.mark.parametrize("one_question", [True, False])
@pytest.mark.parametrize("tokens", [True, False])
def test_it_says_how_long_a_report_will_be(one_question, tokens):
    settings = {"people": 300, "one_question": one_question, "tokens": tokens}
    content = survey(
        questions={"home": {"task": "count"}, "work": {"task": "count"}}, collection=settings
    )
    asked, said = live.read_tables(content)
    collection, _, _ = make_collection(choose_protocols(asked, said), said)
    assert Planner().preview(content)["bytes"] == collection.report_size


def test_if_a_role_does_not_start_both_end(monkeypatch):
    ended = []

    class Broken:
        def __init__(self, name):
            self.name = name

        def wait_until_ready(self):
            if self.name == "analyzer":
                raise UnsupportedError("a server ended at once, with status 1")

        def stop(self):
            ended.append(self.name)

    monkeypatch.setattr(folders, "start", lambda role, *_, **__: Broken(role))
    home = SimpleNamespace(collection=lambda: SimpleNamespace(url="http://127.0.0.1:8000"))
    with pytest.raises(UnsupportedError, match="ended at once"):
        folders.start_roles(home, 8001)
    assert ended == ["analyzer", "shuffler"]


@pytest.mark.parametrize(
    ("ended", "patient", "done"),
    [
        (True, True, []),
        (False, True, ["terminate", ("wait", 20)]),
        (False, False, ["terminate", ("wait", 20), "kill", ("wait",)]),
    ],
)
def test_a_role_is_asked_to_end_and_waited_for(ended, patient, done):
    events = []

    def wait(*seconds):
        events.append(("wait", *seconds))
        if seconds and not patient:
            raise subprocess.TimeoutExpired("role", *seconds)

    process = SimpleNamespace(
        poll=lambda: 0 if ended else None,
        terminate=lambda: events.append("terminate"),
        kill=lambda: events.append("kill"),
        wait=wait,
    )
    folders.Role(process, "http://127.0.0.1:1", None).stop()
    assert events == done


def test_solves_for_the_smallest_floor():
    wanted = Planner().preview(survey(error=0.05))
    tighter = Planner().preview(survey(error=0.03))
    assert wanted["local_epsilon"] < tighter["local_epsilon"]
    with pytest.raises(UnsupportedError, match="cannot be reached"):
        Planner().preview(survey(error=1e-6))


def test_the_preview_says_whose_noise_it_is_and_what_the_other_would_give():
    content = survey(collection={"people": 80, "local_epsilon": "none", "trust_the_shuffler": True})
    found = Planner().preview(content)
    assert (found["noise"], found["local_epsilon"], found["floor"]) == ("servers", None, None)
    assert found["compared"].startswith(
        "The servers add the noise: if all answers are equally frequent, standard errors are up to 3.96 people; if the devices did, with the usual floor, up to "
    )
    (way,) = found["questions"]
    assert max(row["high"] - row["value"] for row in way["estimate"]) < 8
    devices = Planner().preview(survey(collection={"people": 80, "noise": "devices"}))
    assert "if the servers did, up to " in devices["compared"]
    words = {"w": {"task": "words", "alphabet": "letters", "max_length": 5}}
    refused = Planner().preview(survey(questions=words, collection={"people": 5000}))
    assert (
        "The servers cannot add it: question 'w': words cannot have noise of the servers"
        in refused["compared"]
    )


def test_without_a_floor_an_error_is_reached_or_not():
    trusted = {"people": 2000, "local_epsilon": "none", "trust_the_shuffler": True}
    assert Planner().preview(survey(error=0.01, collection=trusted))["noise"] == "servers"
    with pytest.raises(UnsupportedError, match="cannot be reached"):
        Planner().preview(survey(error=0.001, collection=trusted))


def test_what_the_page_sends_is_read_strictly():
    with pytest.raises(DataError, match="epsilon='one' must be a number"):
        read_form({"epsilon": "one"})
    assert read_form({"collection": {"local_epsilon": "none"}}) == {
        "collection": {"local_epsilon": "none"}
    }
    assert read_form({"questions": {"a": {"lower": "-1.5"}}}) == {
        "questions": {"a": {"lower": -1.5}}
    }


class TestDrafts:
    @pytest.fixture
    def root(self, tmp_path_factory):
        return tmp_path_factory.mktemp("d")  # a socket's path is short

    @pytest.fixture
    def desk(self, root, monkeypatch):
        moment = [0.0]
        desk = Desk(root, clock=lambda: moment[0])
        monkeypatch.setattr(desk, "adopt", lambda home: home.collection().id.hex())
        desk.moment = moment
        return desk

    def test_the_document_that_was_previewed_is_started_byte_for_byte(self, desk, root):
        shown = desk.preview(survey(error=0.05, collection={"people": 20_000}))
        assert desk.start({"draft": shown["draft"]})["id"] == shown["draft"]
        (home,) = root.iterdir()
        collection = Home(home).collection()
        assert collection.id.hex() == shown["draft"]
        assert collection.pledge.local_epsilon == shown["local_epsilon"] < 3
        assert collection.pledge.epsilon == shown["epsilon"]

    def test_a_draft_is_started_once_and_only_while_it_is_fresh(self, desk):
        shown = desk.preview(survey())
        desk.start({"draft": shown["draft"]})
        with pytest.raises(ParameterError, match="must be a preview of the last 10 minutes"):
            desk.start({"draft": shown["draft"]})
        shown = desk.preview(survey())
        desk.moment[0] = 601.0
        with pytest.raises(ParameterError, match="look at the new one"):
            desk.start({"draft": shown["draft"]})
        with pytest.raises(ParameterError):
            desk.start({})

    def test_eight_drafts_are_kept_and_the_ninth_takes_the_place_of_the_first(self, desk):
        made = [desk.preview(survey())["draft"] for _ in range(9)]
        assert len(set(made)) == 9
        assert [desk.document(each) is not None for each in made] == [False] + [True] * 8
        assert Collection.read(desk.document(made[1])).id.hex() == made[1]
        assert desk.document("00") is None

    def test_a_draft_of_ten_minutes_is_fresh(self, desk):
        shown = desk.preview(survey())
        desk.moment[0] = 600.0
        assert desk.start({"draft": shown["draft"]})["id"] == shown["draft"]

    def test_old_drafts_are_forgotten(self, desk):
        first = desk.preview(survey())["draft"]
        for _ in range(8):
            desk.preview(survey())
        with pytest.raises(ParameterError):
            desk.start({"draft": first})

    def test_what_is_there_comes_back_oldest_first(self, root, monkeypatch):
        """Of two that are as old, by name; one that cannot be started is told, and keeps no other."""

        def adopt(_, home):
            if home.path.name == "d":
                raise UnsupportedError("d is for two operators")
            return home.path.name

        monkeypatch.setattr(Desk, "adopt", adopt)
        desk = Desk(root)
        for name, seconds in (("b", 20), ("d", 10), ("a", 30), ("c", 20), ("e", 5)):
            key = 16 * name
            desk.save({"key": key, "content": {"title": name, "questions": []}})
            (root / name).mkdir()
            (root / name / "collection.json").write_text("{}")
            for path in (root / name / "collection.json", root / "drafts" / f"{key}.json"):
                os.utime(path, (0, seconds))
        assert desk.adopt_all() == ["e", "b", "c", "a"]
        shown = desk.status()
        stopped = {"title": "d", "stopped": "d is for two operators", "folder": str(root / "d")}
        assert (shown["folder"], shown["collections"]) == (str(root), [stopped])

        def describe(home, roles):
            if home.path.name == "x":
                raise httpx.ReadError("") if roles else sdp.DataError("x is not running")
            return {"title": home.path.name}

        monkeypatch.setattr(desk, "_describe", describe)
        for roles, said in (([], "x is not running"), ([1], "ReadError")):
            ways = SimpleNamespace(
                path=root / "x", collection=lambda: SimpleNamespace(title="Ways")
            )
            desk._running = {"1": (ways, roles), "2": (SimpleNamespace(path=root / "y"), [])}
            ended = {"title": "Ways", "ended": said, "folder": str(root / "x")}
            assert desk.status()["collections"] == [{"title": "y"}, ended, stopped]
        desk._running = {}
        titles = [each["title"] for each in shown["drafts"]]
        assert (titles[:2], sorted(titles[2:4]), titles[4:]) == (["e", "d"], ["b", "c"], ["a"])
        assert shown["drafts"][0] == {
            "key": 16 * "e",
            "title": "e",
            "content": {"title": "e", "questions": []},
        }
