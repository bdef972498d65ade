"""One request: in Python what `shuffledp run` does on the command line."""

import json
from datetime import date, datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import shuffledp as sdp
from shuffledp.cli import app
from support import ALPHA

PETS = ("bird", "cat", "dog")
COLUMN = ["cat", "dog", "dog", "bird"] * 500
PRIVATE = {"epsilon": 1.0, "delta": 1e-6}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"pet": COLUMN, "age": range(2000), "home": [True, False] * 1000})
    table["age"] %= 100
    table.to_csv("people.csv", index=False)
    table.to_parquet("people.parquet")
    return tmp_path


def command_line(*words):
    result = CliRunner().invoke(app, [*map(str, words), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def assert_near(answer, truth):
    """The truth is within what the noise allows but once in 10^9 times, and that is some standard errors."""
    low, high = map(np.asarray, answer.estimate.interval(1 - ALPHA))
    assert np.all((low <= truth) & (high >= truth))
    assert np.all(high - low <= 100 * np.asarray(answer.estimate.stderr))


class TestAsTheCommandLine:
    """The same seed gives the same record, whichever way is taken."""

    @pytest.mark.parametrize("suffix", ["csv", "parquet"])
    @pytest.mark.parametrize(
        ("task", "options", "words"),
        [
            ("count", {"column": "home"}, ["--column", "home"]),
            (
                "mean",
                {"column": "age", "lower": 0, "upper": 120},
                ["--column", "age", "--lower", 0, "--upper", 120],
            ),
            (
                "sum",
                {"column": "age", "lower": 0, "upper": 50, "on_invalid": "clamp"},
                ["--column", "age", "--lower", 0, "--upper", 50, "--on-invalid", "clamp"],
            ),
            (
                "histogram",
                {"column": "pet", "categories": ["cat", "dog"], "on_invalid": "drop"},
                ["--column", "pet", "--categories", "cat,dog", "--on-invalid", "drop"],
            ),
            (
                "histogram",
                {"column": "age", "lower": 0, "upper": 99, "protocol": "krr"},
                ["--column", "age", "--lower", 0, "--upper", 99, "--protocol", "krr"],
            ),
            (
                "histogram",
                {"column": "pet", "categories": PETS, "engine": "memory", "honest": 0.5},
                ["--column", "pet", "--categories", "bird,cat,dog", "--engine", "memory",
                 "--honest", 0.5],
            ),
        ],
    )  # fmt: skip
    def test_same_record(self, folder, suffix, task, options, words):
        path = f"people.{suffix}"
        answer = sdp.ask(path, task, **PRIVATE, **options, rng=sdp.SeededWords(7), level=0.9)
        private = ["--epsilon", 1.0, "--delta", 1e-6, "--seed", 7, "--level", 0.9]
        record = command_line("run", task, path, *words, *private)
        assert answer.to_dict() == record
        assert "the noise is seeded" in record["not_private"][0]

    def test_local_model(self, folder):
        answer = sdp.ask(
            "people.csv", "mean", column="age", lower=0, upper=99, epsilon=2, model="local",
            rng=sdp.SeededWords(7),
        )  # fmt: skip
        words = ("--column", "age", "--lower", 0, "--upper", 99, "--epsilon", 2, "--seed", 7)
        assert answer.to_dict() == command_line(
            "run", "mean", "people.csv", *words, "--model", "local"
        )
        assert answer.guarantee.model is sdp.Model.LOCAL


class TestData:
    def tables(self):
        frame = pd.DataFrame({"pet": COLUMN, "x": 1})
        yield frame, "pet"
        yield frame["pet"], None
        yield frame["pet"].astype("category"), None
        yield pl.DataFrame({"pet": COLUMN, "x": 1}), "pet"
        yield pl.Series(COLUMN), None
        yield pa.table({"pet": COLUMN, "x": [1] * 2000}), "pet"
        yield pa.array(COLUMN), None
        yield np.array(COLUMN), None
        yield COLUMN, None
        yield tuple(COLUMN), None

    def test_every_kind_gives_the_same_answer(self, folder):
        asked = {**PRIVATE, "categories": PETS}
        path = folder / "people.csv"
        for engine in ("memory", "duckdb"):
            expected = sdp.ask(
                path, "histogram", column="pet", engine=engine, rng=sdp.SeededWords(5), **asked
            )
            for data, name in self.tables():
                found = sdp.ask(
                    data, "histogram", column=name, engine=engine, rng=sdp.SeededWords(5), **asked
                )
                np.testing.assert_array_equal(found.estimate.value, expected.estimate.value)
                assert found.estimate.labels == PETS
                assert found.files == ()
        assert expected.files == (str(path),)

    def test_files_by_pattern_and_by_list(self, folder):
        pd.DataFrame({"pet": COLUMN}).to_csv("more.csv", index=False)
        asked = {**PRIVATE, "column": "pet", "categories": PETS}
        assert sdp.ask("*.csv", "histogram", **asked).n == 4000
        both = [folder / "people.csv", folder / "more.csv"]
        assert sdp.ask(both, "histogram", **asked).n == 4000

    def test_nulls_and_values_outside(self):
        ages = pd.Series([30, None, 200, 40] * 250)
        asked = {**PRIVATE, "lower": 0, "upper": 100}
        with pytest.raises(sdp.DataError, match="at position 1 is missing; to go on: on_invalid"):
            sdp.ask(ages, "mean", **asked)
        dropped = sdp.ask(ages, "mean", on_invalid="drop", **asked)
        assert (dropped.n, dropped.rows) == (500, 1000)
        assert dropped.invalid == {"null": 250, "unknown": 0, "out_of_range": 250, "nan": 0}
        assert dropped.guarantee.honest == 450

    def test_a_policy_for_each_fault(self):
        ages = pd.Series([30, None, 200, 40] * 250)
        asked = {**PRIVATE, "lower": 0, "upper": 100}
        policies = ("null=drop,out_of_range=clamp", {"null": "drop", "out_of_range": "clamp"})
        for policy in policies:
            answer = sdp.ask(ages, "mean", on_invalid=policy, **asked)
            assert (answer.n, answer.rows) == (750, 1000)
            assert_near(answer, (30 + 100 + 40) / 3)
            # How many were clamped would undo the noise; how many were left out is public.
            assert answer.invalid == {"null": 250, "unknown": 0, "nan": 0}
            assert answer.to_dict()["on_invalid"] == "null=drop,out_of_range=clamp"
            assert "250 invalid values (out_of_range 250) were moved" in answer.for_operator
            assert "250 of 1,000 values were invalid (null 250)" in answer.dropped
            assert "Numbers out of range were moved to the nearest end" in answer.explain()

    @pytest.mark.parametrize("text", [True, False])
    def test_mixed_columns_keep_their_fractions(self, text, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text("x\n" + "2\n3.5\n" * 2000)
        data = path if text else ["2", "3.5"] * 2000
        answer = sdp.ask(data, "mean", lower=0.0, upper=5, on_invalid="drop", epsilon=5, delta=1e-6)
        assert answer.n == 4000
        assert_near(answer, 2.75)

    def test_the_value_that_counts(self):
        carriers = ["AA", "UA", "DL", "AA"] * 500
        asked = {"epsilon": 5, "delta": 1e-6, "true_value": "AA"}
        for data in (carriers, pd.Categorical(carriers), pl.Series(carriers, dtype=pl.Categorical)):
            answer = sdp.ask(data, "count", **asked)
            assert_near(answer, 1000)
            assert "Yes is the value 'AA'" in answer.notes[0]
        local = sdp.ask(carriers, "count", epsilon=5, model="local", true_value="AA")
        assert_near(local, 1000)
        with pytest.raises(sdp.ParameterError, match="true_value"):
            sdp.ask(carriers, "count", epsilon=5, delta=1e-6, true_value="")

    def test_categoricals(self):
        pets = ["cat", "dog", None, "dog"] * 500
        numbers = [1, 3, 3, 1] * 500
        asked = {"epsilon": 5, "delta": 1e-6}
        for data in (
            pd.Series(pd.Categorical(pets)),
            pd.Categorical(pets),
            pd.Series(pets, dtype="string"),
            pl.Series(pets, dtype=pl.Categorical),
            pl.Series(pets, dtype=pl.Enum(["cat", "dog"])),
            pa.array(pets).dictionary_encode(),
        ):
            kept = sdp.ask(data, "histogram", categories=["cat", "dog"], on_invalid="drop", **asked)
            assert kept.n == 1500
            assert_near(kept, [500, 1000])
        for data in (pd.Categorical(numbers), pd.Series(numbers, dtype="category")):
            mean = sdp.ask(data, "mean", lower=0, upper=4, **asked)
            assert_near(mean, 2)
            ones = sdp.ask(data, "histogram", categories=["1", "3"], **asked)
            assert_near(ones, [1000, 1000])

    @pytest.mark.parametrize(
        ("lower", "upper", "middle"),
        [
            ("2013-01-01", "2013-12-31", 15_890),
            ("2013-01-01 00:00", "2013-12-31 00:00", 15_890 * 86_400),
        ],
    )
    def test_dates_have_a_mean(self, tmp_path, lower, upper, middle):
        days = [date(2013, 7, 3), date(2013, 7, 5)] * 500
        moments = [datetime(2013, 7, 3), datetime(2013, 7, 5)] * 500
        path = tmp_path / "days.csv"
        path.write_text("day\n" + "2013-07-03\n2013-07-05 00:00:00\n" * 500)
        asked = {"lower": lower, "upper": upper, "epsilon": 5, "delta": 1e-6}
        for data in (days, moments, [*map(str, days)], path):
            answer = sdp.ask(data, "mean", **asked)
            assert_near(answer, middle)
            assert any("since 1970-01-01" in note for note in answer.notes)
        with pytest.raises(sdp.DataError, match=r"'soon' at position 0 is not an? "):
            sdp.ask(["soon", *map(str, days)], "mean", **asked)

    def test_ends_of_two_kinds(self):
        asked = {"epsilon": 5, "delta": 1e-6, "lower": "2013-01-01"}
        for upper in ("2013-12-31 10:00", 16_000):
            with pytest.raises(sdp.UnsupportedError, match="must be all dates"):
                sdp.ask(["2013-07-03"] * 100, "mean", upper=upper, **asked)

    def test_booleans_have_a_mean(self):
        values = np.array([True, False, True, True] * 500)
        answer = sdp.ask(values, "mean", epsilon=5, delta=1e-6)
        assert_near(answer, 0.75)
        with pytest.raises(sdp.UnsupportedError, match="needs both `lower` and `upper`"):
            sdp.ask(values.tolist(), "mean", epsilon=5, delta=1e-6)
        answer = sdp.ask(values.tolist(), "mean", lower=0, upper=1, epsilon=5, delta=1e-6)
        assert_near(answer, 0.75)

    def test_what_would_undo_the_noise_is_for_the_operator_alone(self):
        pets = ["cat", "dog", None, "cow"] * 250
        answer = sdp.ask(
            pets, "histogram", categories=["cat", "dog", "other"], on_invalid="other", **PRIVATE
        )
        assert answer.invalid is None
        assert "500" not in json.dumps(answer.to_dict()["notes"]) + str(answer.to_dict()["invalid"])
        assert "500 invalid values (null 250, unknown 250) became other" in answer.for_operator
        assert answer.for_operator not in str(answer)


@pytest.fixture(scope="module")
def answer():
    return sdp.ask(COLUMN, "histogram", categories=PETS, **PRIVATE)


class TestAnswer:
    def test_what_it_holds(self, answer):
        assert (answer.task, answer.n) == ("histogram", 2000)
        assert answer.guarantee == answer.protocol.guarantee
        assert answer.guarantee.epsilon <= 1.0
        assert answer.guarantee.honest == 1800  # nine of ten, unless said otherwise
        truth = np.array([500, 500, 1000])
        assert_near(answer, truth)

    def test_record_is_strict_json(self, answer):
        record = json.loads(json.dumps(answer.to_dict(), allow_nan=False))
        assert [row["label"] for row in record["estimate"]] == list(PETS)
        assert record["protocol"] == answer.protocol.name
        assert record["not_private"] == []

    def test_pandas(self, answer):
        table = answer.to_pandas()
        assert table.columns.tolist() == ["label", "value", "stderr", "low", "high"]
        assert table["label"].tolist() == list(PETS)
        np.testing.assert_array_equal(table["value"], answer.estimate.value)

    def test_text_and_html(self, answer):
        for shown in (str(answer), answer._repr_html_()):
            assert all(pet in shown for pet in PETS)
            assert answer.protocol.name in shown
            assert "2,000 people" in shown
        assert repr(answer) == f"Answer(histogram of values, 2,000 people, {answer.protocol.name})"

    def test_html_is_escaped(self):
        nasty = "<script>alert(1)</script>"
        frame = pd.DataFrame({nasty: [nasty, "b"] * 500})
        answer = sdp.ask(frame, "histogram", categories=[nasty, "b"], **PRIVATE)
        assert "<script" not in answer._repr_html_()

    def test_a_single_number_has_the_name_of_the_question(self):
        answer = sdp.ask([1, 0] * 500, "count", **PRIVATE)
        assert "count" in str(answer).splitlines()[2]

    def test_explained(self, answer):
        text = answer.explain()
        assert text.startswith("The promise.")
        assert "One machine (memory) held the raw column" in text

    @pytest.mark.parametrize("suffix", ["png", "html"])
    def test_plot(self, answer, tmp_path, suffix):
        path = answer.plot(tmp_path / f"pets.{suffix}")
        assert path.stat().st_size > 500


class TestLedger:
    BUDGET = sdp.ledger.Budget(epsilon=1.5, delta=1e-5)

    def ask(self, tmp_path, **more):
        asked = {**PRIVATE, "ledger": tmp_path / "ledger.json", "budget": self.BUDGET}
        return sdp.ask([1, 0] * 500, "count", **(asked | more))

    def test_charged_before_it_is_returned(self, tmp_path):
        answer = self.ask(tmp_path)
        (entry,) = sdp.ledger.Ledger(tmp_path / "ledger.json").entries()
        assert entry.released
        assert entry.guarantee == answer.guarantee
        assert entry.note["task"] == "count"
        assert entry.note["n"] == 1000

    def test_one_too_many_is_refused_before_anything_is_randomized(self, tmp_path, monkeypatch):
        self.ask(tmp_path)
        monkeypatch.setattr("shuffledp.questions.prepared.run_file", None)
        with pytest.raises(sdp.BudgetError):
            self.ask(tmp_path)
        assert len(sdp.ledger.Ledger(tmp_path / "ledger.json").entries()) == 1

    def test_nobody_sees_an_answer_that_could_not_be_charged(self, tmp_path, monkeypatch):
        def fail(*_, **__):
            raise sdp.LedgerError("the disk is full")

        monkeypatch.setattr(sdp.ledger.Ledger, "charge", fail)
        with pytest.raises(sdp.LedgerError, match="the disk is full"):
            self.ask(tmp_path)

    def test_an_open_ledger_and_data_sets(self, tmp_path):
        ledger = sdp.ledger.Ledger(tmp_path / "ledger.db")
        for name in ("east", "west"):
            self.ask(tmp_path, ledger=ledger, dataset=name)
        assert ledger.datasets == ("east", "west")

    def test_the_first_release_states_the_budget(self, tmp_path):
        with pytest.raises(sdp.LedgerError, match="state it with the first release"):
            self.ask(tmp_path, budget=None)

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            ({"rng": sdp.SeededWords(1)}, "a seed protects nobody"),
        ],
    )
    def test_what_no_guarantee_covers_is_not_charged(self, tmp_path, more, message):
        with pytest.raises(sdp.UnsupportedError, match=message):
            self.ask(tmp_path, **more)
        assert not (tmp_path / "ledger.json").exists()

    def test_categories_from_data(self, tmp_path):
        asked = {**PRIVATE, "ledger": tmp_path / "ledger.json", "budget": self.BUDGET}
        with pytest.raises(sdp.UnsupportedError, match="which categories occur"):
            sdp.ask(COLUMN, "histogram", categories_from_data=True, **asked)


class TestRefused:
    @pytest.mark.parametrize(
        ("task", "asked", "message"),
        [
            ("modus", {}, "task='modus' must be one of count, sum, mean, histogram"),
            ("uniformity", {}, "the planner does not rank"),
            ("count", {"epsilon": -1}, "epsilon=-1 must be > 0"),
            ("count", {"delta": None}, "the shuffle model needs delta"),
            (
                "count",
                {"model": "trusted"},
                "model='trusted' must be 'shuffle', 'local' or 'central'",
            ),
            ("count", {"model": "local"}, "the local model takes no delta"),
            ("count", {"on_invalid": "ignore"}, "on_invalid='ignore' must be one of"),
            ("count", {"engine": "abacus"}, "engine='abacus' must be one of"),
            ("count", {"level": 1}, "level=1 must be > 0 and < 1"),
            ("count", {"lower": 3}, "a count takes no lower"),
            ("count", {"options": {"colour": "red"}}, "a count takes no colour"),
            ("histogram", {}, "needs its categories from public knowledge"),
            ("count", {"protocol": "krr"}, "krr answers a histogram, not a count"),
            ("count", {"protocol": "rr", "max_messages": 2}, "leave out protocol"),
        ],
    )
    def test_by_name(self, task, asked, message):
        with pytest.raises(sdp.ShuffledpError, match=message):
            sdp.ask([1, 0] * 500, task, **(PRIVATE | asked))

    def test_before_the_data_are_opened(self):
        with pytest.raises(sdp.ParameterError, match="epsilon"):
            sdp.ask("nowhere.csv", "count", epsilon=0, delta=1e-6)


class TestWhatACuratorTells:
    def test_cells_of_quantiles(self):
        answer = sdp.ask(
            np.arange(1000) / 10, "quantiles", lower=0, upper=100, epsilon=1, model="central"
        )
        assert any("public cells" in note for note in answer.notes)

    def test_a_mean_has_no_grid(self):
        given = {"lower": 0, "upper": 100, "epsilon": 1, "model": "central"}
        assert sdp.ask(np.arange(1000) / 10, "mean", **given).notes == ()

    def test_a_delta_that_was_not_needed(self):
        answer = sdp.ask([True] * 1000, "count", epsilon=1, delta=1e-6, model="central")
        assert answer.notes == ("The delta of 1e-06 was not needed: geometric has delta = 0.",)

    def test_which_words_are_listed_and_why_intervals_are_wide(self):
        given = {"alphabet": "letters", "max_length": 8, "epsilon": 1, "delta": 1e-6}
        answer = sdp.ask(["tea"] * 900 + ["mate"] * 100, "words", model="central", **given)
        (note,) = answer.notes
        assert f"above {answer.protocol.threshold}" in note
        assert "for all listed values at once" in note

    def test_means_by_group_say_why_their_intervals_are_wide(self):
        table = {"age": [30, 40] * 500, "way": ["car", "bus"] * 500}
        given = {"by": "way", "groups": ["car", "bus"], "epsilon": 1, "model": "central"}
        answer = sdp.ask(pa.table(table), "mean", column="age", lower=0, upper=100, **given)
        assert any("wider than two standard errors" in note for note in answer.notes)


def test_shares_stand_beside_counts_everywhere(tmp_path):
    """As in the terminal: in JSON, in notebooks, on pages and in pictures; sums have none."""
    pets = ["cat"] * 600 + ["dog"] * 400
    given = {"epsilon": 50.0, "model": "central", "rng": sdp.SeededWords(1)}
    answer = sdp.ask(pets, "histogram", categories=["cat", "dog"], **given)
    assert [row["share"] for row in answer.to_dict()["estimate"]] == [0.6, 0.4]
    assert "600 (60.0%)" in answer._repr_html_()
    assert "600 (60.0%)" in answer.plot(tmp_path / "a.html").read_text()
    assert "600 (60.0%)" in answer.plot(tmp_path / "a.svg").read_text()
    one = sdp.ask([True] * 300 + [False] * 700, "count", **given)
    assert "300, 30.0% (" in one.plot(tmp_path / "b.svg").read_text()
    total = sdp.ask([3] * 1000, "sum", lower=0, upper=9, **given)
    assert "share" not in total.to_dict()["estimate"][0]
    assert "%" not in total._repr_html_().split("</table>")[0].replace("95% interval", "")


@pytest.mark.parametrize("gone", [0, 3])
def test_exact_numbers_of_people_left_out_are_listed_as_not_private(gone, tmp_path):
    """Without a ledger n is exact; with one, nobody is left out."""
    ages = [30] * 1000 + [None] * gone
    given = {"lower": 0, "upper": 99, "epsilon": 1.0, "model": "central", "on_invalid": "drop"}
    answer = sdp.ask(ages, "mean", **given)
    assert answer.to_dict()["not_private"] == [sdp.questions.LEFT_OUT]
    assert f"NOT PRIVATE: {sdp.questions.LEFT_OUT}." in str(answer)
    budget = sdp.ledger.Budget(epsilon=1.0, delta=0.0)
    charged = sdp.ask(ages, "mean", ledger=tmp_path / "l.json", budget=budget, **given)
    assert (charged.n, charged.not_private) == (1000 + gone, ())
    clamped = sdp.ask([30] * 1000, "mean", **{**given, "on_invalid": "clamp"})
    assert clamped.not_private == ()
