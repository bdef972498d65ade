"""What a file of messages or a tally says about the questions: there and back, read, and refused."""

import json

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp import Bins, Cells, Tally
from shuffledp.core.analyzer import NormalError
from shuffledp.engine.tallies import Collected, Form, Reading, read_tallies
from shuffledp.tasks import task_named
from shuffledp.tasks.groups import Grouped

WAYS = sdp.Categories(k=2, names=("car", "bus"))
DOMAINS = {
    "bits": (sdp.Bits(), {"kind": "bits"}),
    "integers": (sdp.Integers(lower=-2, upper=5), {"kind": "integers", "lower": -2, "upper": 5}),
    "reals": (
        sdp.Reals(lower=-0.5, upper=2.0, steps=3),
        {"kind": "reals", "lower": -0.5, "upper": 2.0, "steps": 3},
    ),
    "cells": (
        Cells(lower=0.0, upper=2.0, cells=8),
        {"kind": "cells", "lower": 0.0, "upper": 2.0, "cells": 8},
    ),
    "codes": (sdp.Categories(k=3), {"kind": "categories", "k": 3, "names": None}),
    "names": (
        sdp.Categories(k=2, names=("a", "b")),
        {"kind": "categories", "k": 2, "names": ["a", "b"]},
    ),
}


@pytest.mark.parametrize("name", DOMAINS)
def test_bins_there_and_back(name):
    bins, said = DOMAINS[name]
    reading = Reading(name="x", task="histogram", bins=bins)
    assert reading.to_dict() == {
        "name": "x", "task": "histogram", "by": None, "bins": said, "groups": None, "notes": [],
    }  # fmt: skip
    assert Reading.read_dict(json.loads(json.dumps(reading.to_dict()))) == reading


def test_bins_of_numbers_are_kept_by_their_names():
    reading = Reading(name="x", task="bins", bins=Bins(edges=(0, 1, 2)))
    back = Reading.read_dict(reading.to_dict())
    assert back.bins == sdp.Categories(k=2, names=reading.bins.labels)


def test_everything_that_a_reading_may_say():
    reading = Reading(
        name="km", task="quantiles", by="way", bins=sdp.Integers(lower=0, upper=3), groups=WAYS,
        notes=("first", "second"), at=(0.25, 0.5), hidden=1, moments="days",
    )  # fmt: skip
    assert reading.to_dict() == {
        "name": "km", "task": "quantiles", "by": "way", "bins": {"kind": "integers", "lower": 0, "upper": 3},
        "groups": ["car", "bus"], "notes": ["first", "second"], "at": [0.25, 0.5], "hidden": 1, "moments": "days",
    }  # fmt: skip
    assert Reading.read_dict(reading.to_dict()) == reading


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"task": "modus"}, "task='modus' must be one of"),
        ({"task": "cdf", "groups": ["a", "b"]}, "task='cdf' must be one of count, .*, by group"),
        ({"moments": "years"}, "moments='years' must be one of days, seconds"),
        ({"hidden": -1}, "hidden=-1 must be >= 0"),
        ({"hidden": 0.5}, "hidden=0.5"),
        ({"bins": {"kind": "colours"}}, "kind='colours' must be bits, integers, reals, cells or categories"),
    ],
)  # fmt: skip
def test_a_reading_that_makes_no_sense(change, said):
    plain = Reading(name="x", task="count").to_dict()
    with pytest.raises(sdp.ParameterError, match=said):
        Reading.read_dict({**plain, **change})
    assert Reading.read_dict({**plain, "groups": ["a", "b"]}).groups.names == ("a", "b")
    assert Reading.read_dict({**plain, "hidden": 0}).hidden == 0
    assert "of_rows" not in plain
    of_rows = Reading(name="x", task="count", of_rows=True)
    assert Reading.read_dict(of_rows.to_dict()) == of_rows
    with pytest.raises(sdp.ParameterError, match="of_rows='yes' must be true or false"):
        Reading.read_dict({**plain, "of_rows": "yes"})


def test_a_form_there_and_back():
    readings = (Reading(name="a", task="count"), Reading(name="b", task="count"))
    form = Form(readings=readings, title="Cars", unit="person")
    assert form.to_dict() == {
        "title": "Cars", "unit": "person", "questions": [each.to_dict() for each in readings],
    }  # fmt: skip
    assert Form.read_dict(form.to_dict()) == form
    old = {key: value for key, value in form.to_dict().items() if key != "unit"}
    assert Form.read_dict(old).unit == "row"
    assert Form(readings=readings).unit == "row"
    with pytest.raises(sdp.ParameterError, match="unit='city' must be person or row"):
        Form.read_dict(form.to_dict() | {"unit": "city"})
    for wrong in (
        {},
        {"questions": []},
        {"questions": [{}], "title": "x"},
        [],
        {"questions": 3, "title": "x"},
    ):
        with pytest.raises(sdp.DataError, match="it does not say what was asked"):
            Form.read_dict(wrong)


