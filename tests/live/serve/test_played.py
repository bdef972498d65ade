"""A rehearsal without processes: the real roles in this one, behind stand-ins for their servers."""

import json
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

import live_support as live
from shuffledp.core.errors import ParameterError, ShuffledpError, UnsupportedError, WireError
from shuffledp.live.serve import Rehearsal, Sent, rehearse
from shuffledp.live.serve.rehearse import seal_people
from shuffledp.live.wire.report import join_upload, seal_report

rehearsing = pytest.importorskip("shuffledp.live.serve.rehearse")

WAY = {"task": "histogram", "categories": ["car", "bus", "foot"]}
ALL = {
    "way": WAY,
    "home": {"task": "count"},
    "age": {"task": "mean", "lower": 0, "upper": 10},
    "half": {"task": "median", "lower": 0, "upper": 7},
    "cost": {"task": "sum", "lower": 0, "upper": 4, "by": "way", "groups": ["car", "bus"]},
}


class Stage:
    """Both roles, and what the rehearsal asks of their servers."""

    def __init__(self):
        self.home = self.shuffler = self.analyzer = None
        self.places, self.uploads, self.said = {}, [], []
        self.lose, self.double, self.status = 0, 0, "published"

    @contextmanager
    def play(self, home, port):
        self.home, self.shuffler, self.analyzer = home, home.open_shuffler(), home.open_analyzer()
        self.said.append(f"port {port}")
        yield
        self.said.append("ended")

    def send_people(self, collection, window, places, *, keep):
        assert (window, keep) == (0, True)
        self.places = places
        sent = Sent()
        for inners in seal_people(collection, window, places):
            body = join_upload(collection, [seal_report(collection, window, inners)])
            assert self.send(collection, body, 1, None) == [None]
            sent.accepted += 1
            sent.inners.update(inners)
        return sent

    def send(self, collection, body, reports, _):
        self.uploads.append(body)
        if (len(body) - 32) % collection.report_size:
            raise WireError("malformed", "no upload")
        (outcome,) = [None] * reports
        now = collection.windows.start + 1.0
        return [reason for _, reason in self.shuffler.receive(body, now).failed] or [outcome]

    def close(self):
        self.shuffler.close(self.home.collection().windows.start + 2.0)
        manifest, signature = self.shuffler.manifest(0, 1e12)
        self.analyzer.take(manifest.raw, signature, lambda _: self.shuffler.batch(0).read_bytes())
        self.analyzer.advance(0)
        path = self.home.analyzer / "batch-0.bin"
        size, batch = self.home.collection().inner_size, path.read_bytes()
        path.write_bytes(batch[self.lose * size :] + batch[len(batch) - self.double * size :])

    def get(self, path):
        if self.status != "published":
            told = {"results": []} if path == "/results.json" else {"windows": {"0": self.status}, "waiting": {"0": "no"}}  # fmt: skip
        else:
            told = {"results": self.analyzer.results()}
            self.result = told["results"][0]
        return SimpleNamespace(json=lambda: json.loads(json.dumps(told)))


@pytest.fixture
def stage(monkeypatch):
    found = Stage()
    monkeypatch.setattr(rehearsing, "play_roles", found.play)
    monkeypatch.setattr(rehearsing, "send_people", found.send_people)
    monkeypatch.setattr(rehearsing, "send_upload", found.send)
    monkeypatch.setattr(rehearsing, "connect", lambda _: nullcontext(found))
    monkeypatch.setattr(rehearsing, "Operator", lambda _: found)
    return found


def play(stage, questions, *, people=40, hostile=0.0, epsilon=60.0, **collection):
    content = {"epsilon": epsilon, "delta": 1e-3, "questions": questions}
    survey, settings = live.read_tables({**content, "collection": {"local_epsilon": 8, "noise": "devices", **collection}})  # fmt: skip
    return rehearse(survey, settings, people=people, hostile=hostile, say=stage.said.append)


