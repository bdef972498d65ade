"""What surveys and questions tell before anybody is asked: files, refusals, and what a person is asked."""

from types import SimpleNamespace

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.engine import OnInvalid, People, take_column

WHO = People.read("who")
BASE = 'epsilon = 1\ndelta = 1e-6\n[questions.home]\ntask = "count"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BASE.replace("1e-6", "0"), r"s\.toml, line 2: delta=0\.0 must be > 0 and < 1"),
        (BASE.replace("= 1\n", "= -1\n", 1), r"s\.toml, line 1: epsilon=-1 must be > 0"),
        ("honest = 2\n" + BASE, r"s\.toml, line 1: honest=2 must be"),
        ('model = "cloud"\n' + BASE, r"s\.toml, line 1: model='cloud' must be 'shuffle', 'local' or 'central'"),
        ("where_public = 3\n" + BASE, r"s\.toml, line 1: where_public=3 must be true or false"),
        ("title = 3\n" + BASE, r"s\.toml, line 1: title=3 must be a text"),
        ('missing = "NA"\n' + BASE, r"s\.toml, line 1: missing='NA' must be a list"),
        ("collection = 3\n" + BASE, r"s\.toml, line 1: collection=3 must be a table"),
        (BASE + "weight = 0\n", r"s\.toml, line 5: question 'home': weight=0 must be > 0"),
        (BASE + "error = 1.0\n", r"s\.toml, line 5: question 'home': error=1\.0 must be"),
        (BASE + "error = 0.1\nweight = 2\n", r"question 'home': error already sets how exact the answer is: leave out weight"),
        (BASE + "colour = 3\n", r"s\.toml, line 5: question 'home': 'colour' is not a field of a count: task, column, .*, true_value"),
        (BASE + "max_rows = 1.5\n", r"s\.toml, line 5: question 'home': max_rows=1\.5 must be a whole number"),
        (BASE + 'groups = ["a", "b"]\n', r"question 'home': groups needs by: the column that says who is in which group"),
        (BASE + 'by = "way"\ngroups = ["a"]\n', r"s\.toml, line 6: question 'home': groups=\['a'\] must be at least two"),
        (BASE + 'reduce = "sum"\n', r"question 'home': reduce needs person: the column that says which person a row is about"),
        (BASE + 'on_invalid = "skip"\n', r"s\.toml, line 5: question 'home': on_invalid='skip' must be one of error, drop"),
        (BASE.replace('"count"', '"modus"'), r"s\.toml, line 4: question 'home': task='modus' must be one of"),
        (BASE.replace('"count"', '"uniformity"'), r"question 'home': the planner does not rank protocols for uniformity"),
        (BASE.replace('"count"', '"mean"\nlower = "x"'), r"s\.toml, line 5: question 'home': lower='x' must be a number"),
        (BASE.replace('"count"', '"mean"\nlower = 3\nupper = 2'), r"question 'home': upper=2 must be > lower=3"),
        ('person = "who"\n' + BASE + 'of = "rows"\n', r"question 'home': of='rows' needs max_rows"),
        ('model = "local"\n' + BASE, r"s\.toml: the local model takes no delta: its delta is 0"),
        ('model = "central"\n' + BASE + "error = 0.1\n", r"error is for the shuffle model: give epsilon, and weights"),
        ('epsilon = 1\n[questions.home]\ntask = "count"\n', r"^s\.toml: delta is missing$"),
        ("epsilon = 1\ndelta = 1e-6\n", r"^s\.toml: questions is missing$"),
        ("epsilon = 1\ndelta = 1e-6\nquestions = {}\n", r"^s\.toml, line 3: questions must be tables: \[questions\.NAME\]$"),
        ("epsilon = 1\ndelta = 1e-6\n[questions]\nhome = 3\n", r"^s\.toml, line 4: question 'home' must be a table: \[questions\.home\]$"),
        ('epsilon = 1\ndelta = 1e-6\n[questions.home]\ncolumn = "x"\n', r"^s\.toml, line 3: question 'home' has no task$"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_file_is_named_with_its_line(text, said):
    with pytest.raises(sdp.DataError, match=said):
        sdp.Survey.loads(text, "s.toml")


def test_what_a_survey_file_says_is_what_is_asked():
    survey = sdp.Survey.loads(
        'title = "Ways"\nepsilon = 2\ndelta = 1e-7\nhonest = 0.5\non_invalid = "drop"\nmissing = ["-9"]\nwhere_public = true\n'
        'person = ["a", "b"]\nmissing_person = "own"\n[collection]\nopen = 1\n'
        '[questions.home]\ntask = "count"\ntext = "At home?"\nweight = 2\nprotocol = "rr"\n'
        '[questions.km]\ntask = "mean"\ncolumn = "d"\nlower = 0\nupper = 9\nby = "way"\ngroups = ["a", 2]\noptional = true\n'
        'reduce = "sum"\non_invalid = "clamp"\n',
        "dir/s.toml",
    )
    home, km = survey.questions
    assert (survey.title, survey.epsilon, survey.delta, survey.honest, survey.where_public) == (
        "Ways",
        2,
        1e-7,
        0.5,
        True,
    )
    assert (survey.on_invalid.value, survey.on_invalid.missing, survey.missing) == (
        "drop",
        ("-9",),
        ("-9",),
    )
    assert survey.collection == {"open": 1}
    assert survey.people == People(person=("a", "b"), missing=home.people.missing)
    assert home.people.missing.value == "own"
    assert (home.name, home.column, home.text, home.weight, home.protocol, home.optional) == (
        "home",
        "home",
        "At home?",
        2,
        "rr",
        False,
    )
    assert (km.column, km.options, km.by, km.groups, km.optional) == (
        "d",
        {"lower": 0, "upper": 9},
        "way",
        ("a", "2"),
        True,
    )
    assert (km.people.reduce.value, km.on_invalid.value, home.on_invalid, home.weight) == (
        "sum",
        "clamp",
        None,
        2,
    )
    plain = sdp.Survey.loads(BASE, "dir/s.toml")
    assert (plain.title, plain.honest, plain.model.value, plain.collection) == (
        "s",
        0.9,
        "shuffle",
        {},
    )
    assert (plain.on_invalid, plain.missing, plain.where_public, plain.people) == (
        OnInvalid.ERROR,
        None,
        False,
        None,
    )
    asked = plain.questions[0]
    assert (asked.by, asked.groups, asked.error, asked.population, asked.auto, asked.hidden) == (
        None,
        None,
        None,
        False,
        None,
        0,
    )
    assert (
        sdp.Survey.read(
            {"epsilon": 1.0, "delta": 1e-6, "questions": {"home": {"task": "count"}}}
        ).title
        == "survey"
    )


HOME = sdp.Question(name="home", task="count", column="home")
PETS = sdp.Question(
    name="pet", task="histogram", column="pet", options={"categories": ("cat", "dog")}
)


class TestSurvey:
    @pytest.mark.parametrize(
        ("given", "said"),
        [
            (
                {},
                "the shuffle model needs delta: choose it far below 1/n, such as 1e-8 for a million people; "
                "where one machine may see the data, model central needs none",
            ),
            (
                {"model": "local", "delta": 1e-6, "honest": 0.5},
                "the local model takes no delta, honest: people trust nobody",
            ),
            (
                {"model": "local", "max_messages": 3},
                "the local model takes no max_messages: people trust nobody",
            ),
            (
                {"model": "central", "honest": 0.5},
                "the central model takes no honest: a trusted machine adds the noise",
            ),
            ({"model": "cloud"}, "model='cloud' must be 'shuffle', 'local' or 'central'"),
            ({"delta": 1e-6, "epsilon": 0.0}, "epsilon=0.0 must be > 0"),
        ],
    )
    def test_one_question_that_makes_no_sense(self, given, said):
        with pytest.raises(sdp.ShuffledpError, match=said):
            sdp.Survey.of(HOME, **{"epsilon": 1.0, **given})

    def test_one_question(self):
        made = sdp.Survey.of(HOME, epsilon=1, delta=1e-6, honest=0.7, max_messages=3, allow_large_delta=True,
                             on_invalid="drop", missing="-9", where_public=True)  # fmt: skip
        assert (made.alone, made.title, made.questions, made.epsilon, made.delta) == (
            True,
            "home",
            (HOME,),
            1.0,
            1e-6,
        )
        assert (made.honest, made.max_messages, made.allow_large_delta, made.where_public) == (
            0.7,
            3,
            True,
            True,
        )
        assert (made.on_invalid.value, made.on_invalid.missing, made.missing) == (
            "drop",
            ("-9",),
            ("-9",),
        )
        usual = {
            model: sdp.Survey.of(HOME, epsilon=1.0, model=model) for model in ("local", "central")
        }
        assert [(each.honest, each.delta, each.model.value) for each in usual.values()] == [
            (1.0, 0.0, "local"),
            (1.0, 0.0, "central"),
        ]
        plain = sdp.Survey.of(HOME, epsilon=1.0, delta=1e-6)
        assert (
            plain.honest,
            plain.max_messages,
            plain.allow_large_delta,
            plain.where_public,
            plain.missing,
        ) == (0.9, None, False, False, None)
        named = sdp.Question(name="home", task="count", column="home", protocol="rr")
        with pytest.raises(
            sdp.UnsupportedError,
            match="max_messages is for choosing a protocol: leave out protocol",
        ):
            sdp.Survey.of(named, epsilon=1.0, delta=1e-6, max_messages=3)
        options = {"lower": 0, "upper": 9, "at": [3]}
        shares = sdp.Question(name="x", task="cdf", column="x", options=options, by="y")
        with pytest.raises(sdp.UnsupportedError, match="a cdf has no groups: by is for"):
            sdp.Survey.of(shares, epsilon=1.0, delta=1e-6)

    def test_several_questions(self):
        both = sdp.Survey(epsilon=2, delta=1e-6, questions=(HOME, PETS))
        assert not both.alone
        assert not both.aims
        assert not both.from_data
        assert both.part_epsilon < 2
        assert sdp.Survey(epsilon=2, delta=1e-6, questions=(HOME,)).part_epsilon == 2
        assert both.trust("local").part_epsilon == 1
        assert (both.trust("local").delta, both.trust("central").delta) == (0.0, 1e-6)
        assert (
            sdp.Survey(epsilon=2, delta=0.0, questions=(HOME, PETS), model="central").part_epsilon
            == 1
        )
        tasks = both.tasks({}, 1000)
        assert [each.name for each in tasks] == ["count", "histogram"]
        other = sdp.Question(name="b", task="count", column="b", people=WHO)
        with pytest.raises(
            sdp.UnsupportedError,
            match="person must be the same for every question: one promise has one unit",
        ):
            sdp.Survey(epsilon=2, delta=1e-6, questions=(HOME, other))

    def test_groups_are_those_of_another_question(self):
        by = sdp.Question(
            name="km", task="mean", column="km", options={"lower": 0, "upper": 3}, by="pet"
        )
        survey = sdp.Survey(epsilon=2, delta=1e-6, questions=(PETS, by))
        assert survey.tasks({}, 1000)[1].labels == ("cat", "dog")
        lost = sdp.Survey(epsilon=2, delta=1e-6, questions=(HOME, by))
        said = (
            r"question 'km': by='pet' needs its groups from public knowledge: groups = \[...\], or a histogram of the column "
            "'pet' in the same survey"
        )
        with pytest.raises(sdp.ShuffledpError, match=said):
            lost.tasks({}, 1000)
        alone = sdp.Survey.of(by, epsilon=1.0, delta=1e-6)
        with pytest.raises(
            sdp.UnsupportedError,
            match=r"^by='pet' needs a list of its `groups` from public knowledge: those in",
        ):
            alone.tasks({}, 1000)
        yes = {"pet": take_column(np.array([True, False])), "km": take_column(np.array([1, 2]))}
        assert alone.tasks(yes, 1000)[0].labels == ("false", "true")

    def test_policies(self):
        given = {"epsilon": 2, "delta": 1e-6, "on_invalid": "other,clamp"}
        km = sdp.Question(name="km", task="mean", column="km", options={"lower": 0, "upper": 3})
        survey = sdp.Survey(questions=(HOME, km, PETS), **given)
        policies = [
            str(survey.find_policy(*each))
            for each in zip(survey.questions, survey.tasks({}, 1000), strict=True)
        ]
        assert policies == ["error", "clamp", "error"]
        own = sdp.Question(
            name="km",
            task="mean",
            column="km",
            options={"lower": 0, "upper": 3},
            on_invalid="drop",
            optional=True,
        )
        survey = sdp.Survey(questions=(own,), **given)
        assert str(survey.find_policy(own, survey.tasks({}, 1000)[0])) == "drop"
        some = sdp.Question(
            name="km", task="mean", column="km", options={"lower": 0, "upper": 3}, optional=True
        )
        assert (
            str(sdp.Survey(questions=(some,), **given).find_policy(some, survey.tasks({}, 1000)[0]))
            == "null=drop,out_of_range=clamp,nan=drop"
        )

    def test_filters(self):
        survey = sdp.Survey.of(HOME, epsilon=1.0, delta=1e-6, missing="-9")
        found = survey.read_filter("x > 1")
        assert (found.missing, found.public, found.private) == (("-9",), False, False)
        assert survey.read_filter("x > 1", charged=True).private
        public = sdp.Survey.of(HOME, epsilon=1.0, delta=1e-6, where_public=True)
        assert not public.read_filter("x > 1", charged=True).private
        assert public.read_filter("x > 1").public
        assert survey.read_filter(None) is None

    def test_integers_are_a_grid_where_nobody_is_trusted(self):
        km = sdp.Question(name="km", task="mean", column="km", options={"lower": -1, "upper": 3})
        (task,) = sdp.Survey.of(km, epsilon=1.0, model="local").tasks({}, 100)
        assert task.domain == sdp.Reals(lower=-1.0, upper=3.0, steps=4)
        (same,) = sdp.Survey.of(km, epsilon=1.0, model="central").tasks({}, 100)
        assert same.domain == sdp.Integers(lower=-1, upper=3)


class TestQuestion:
    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"task": "mean", "options": {"lower": "auto", "upper": "auto"}, "error": 2.0}, "error=2.0"),
            ({"options": {"lower": 1}}, "a count takes no lower"),
            ({"task": "histogram", "options": {"lower": "auto", "upper": 3}}, "lower='auto' is not for a histogram: it is for a range of numbers"),
            ({"options": {"true_value": "x"}, "population": True, "by": "y"}, "`population` is only for the shares of a count"),
            ({"task": "mean", "options": {"lower": 0, "upper": 1}, "population": True}, "`population` is only for the shares of a count"),
            ({"population": True, "people": People.read("who", of="rows", max_rows=2)}, "`population` is only for the shares of a count"),
            ({"weight": -1.0}, "weight=-1.0 must be > 0"),
            ({"groups": ("a", "b")}, "groups needs by"),
        ],
    )  # fmt: skip
    def test_what_makes_no_sense(self, given, said):
        with pytest.raises(sdp.ShuffledpError, match=said):
            sdp.Question(**{"name": "q", "task": "count", "column": "q", **given})

    def test_ends_that_are_to_be_found(self):
        asked = sdp.Question(
            name="q", task="mean", column="q", options={"lower": 0, "upper": "auto"}
        )
        assert (asked.options, asked.auto.ends, asked.auto.share) == ({"lower": 0}, ("upper",), 0.1)
        assert asked.trial == {"lower": 0, "upper": 2.0**63}
        both = sdp.Question(
            name="q", task="mean", column="q", options={"lower": "auto", "upper": "auto"}
        )
        assert both.trial == {"lower": -(2.0**63), "upper": 2.0**63}
        for share in (0.0, 1.0):
            with pytest.raises(sdp.ParameterError, match="bounds_share"):
                sdp.questions.AutoBounds(ends=("upper",), share=share)

    def test_groups_that_are_shown(self):
        def shown(**more):
            return sdp.Question(name="q", task="count", column="q", by="way", **more).shown_by

        assert shown(groups=("a", "b")) == "way"
        assert shown(groups=("a", "b"), hidden=1) is None
        assert shown(groups=("a", "b", "c"), hidden=1) == "way"
        assert shown() == "way"

    @pytest.mark.parametrize(
        ("options", "unit"),
        [
            ({"lower": "2024-01-01", "upper": "2024-02-01"}, "days"),
            ({"lower": "2024-01-01 10:00:00", "upper": "2024-02-01 10:00:00"}, "seconds"),
            ({"lower": 0, "upper": 9}, None),
            ({"lower": "2024-01-01", "upper": 9}, "wrong"),
            ({"lower": "2024-01-01", "upper": "2024-02-01 10:00:00"}, "wrong"),
        ],
    )
    def test_dates(self, options, unit):
        asked = SimpleNamespace(options=options)
        column = take_column(["2024-01-05"])
        measure = sdp.Question.measure
        if unit == "wrong":
            with pytest.raises(
                sdp.UnsupportedError,
                match="lower, upper and edges must be all dates, or all dates with a time",
            ):
                measure(asked, column)
        else:
            assert measure(asked, column).moments == unit
        edges = SimpleNamespace(options={"edges": "2024-01-01,2024-02-01,2024-03-01"})
        assert measure(edges, column).moments == "days"