def estimate(size, **more):
    law = NormalError(stderr=np.arange(1.0, size + 1))
    return sdp.Estimate(value=np.arange(10.0, 10 + size), error=law, limits=(0.0, 40.0), **more)


class TestReading:
    def test_names_of_bins(self):
        pets = Reading(
            name="pet", task="histogram", bins=sdp.Categories(k=3, names=("x", "y", "z"))
        )
        bins = estimate(3, labels=("0", "1", "2"))
        assert pets.read(bins).labels == ("x", "y", "z")
        some = Reading(name="pet", task="histogram", bins=pets.bins, hidden=1).read(bins)
        assert (some.labels, some.value.tolist()) == (("x", "y"), [10, 11])
        plain = estimate(3)
        assert Reading(name="n", task="histogram").read(plain) is plain
        assert Reading(name="n", task="histogram", hidden=1).read(plain) is plain

    def test_pairs_of_answer_and_group(self):
        numbers = Reading(
            name="n", task="sum", by="way", bins=sdp.Integers(lower=0, upper=1), groups=WAYS
        )
        assert numbers.read(estimate(4)).value.tolist() == [11, 13]
        last = Reading(name="n", task="sum", by="way", bins=numbers.bins, groups=WAYS, hidden=1)
        assert last.read(estimate(4)).value == 11
        two = Reading(
            name="n", task="quantiles", at=(0.5,), bins=sdp.Integers(lower=0, upper=1), groups=WAYS
        )
        assert two.read(estimate(4)).value.tolist() == [1, 1]

    def test_of_a_task(self):
        krr = sdp.protocols.krr.make_local(k=4, epsilon=1.0)
        task = Grouped.of(
            task_named("quantiles").declare({"lower": 0, "upper": 1, "at": [0.5]}).task, WAYS
        )
        made = Reading.of("n", "quantiles", task, krr, by="way", hidden=1)
        assert made == Reading(
            name="n", task="quantiles", by="way", bins=sdp.Integers(lower=0, upper=1), groups=WAYS,
            at=(0.5,), hidden=1, notes=task.remarks())  # fmt: skip
        pets = task_named("histogram").declare({"categories": ["a", "b", "c", "d"]}).task
        assert Reading.of("p", "histogram", pets, krr).bins == pets.domain
        count = task_named("count").declare({}).task
        rr = sdp.protocols.rr.make_local(epsilon=1.0)
        assert Reading.of("c", "count", count, rr) == Reading(name="c", task="count")

    def test_of_another_protocol(self):
        krr = sdp.protocols.krr.make_local(k=3, epsilon=1.0)
        form = Form(readings=(Reading(name="n", task="histogram", bins=WAYS),))
        with pytest.raises(sdp.MismatchError, match="2 bins of 'n' do not fit its protocol"):
            form.check(krr)
        pairs = Reading(name="n", task="count", bins=sdp.Bits(), groups=WAYS)
        with pytest.raises(sdp.MismatchError, match="4 bins of 'n' do not fit"):
            Form(readings=(pairs,)).check(krr)
        fits = Form(readings=(pairs,))
        assert fits.check(sdp.protocols.krr.make_local(k=4, epsilon=1.0)) is fits
        twice = Form(readings=(pairs, pairs))
        with pytest.raises(sdp.MismatchError, match="2 questions do not fit its protocol"):
            twice.check(krr)
        anything = Form(readings=(Reading(name="n", task="histogram"),))
        assert anything.check(krr) is anything


KRR = sdp.protocols.krr.make_local(k=3, epsilon=1.0)


def collect(counts=(5, 3, 2), users=10, protocol=KRR, **more):
    return Collected(protocol=protocol, tally=Tally(counts=np.array(counts), users=users), **more)


