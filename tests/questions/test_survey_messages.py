"""Surveys as messages: tagged with their question, in one file, tallied and estimated as if they were run."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

import shuffledp as sdp
from shuffledp.engine import chunks, local, messages, take_column
from shuffledp.engine.local import pair_people

N = 1200
SURVEY = """epsilon = 1.0
delta = 1e-6
title = "commuters"
[questions.way]
task = "histogram"
categories = ["car", "bus", "other"]
protocol = "dummies_histogram"
[questions.minutes]
task = "mean"
lower = 0.0
upper = 60.0
steps = 6
protocol = "unary_sum"
[questions.rank]
task = "histogram"
lower = 3
upper = 6
protocol = "dummies_histogram"
[questions.by_way]
task = "mean"
column = "minutes"
lower = 0.0
upper = 60.0
by = "way"
protocol = "dummies_histogram"
"""


SMALL = """epsilon = 1.0
delta = 1e-6
[questions.way]
task = "histogram"
categories = ["car", "bus", "other"]
protocol = "dummies_histogram"
"""


def make_people(n=N, seed=1):
    source = np.random.default_rng(seed)
    return {
        "way": source.choice(["car", "bus", "other"], n).tolist(),
        "minutes": source.uniform(0, 60, n),
        "rank": source.integers(3, 7, n),
    }


@pytest.fixture(scope="module")
def survey():
    return sdp.Survey.loads(SURVEY)


@pytest.fixture(scope="module")
def prepared(survey):
    return survey.prepare(make_people())


@pytest.fixture(scope="module")
def small():
    return sdp.Survey.loads(SMALL)


def test_messages_are_those_of_everybodys_devices(prepared, tmp_path, monkeypatch):
    """The same words, question after question: the same messages, in another order, and the same tally."""
    monkeypatch.setattr(messages, "_PIECE_BYTES", 1 << 12)
    seeded = replace(prepared, rng=sdp.SeededWords(7))
    sent = seeded.randomize(tmp_path / "m.parquet")
    words, people = sdp.SeededWords(7), make_people()
    expected, tallies = [], []
    for number, (name, part) in enumerate(sdp.protocols.bundle.questions(prepared.plan.protocol)):
        if name == "by_way":
            columns = take_column(people["minutes"]), take_column(people["way"])
            domain = prepared.plan.tasks[number].domain
            codes = (
                pair_people(*columns, domain, rng=words).column.array.to_numpy().astype(np.int64)
            )
        else:
            domain = prepared.plan.tasks[number].domain
            codes = sdp.core.domain.read_places(part.match_domain(domain), people[name])
        again = words.ahead(0)
        payload = chunks.encode_codes(part.randomizer, codes, words).payload
        expected += [(number, *np.atleast_1d(row).tolist()) for row in payload]
        tallies.append(chunks.tally_codes(part.randomizer, part.analyzer, codes, again))
    rows = [tuple(row) for row in pq.read_table(sent.path)["message"].to_pylist()]
    assert sorted(row[:2] for row in rows) == sorted(row[:2] for row in expected)
    assert rows != expected
    found = sdp.tally_file(sent.path)
    joined = prepared.plan.protocol.analyzer.join(tallies)
    np.testing.assert_array_equal(found.tally.counts, joined.counts)
    assert found.tally.users == N
    assert sent.messages == len(rows)


def test_answers_are_those_of_a_run_but_for_the_noise(prepared, tmp_path):
    """Labels, groups, errors and the guarantee are the same; the values are off by their noise."""
    run = replace(prepared, rng=sdp.SeededWords(1)).answer()
    found = sdp.tally_file(prepared.randomize(tmp_path / "m.arrow").path)
    kept = sdp.read_tally(sdp.write_tally(found, tmp_path / "t.json"))
    assert kept.protocol == found.protocol == prepared.plan.protocol
    assert kept.form == found.form
    answer = sdp.SurveyAnswer.of(kept, level=0.9)
    assert (answer.name, answer.n, answer.guarantee) == ("commuters", N, run.guarantee)
    truth = make_people()
    for own, other in zip(answer.answers, run.answers, strict=True):
        assert (own.name, own.task, own.by, own.notes) == (
            other.name,
            other.task,
            other.by,
            other.notes,
        )
        assert own.estimate.labels == other.estimate.labels
        assert own.level == 0.9
    assert answer["rank"].estimate.labels == ("3", "4", "5", "6")
    cars = np.sum(np.array(truth["way"]) == "car")
    assert abs(answer["way"].estimate.value[0] - cars) < 120
    means = [truth["minutes"][np.array(truth["way"]) == way].mean() for way in ("car", "bus")]
    np.testing.assert_allclose(answer["by_way"].estimate.value[:2], means, atol=25)
    assert set(answer.to_dict()) == set(run.to_dict())
    assert answer.to_dict()["questions"].keys() == run.to_dict()["questions"].keys()


def test_shards_add(survey, tmp_path):
    """Each made for the people of a shard: what is estimated together has at least their guarantee."""
    paths = []
    for number in range(2):
        shard = survey.prepare(make_people(seed=number), n=N)
        paths.append(shard.randomize(tmp_path / f"{number}.parquet").path)
    single = [sdp.tally_file(path) for path in paths]
    total = sdp.tally_file(paths)
    np.testing.assert_array_equal(
        total.tally.counts, single[0].tally.counts + single[1].tally.counts
    )
    answer = sdp.SurveyAnswer.of(total)
    assert answer.n == 2 * N
    assert answer.guarantee.delta <= 1e-6
    assert answer.warnings == []
    assert abs(np.sum(answer["rank"].estimate.value) - 2 * N) < 300


def test_another_survey_does_not_add(small, tmp_path):
    first = small.prepare(make_people()).randomize(tmp_path / "a.parquet").path
    other = sdp.Survey.loads(SMALL.replace('"car", "bus"', '"bus", "car"'))
    second = other.prepare(make_people()).randomize(tmp_path / "b.parquet").path
    with pytest.raises(sdp.MismatchError, match="different questions"):
        sdp.tally_file([first, second])


def test_fewer_people_than_the_noise_was_made_for(small, tmp_path):
    prepared = small.prepare(make_people(), n=N + 100)
    assert prepared.in_force.guarantee.delta > 1e-6
    answer = sdp.SurveyAnswer.of(sdp.tally_file(prepared.randomize(tmp_path / "m.arrow").path))
    assert answer.guarantee == prepared.in_force.guarantee
    assert "WEAKER THAN PLANNED" in str(answer)
    with pytest.raises(sdp.DataError, match="needs the noise of at least"):
        small.prepare(make_people(), n=2 * N).randomize(tmp_path / "n.arrow")


def test_everybody_answers_every_question(prepared, tmp_path):
    shorter = take_column(make_people(N - 1)["rank"])
    parts = [
        replace(part, column=shorter) if part.question.column == "rank" else part
        for part in prepared.parts
    ]
    with pytest.raises(sdp.DataError, match="there are 1,199 and 1,200 answers"):
        replace(prepared, parts=tuple(parts)).randomize(tmp_path / "m.parquet")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda form: form["questions"].pop(), "are not those of its protocol"),
        (lambda form: form["questions"][0].update(task="mode"), "task='mode'"),
        (lambda form: form["questions"][0].update(name="x"), "are not those of its protocol"),
        (lambda form: form["questions"][0]["bins"].update(k=4, names=None), "4 bins of 'way'"),
        (lambda form: form["questions"][3].update(groups=["a", "b"]), "6 bins of 'by_way'"),
        (lambda form: form["questions"][3].update(task="cdf"), "must be one of"),
        (lambda form: form["questions"][3].update(task="std"), "must be about numbers"),
        (lambda form: form["questions"][3].update(at=[0.5]), "must be given for quantiles"),
        (lambda form: form["questions"][3].update(moments="years"), "must be one of days, seconds"),
        (lambda form: form["questions"][3]["bins"].update(kind="x"), "kind='x'"),
        (lambda form: form.pop("questions"), "does not say what was asked"),
    ],
)
def test_damaged_forms(collected, change, said, tmp_path):
    path = sdp.write_tally(collected, tmp_path / "t.json")
    content = json.loads(path.read_text())
    change(content["form"])
    path.write_text(json.dumps(content))
    with pytest.raises(sdp.DataError, match=said):
        sdp.read_tally(path)


@pytest.fixture(scope="module")
def collected(prepared, tmp_path_factory):
    path = tmp_path_factory.mktemp("messages") / "m.parquet"
    return sdp.tally_file(prepared.randomize(path).path)


def test_a_tally_of_one_question_is_no_survey():
    protocol = sdp.protocols.krr.make_local(k=2, epsilon=1.0)
    tally = local.tally_each(protocol, [0, 1], sdp.SeededWords(1))
    with pytest.raises(sdp.ParameterError, match="must be of a survey"):
        sdp.SurveyAnswer.of(sdp.engine.Collected(protocol=protocol, tally=tally))


SENT = {
    "bins": ({"task": "bins", "options": {"edges": [0, 10, 60]}}, ["0 to 10", "10 to 60"]),
    "median": ({"task": "median", "options": {"lower": 0, "upper": 60}}, ["median"]),
    "integers": ({"task": "histogram", "options": {"lower": 0, "upper": 2}}, ["0", "1", "2"]),
    "count": ({"task": "count", "options": {"true_value": "5"}}, ["count"]),
}


@pytest.mark.parametrize("name", SENT)
def test_messages_of_one_question_name_it_as_it_was_asked(name, tmp_path):
    """Its answer, its bins and the words for values are those of `ask`, whichever protocol answers."""
    asked, labels = SENT[name]
    question = sdp.Question(name="x", column="x", **asked)
    policy = "drop" if name == "count" else "clamp"
    survey = sdp.Survey.of(question, epsilon=4.0, delta=1e-6, on_invalid=policy)
    data = {"x": ["5", "1e0", "+30", "99"] * 500}
    sent = survey.prepare(data, sent=True).randomize(tmp_path / "m.parquet")
    answer = sdp.Answer.of(sdp.tally_file(sent.path))
    here = sdp.ask(data, survey)
    assert [row.label for row in answer.picture.rows] == labels
    assert [row.label for row in here.picture.rows] == labels
    assert answer.question.task == asked["task"]
    assert (answer.picture.whole, answer.picture.people) == (
        here.picture.whole,
        here.picture.people,
    )
    for row, other in zip(answer.picture.rows, here.picture.rows, strict=True):
        assert abs(row.value - other.value) <= 12 * (row.stderr + other.stderr) + 1