def test_what_is_played_is_what_is_told(stage):
    played = play(stage, ALL)
    collection = stage.home.collection()
    assert (played.people, played.accepted, played.lost, played.doubled, played.fine) == (40, 40, 0, 0, True)  # fmt: skip
    assert played.rejected == {}
    pledge = collection.pledge
    assert (played.epsilon, played.delta, played.local_epsilon) == (pledge.epsilon, 1e-3, pledge.local_epsilon)  # fmt: skip
    assert (played.noise, played.bytes_per_report) == ("devices", collection.report_size)
    assert 0 < played.seconds < 300
    assert stage.said[0] == "choosing the protocols"
    assert stage.said[1] == "starting a shuffler and an analyzer"
    assert stage.said[3:] == ["40 devices answer", "the analyzer fetches the batch and counts", "ended"]  # fmt: skip
    windows = collection.windows
    assert (windows.seconds, windows.count, pledge.min_batch) == (86_400, 1, 20)
    assert (pledge.reports_per_device, collection.tokens, len(collection.shuffler_keys)) == (1, False, 1)  # fmt: skip
    result = stage.result
    places = stage.places
    way = np.bincount(places["way"], minlength=3).tolist()
    grid, group = places["age"] / 2**41 * 10, places["cost"] // (2**41 + 1)
    cost = (places["cost"] % (2**41 + 1)) / 2**41 * 4
    truths = {
        "way": way,
        "home": [int(places["home"].sum())],
        "age": [float(grid.mean())],
        "half": [float(np.sort(places["half"])[19])],
        "cost": [float(cost[group == each].sum()) for each in (0, 1)],
    }
    assert list(played.questions) == list(ALL)
    for name, rows in played.questions.items():
        published = result["questions"][name]["estimate"]
        assert [(row["label"], row["value"], row["low"], row["high"]) for row in rows] == [
            (row["label"], row["value"], row["low"], row["high"]) for row in published
        ]
        assert [row["truth"] for row in rows] == pytest.approx(truths[name], rel=1e-9, abs=1e-9)
        assert set(rows[0]) == {"label", "truth", "value", "low", "high"}