class TestCollected:
    def test_shuffles_add_up(self):
        assert collect().shuffles == (10,)
        assert (collect() + collect((1, 1, 1), 3)).shuffles == (10, 3)
        for wrong in ((4, 5), (11, -1)):
            with pytest.raises(
                sdp.ParameterError, match=r"shuffles=.* must add up to the 10 people"
            ):
                collect(shuffles=wrong)
        assert collect(shuffles=(10, 0)).shuffles == (10, 0)

    def test_the_promise_of_the_sum_is_told_for_several_shuffles_alone(self):
        made = sdp.protocols.rr.make(n=1000, epsilon=1.0, delta=1e-6)
        one = collect((500, 500), 1000, made)
        assert one.guarantee_of_sum is None
        both = one + one
        assert both.guarantee_of_sum == made.with_people(2000).guarantee
        assert both.in_force.guarantee == made.guarantee
        small = one + collect((200, 300), 500, made)
        assert small.in_force.guarantee == made.with_people(500).guarantee
        assert (collect() + collect()).guarantee_of_sum is None, (
            "the local promise needs nobody else"
        )

    def test_answers_have_the_declared_names(self):
        assert collect().estimate.labels == KRR.randomizer.domain.labels
        assert collect(labels=("x", "y", "z")).estimate.labels == ("x", "y", "z")
        reading = Reading(
            name="n", task="histogram", bins=sdp.Categories(k=3, names=("p", "q", "r"))
        )
        assert collect(form=Form(readings=(reading,))).estimate.labels == ("p", "q", "r")
        survey = collect(form=Form(readings=(reading,), title="s"), labels=("x", "y", "z"))
        assert survey.estimate.labels == ("x", "y", "z"), "that of a survey is read part by part"

    def test_questions_have_to_be_the_same(self):
        form = Form(readings=(Reading(name="n", task="histogram"),))
        with pytest.raises(sdp.MismatchError, match="tallies of different questions do not add"):
            collect() + collect(form=form)
        assert (collect(form=form) + collect(form=form)).tally.users == 20


class TestFiles:
    def write(self, folder, name="t.json", change=None, **more):
        path = sdp.write_tally(collect(**more), folder / name)
        if change is not None:
            path.write_text(json.dumps(json.loads(path.read_text()) | change))
        return path

    def test_everything_is_kept(self, tmp_path):
        form = Form(readings=(Reading(name="n", task="histogram", notes=("x",)),), unit="person")
        path = self.write(tmp_path, form=form, labels=("x", "y", "z"), shuffles=(4, 6))
        said = json.loads(path.read_text())
        assert path.read_text().endswith("}\n")
        assert said == {
            "kind": "shuffledp tally", "version": sdp.__version__, "protocol": "krr",
            "parameters": dict(KRR.parameters), "law": said["law"], "labels": ["x", "y", "z"],
            "form": form.to_dict(), "users": 10, "shuffles": [4, 6], "counts": [5, 3, 2],
        }  # fmt: skip
        assert len(said["law"]) == 16
        found = sdp.read_tally(path)
        assert (found.form, found.labels, found.shuffles) == (form, ("x", "y", "z"), (4, 6))
        bare = json.loads(self.write(tmp_path, "u.json").read_text())
        assert bare["labels"] is None
        assert "form" not in bare

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"shuffles": []}, "is damaged: users, shuffles and counts must be whole numbers"),
            ({"shuffles": 10}, "is damaged: users, shuffles and counts must be whole numbers"),
            ({"shuffles": [5, 5.0]}, "is damaged: users, shuffles and counts must be whole numbers"),
            ({"shuffles": [10, 0]}, "has the tally of a shuffle without people: leave it out"),
            ({"users": 0}, "has the tally of a shuffle without people: leave it out"),
            ({"users": True}, "must be whole numbers"),
            ({"shuffles": [5, 4]}, "is damaged: shuffles="),
            ({"form": {}}, "is damaged: it does not say what was asked"),
            ({"form": {"title": None, "questions": []}}, "is damaged: 0 questions do not fit"),
            ({"law": "0"}, "was made by version '.*', whose krr has another law"),
            ({"kind": "shuffledp messages"}, "is not a tally of shuffledp"),
            ({"counts": [5, 3, 2, 0]}, "has 4 counts, which do not fit its protocol"),
            ({"labels": ["a", "b"]}, "2 labels do not fit its categories"),
        ],
    )  # fmt: skip
    def test_what_is_wrong_is_named_with_its_file(self, tmp_path, change, said):
        path = self.write(tmp_path, change=change)
        with pytest.raises(sdp.ShuffledpError, match=rf"t\.json .*{said}"):
            sdp.read_tally(path)

    def test_a_tally_of_old_does_not_say_its_shuffles(self, tmp_path):
        path = self.write(tmp_path)
        said = json.loads(path.read_text())
        del said["shuffles"]
        path.write_text(json.dumps(said))
        with pytest.raises(
            sdp.DataError, match=r"t\.json does not say how many people each shuffle had"
        ):
            sdp.read_tally(path)

    def test_several_files_are_of_different_people(self, tmp_path):
        one, two = self.write(tmp_path), self.write(tmp_path, "u.json", users=12)
        assert read_tallies([one, two]).shuffles == (10, 12)
        assert read_tallies([one]).shuffles == (10,)
        with pytest.raises(sdp.UnsupportedError, match="a tally is named twice"):
            read_tallies([one, tmp_path / "." / "t.json"])
        folder = tmp_path / "d.json"
        folder.mkdir()
        with pytest.raises(sdp.DataError, match=r"d\.json cannot be read: Is a directory"):
            sdp.read_tally(folder)
