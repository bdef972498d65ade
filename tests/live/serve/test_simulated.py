"""Simulated devices: what they read of a file, what they send, and what becomes of it."""

import time
from contextlib import nullcontext

import numpy as np
import pytest

import live_support as live
import shuffledp as sdp
from shuffledp.core.errors import DataError, MismatchError, WireError
from shuffledp.live.serve import Sent, read_places, send_people, try_survey
from shuffledp.live.wire.report import open_report, split_upload

simulating = pytest.importorskip("shuffledp.live.serve.rehearse")

COST = {"task": "sum", "lower": 0, "upper": 4, "by": "way", "groups": ["car", "bus"]}
HOME = {"task": "count", "asked": {"answers": ["nein", "ja"]}}
TOP = 2**41  # the place of the upper end


@pytest.fixture(scope="module")
def collection():
    content = {
        "epsilon": 1.0,
        "delta": 1e-6,
        "questions": {"cost": COST, "home": HOME},
        "collection": {"people": 400, "noise": "devices"},
    }
    survey, settings = live.read_tables(content)
    return sdp.live.make_collection(sdp.live.choose_protocols(survey, settings), settings)[0]


@pytest.fixture
def write(tmp_path):
    def write(text, name="people.csv"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


COLUMNS = {"cost": "euros", "cost.group": "way"}


def test_numbers_by_group_are_read_from_two_columns(collection, write):
    file = write("euros,way,home\n0,car,ja\n4,car, nein \n1,bus,yes\n3,bus,true\n")
    found = read_places(collection, file, COLUMNS)
    assert found.places["cost"].tolist() == [0, TOP, TOP + 1 + TOP // 4, TOP + 1 + 3 * TOP // 4]
    assert found.places["home"].tolist() == [1, 0, 1, 1]
    assert (found.people, found.left_out, found.recoded) == (4, 0, ())


def test_whoever_is_left_out_of_one_question_is_left_out_of_all(collection, write):
    file = write("euros,way,home\n0,car,ja\n5,car,ja\n1,train,ja\n1,bus,perhaps\n2,bus,nein\n")
    found = read_places(collection, file, COLUMNS, on_invalid="drop")
    assert found.places["cost"].tolist() == [0, TOP + 1 + TOP // 2]
    assert found.places["home"].tolist() == [1, 0]
    assert (found.people, found.left_out) == (2, 3)
    clamped = read_places(collection, file, COLUMNS, on_invalid="unknown=drop,out_of_range=clamp")  # fmt: skip
    assert clamped.places["cost"].tolist() == [0, TOP, TOP + 1 + TOP // 2]
    assert clamped.left_out == 2
    assert any(each.startswith("column 'euros': ") for each in clamped.recoded)


def test_rows_are_chosen_and_other_names_are_said(collection, write):
    file = write("euros,way,at\n0,car,ja\n4,car,nein\n1,bus,ja\n")
    found = read_places(collection, file, {**COLUMNS, "home": "at"}, where="way = 'car'")
    assert found.places["cost"].tolist() == [0, TOP]
    assert found.places["home"].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("text", "columns", "more", "error", "said"),
    [
        ("euros,way,home\n0,car,ja\n", {"cost": "euros"}, {}, DataError,
         r"^cost is by group: say which column has it, cost\.group=COLUMN$"),
        ("euros,way,home\n5,car,perhaps\n", COLUMNS, {"on_invalid": "drop"}, DataError,
         "^nobody is left who answers every question; without on_invalid, the first invalid one is named$"),
        ("euros,way,home\n0,car,perhaps\n", COLUMNS, {}, DataError,
         r"'perhaps' in row 1 of .* is neither nein nor ja \(or true or false\); to go on: on_invalid unknown=drop$"),
        ("euros,way,home\n0,car,ja\n", COLUMNS, {"where": "way = 'x'"}, DataError,
         "^column 'euros' is empty where way = 'x'$"),
        ("euros,way,home\n", COLUMNS, {}, DataError, "column 'euros' is empty$"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told(collection, write, text, columns, more, error, said):
    with pytest.raises(error, match=said):
        read_places(collection, write(text), columns, **more)


def test_columns_of_files_are_as_long_as_one_another(collection, tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pa.table({"euros": [0.0, 4.0], "way": ["car", "bus"], "home": [True, False]}), tmp_path / "people.parquet")  # fmt: skip
    found = read_places(collection, tmp_path / "people.parquet", COLUMNS)
    assert found.places["home"].tolist() == [1, 0]  # values that are no texts
    with pytest.raises(MismatchError, match=r"^the columns of the questions have different lengths$"):  # fmt: skip
        simulating._check_lengths([np.zeros(2), np.zeros(3)])


class Shuffler:
    """In place of a server: takes uploads, and refuses whom it is told to."""

    def __init__(self, secrets, refuse=lambda _: None, busy=0):
        self.secrets, self.refuse, self.busy = secrets, refuse, busy
        self.uploads, self.inners = [], []

    def send(self, collection, body, reports, _):
        if self.busy:
            self.busy -= 1
            raise WireError("busy", "come back")
        found = [open_report(collection, each, self.secrets) for each in split_upload(collection, body)]  # fmt: skip
        assert len(found) == reports
        self.uploads.append(reports)
        outcomes = []
        for each in found:
            self.inners.append(each.inners)
            outcomes.append(self.refuse(len(self.inners)))
        return outcomes


@pytest.fixture
def serve(monkeypatch):
    def serve(shuffler):
        monkeypatch.setattr(simulating, "connect", lambda _: nullcontext(None))
        monkeypatch.setattr(simulating, "send_upload", shuffler.send)
        return shuffler

    return serve


SMALL = live.make_collection()
SECRETS = live.outer_secrets(SMALL)
PLACES = {"way": np.arange(23) % 3, "home": np.arange(23) % 2}


def test_everybody_is_sent_in_uploads_of_as_many_as_was_said(serve):
    shuffler = serve(Shuffler(SECRETS))
    sent = send_people(SMALL, 0, PLACES, each=10, keep=True)
    assert sorted(shuffler.uploads) == [3, 10, 10]
    assert (sent.accepted, dict(sent.rejected)) == (23, {})
    size = SMALL.inner_size
    arrived = {each[place : place + size] for each in shuffler.inners for place in (0, size)}
    assert sent.inners == arrived
    assert len(arrived) == 46


def test_who_is_refused_is_counted_by_reason_and_not_kept(serve):
    serve(Shuffler(SECRETS, refuse=lambda number: "too_late" if number % 5 == 0 else None))
    sent = send_people(SMALL, 0, PLACES, keep=True)
    assert (sent.accepted, dict(sent.rejected), len(sent.inners)) == (19, {"too_late": 4}, 38)
    assert send_people(SMALL, 0, PLACES).inners == set()
    assert Sent() == Sent(accepted=0)


def test_a_busy_shuffler_is_asked_again_and_any_other_error_is_told(serve):
    assert send_people(SMALL, 0, serve(Shuffler(SECRETS, busy=3)) and PLACES).accepted == 23
    serve(Shuffler(SECRETS, busy=10**6))
    with pytest.raises(WireError, match=r"^busy: the shuffler takes no more$"):
        send_people(SMALL, 0, PLACES)
    shuffler = serve(Shuffler(SECRETS))

    def fail(*_):
        raise WireError("unavailable", "no disk")

    shuffler.send = fail
    serve(shuffler)
    with pytest.raises(WireError, match=r"^unavailable: no disk$"):
        send_people(SMALL, 0, PLACES)


TRIED = {
    "devices": ({"noise": "devices", "people": 50}, 3.0),
    "servers": ({"noise": "servers", "people": 50}, 3.0),
    "one random question": ({"noise": "devices", "one_question": True, "people": 50}, 3.0),
}


@pytest.mark.parametrize("name", TRIED)
def test_a_survey_is_tried_with_as_many_people_as_the_file_has(name, write):
    settings, _ = TRIED[name]
    content = {
        "epsilon": 1.0,
        "delta": 1e-6,
        "questions": {
            "way": {"task": "histogram", "categories": ["car", "bus"]},
            "home": {"task": "count"},
        },
        "collection": {**settings, "min_batch": 20},
    }
    file = write("way,home\n" + "car,yes\n" * 900 + "bus,no\n" * 300)
    planned = live.read_tables(content)
    collection, result, read = try_survey(*planned, file, source=sdp.SeededWords(5))
    assert collection.pledge.min_batch == 600  # half of them, whatever was said
    assert (read.people, result["window"], list(result["questions"])) == (1200, 0, ["way", "home"])
    one = settings.get("one_question", False)
    for answer in result["questions"].values():
        assert answer["of"] == 1200
        assert 500 < answer["people"] < 700 if one else answer["people"] == 1200
    truth = {"way": [900, 300], "home": [900]}
    for question, values in truth.items():
        rows = result["questions"][question]["estimate"]
        for row, wanted in zip(rows, values, strict=True):
            assert abs(row["value"] - wanted) < 6.2 * row["stderr"]
            assert row["stderr"] < 120
    again = try_survey(*planned, file, source=sdp.SeededWords(5))[1]
    assert again["questions"] == result["questions"]


def test_a_device_is_not_waited_for(serve):
    """A busy shuffler is asked again at once, a few hundred times."""
    serve(Shuffler(SECRETS, busy=199))
    began = time.process_time()
    assert send_people(SMALL, 0, PLACES, each=25).accepted == 23
    assert time.process_time() - began < 10
    serve(Shuffler(SECRETS, busy=200))
    with pytest.raises(WireError, match="takes no more"):
        send_people(SMALL, 0, PLACES, each=25)