def test_made_up_people_have_every_answer_that_there_is_and_more_of_the_first(stage):
    play(stage, ALL, people=600)
    ways = np.bincount(stage.places["way"], minlength=3)
    assert ways[0] > ways[1] > ways[2] > 0  # 6, 3 and 2 of 11
    yes = int(stage.places["home"].sum())
    assert 120 < yes < 240  # three of ten
    shares = stage.places["age"] / 2**41
    assert 0 <= shares.min() < 0.1
    assert 0.7 < shares.max() <= 1
    assert 0.28 < shares.mean() < 0.39  # 2 of 2 + 4
    assert set(stage.places["half"].tolist()) >= {0, 1, 2, 3, 4, 5}
    assert 1.6 < stage.places["half"].mean() < 2.8
    assert set((stage.places["cost"] // (2**41 + 1)).tolist()) == {0, 1}


def test_hostile_people_are_refused_by_reason_and_spoil_nothing(stage):
    played = play(stage, {"way": WAY}, people=50, hostile=0.3, min_batch=20)
    # Of 15: three each of damaged, of another suite, of garbage inside, of strange messages, of the wrong length.
    assert (played.people, played.accepted, played.lost, played.doubled) == (50, 35, 0, 0)
    refused = [(len(body) - 32) % stage.home.collection().report_size for body in stage.uploads[35:]]  # fmt: skip
    assert len(refused) == 30  # everything twice
    assert sum(1 for rest in refused if rest) == 6
    assert len(set(stage.uploads[35:])) == 15
    wanted = {"malformed": 9, "undecryptable": 3, "unknown_question": 3}
    assert list(played.rejected.items()) == list(wanted.items())
    assert sum(row["truth"] for row in played.questions["way"]) == 35


def test_messages_that_are_lost_or_doubled_are_counted(stage):
    stage.lose = 2
    played = play(stage, {"way": WAY})
    assert (played.lost, played.doubled, played.fine) == (2, 0, False)
    stage.lose, stage.double = 0, 1
    played = play(stage, {"way": WAY})
    assert (played.lost, played.doubled, played.fine) == (0, 1, False)


def test_a_batch_that_is_refused_ends_the_rehearsal(stage):
    stage.status = "refused"
    said = "^after dropping bad messages fewer than min_batch were left$"
    with pytest.raises(UnsupportedError, match=said):
        play(stage, {"way": WAY})
    assert stage.said[-1] != "choosing the protocols"


@pytest.mark.parametrize(
    ("people", "hostile", "more", "error", "said"),
    [
        (1, 0.0, {}, ShuffledpError, "people=1 must be"),
        (40, -0.1, {}, ParameterError, "^hostile=-0.1 must be from 0 to 0.5$"),
        (40, 0.51, {}, ParameterError, "^hostile=0.51 must be from 0 to 0.5$"),
        (40, 0.0, {"min_batch": 41}, UnsupportedError,
         "^min_batch=41 needs more than 40 people: nothing would be published$"),
        (40, 0.5, {"min_batch": 21}, UnsupportedError,
         "^min_batch=21 needs more than 40 people: nothing would be published$"),
    ],
)  # fmt: skip
def test_what_cannot_be_rehearsed_is_told_at_once(stage, people, hostile, more, error, said):
    with pytest.raises(error, match=said):
        play(stage, {"way": WAY}, people=people, hostile=hostile, **more)
    assert stage.said == []


def test_as_many_as_are_needed_are_enough(stage):
    assert play(stage, {"way": WAY}, people=40, min_batch=40).fine
    assert play(stage, {"way": WAY}, people=40, hostile=0.5, min_batch=20).accepted == 20


def test_a_rehearsal_in_words():
    row = {"label": "l" * 30, "truth": 1234.0, "value": 0.5, "low": -1.25, "high": 20_000.0}
    played = Rehearsal(
        people=1234, accepted=1200, rejected={"malformed": 1234, "too_late": 1}, lost=1000, doubled=2000,
        epsilon=0.12345678, delta=1.2345e-6, local_epsilon=3.0, noise="servers", bytes_per_report=104, seconds=1.25,
        questions={"q" * 30: [row]},
    )  # fmt: skip
    assert str(played).splitlines() == [
        "1,234 people, 1,200 reports accepted, 1,000 lost, 2,000 doubled, in 1.25 seconds.",
        "epsilon = 0.123457, delta = 1.24e-06, local epsilon = 3, for one report of each device in one window; "
        "the servers add the noise; 104 bytes per report.",
        "Rejected, malformed: 1,234",
        "Rejected, too_late: 1",
        "",
        f"{'q' * 24}        truth     estimate   interval",
        f"  {'l' * 22}        1,234          0.5   -1.25 .. 20,000",
    ]
    assert not played.fine
    plain = played.to_dict()
    assert (plain["local_epsilon"], plain["people"], plain["questions"]) == (3.0, 1234, {"q" * 30: [row]})  # fmt: skip


def test_without_a_floor_it_says_so(stage):
    trusted = {"local_epsilon": "none", "trust_the_shuffler": True, "noise": "servers"}
    played = play(stage, {"way": WAY}, epsilon=1.0, **trusted)
    assert (
        "no floor, for one report of each device in one window; the servers add the noise"
        in str(played)
    )
    assert played.to_dict()["local_epsilon"] == "none"
    assert played.noise == "servers"


@pytest.mark.parametrize(
    "asked",
    [
        {"task": "words", "alphabet": "letters", "max_length": 5},
        {"task": "words", "bits": 20},
    ],
)
def test_made_up_words_are_words_of_which_half_are_the_first(stage, asked):
    play(stage, {"w": asked}, people=300)
    _, counts = np.unique(stage.places["w"], return_counts=True)
    counts = np.sort(counts)[::-1]
    assert 5 <= len(counts) <= 20
    assert 110 < counts[0] < 190  # every other person
    assert 45 < counts[1] < 110  # and every fourth
