"""`randomize`, `tally`, `estimate`: the two halves apart give what `run` gives together."""

import json

import numpy as np
import pytest

import shuffledp as sdp

WAYS = "car,bicycle,bus,train,on foot,tram,at home,motorcycle,scooter,ferry"
COMMON = ("--epsilon", "1", "--delta", "1e-6")


def good(result):
    assert result.exit_code == 0, result.output
    return result


def test_the_halves_are_the_whole(shuffledp, people):
    data = (people, "--column", "way", "--categories", WAYS, *COMMON, "--seed", 3)
    whole = json.loads(good(shuffledp("run", "histogram", *data, "--json")).stdout)
    good(shuffledp("randomize", *data, "--out", "m.parquet"))
    good(shuffledp("tally", "m.parquet", "--out", "t.json"))
    apart = json.loads(good(shuffledp("estimate", "t.json", "--json")).stdout)
    for key in ("task", "protocol", "parameters", "n", "epsilon", "delta", "guarantee"):
        assert apart[key] == whole[key], key
    # `run` deals the tally with the law of the messages that `randomize` makes: other draws, the same errors.
    for one, other in zip(apart["estimate"], whole["estimate"], strict=True):
        assert one["label"] == other["label"]
        assert one["stderr"] == pytest.approx(other["stderr"], rel=0.1)
        assert abs(one["value"] - other["value"]) < 10 * one["stderr"]


def test_tallies_of_several_files_add(shuffledp, people, survey):
    data = (people, "--column", "way", "--categories", WAYS, *COMMON)
    for part in "ab":
        good(shuffledp("randomize", *data, "--out", f"{part}.parquet"))
        good(shuffledp("tally", f"{part}.parquet", "--out", f"{part}.json"))
    good(shuffledp("tally", "a.parquet", "b.parquet", "--out", "both.json"))
    together = json.loads(good(shuffledp("estimate", "both.json", "--json")).stdout)
    added = json.loads(good(shuffledp("estimate", "a.json", "b.json", "--json")).stdout)
    assert added["estimate"] == together["estimate"]
    assert added["n"] == 6000
    values = np.array([row["value"] for row in added["estimate"]])
    assert np.abs(values - 2 * survey.way.counts).max() < 100


def test_n_makes_files_of_several_sizes_agree(shuffledp, tmp_path):
    for name, rows in (("a", 2000), ("b", 2100)):
        (tmp_path / f"{name}.csv").write_text("x\n" + "0\n1\n" * (rows // 2))
        words = (f"{name}.csv", "--task", "count", *COMMON, "--out", f"{name}.parquet")
        good(shuffledp("randomize", *words, "--n", "2e3"))
    good(shuffledp("tally", "a.parquet", "b.parquet", "--out", "t.json"))
    found = json.loads(good(shuffledp("estimate", "t.json", "--json")).stdout)
    assert found["n"] == 4100
    assert abs(found["estimate"][0]["value"] - 2050) < 60
    result = shuffledp(
        "randomize", "a.csv", "--task", "count", *COMMON, "--out", "c.parquet", "--n", "3e3"
    )
    assert result.exit_code == 2, "2,000 people are too few for the noise of 2,700"
    assert "2700" in result.stderr or "2,700" in result.stderr


@pytest.mark.parametrize("people", [950, 1200])
def test_the_guarantee_of_messages_is_that_of_the_people_who_sent_them(shuffledp, tmp_path, people):
    """Messages made for 1,000 people: printed, charged, and as the tally has it."""
    (tmp_path / "x.csv").write_text("x\n" + "0\n1\n" * (people // 2))
    planned = sdp.protocols.correlated_count.make(n=1000, epsilon=1.0, delta=1e-6)
    there = planned.with_people(people).guarantee
    assert there.honest == people * 9 // 10
    assert there.delta != planned.guarantee.delta
    words = ("x.csv", "--task", "count", "--protocol", "correlated_count", *COMMON, "--n", 1000)
    budget = ("--ledger", "l.json", "--budget-epsilon", 5, "--budget-delta", 0.01)
    sent = json.loads(
        good(shuffledp("randomize", *words, *budget, "--out", "m.parquet", "--json")).stdout
    )
    assert (sent["epsilon"], sent["delta"]) == (there.epsilon, there.delta)
    (charged,) = sdp.ledger.Ledger("l.json").entries()
    assert charged.guarantee == there
    good(shuffledp("tally", "m.parquet", "--out", "t.json"))
    found = json.loads(good(shuffledp("estimate", "t.json", "--json")).stdout)
    assert (found["epsilon"], found["delta"]) == (there.epsilon, there.delta)


def test_messages_have_no_owner_and_no_order(shuffledp, tmp_path):
    import pyarrow.parquet as pq

    (tmp_path / "x.csv").write_text("x\n" + "0\n" * 2000 + "1\n" * 2000)
    words = ("x.csv", "--task", "count", "--model", "local", "--epsilon", 9, "--out", "m.parquet")
    good(shuffledp("randomize", *words))
    table = pq.read_table(tmp_path / "m.parquet")
    assert table.column_names == ["message"]
    sent = table.column(0).to_numpy()
    half = sent[:2000].sum()
    assert 700 < half < 1300, "uniformly mixed, each half has about 1000 of the ones"


def test_sums_and_means(shuffledp, people, survey):
    words = (people, "--task", "mean", "--column", "minutes", "--lower", 0, "--upper", 120, *COMMON)
    good(shuffledp("randomize", *words, "--out", "m.arrow"))
    good(shuffledp("tally", "m.arrow", "--out", "t.json"))
    found = json.loads(good(shuffledp("estimate", "t.json", "--json")).stdout)
    assert found["estimate"][0]["value"] == pytest.approx(survey.minutes.mean(), abs=1.5)


def test_integer_bins_keep_their_names(shuffledp, people, survey):
    words = (people, "--task", "histogram", "--column", "minutes", "--lower", 0, "--upper", 120)
    good(shuffledp("randomize", *words, *COMMON, "--out", "m.parquet"))
    good(shuffledp("tally", "m.parquet", "--out", "t.json"))
    found = json.loads(good(shuffledp("estimate", "t.json", "--json")).stdout)
    truth = np.bincount(survey.minutes, minlength=121)
    row = found["estimate"][30]
    assert row["label"] == "30"
    assert abs(row["value"] - truth[30]) < 60


def test_randomize_tells_what_it_did(shuffledp, people):
    words = ("randomize", people, "--task", "count", "--column", "home", *COMMON, "--out")
    found = json.loads(good(shuffledp(*words, "m.parquet", "--json")).stdout)
    assert (found["n"], found["rows"], found["task"]) == (3000, 3000, "count")
    assert found["messages"] >= 1
    result = good(shuffledp(*words, "m2.parquet", "--seed", 1))
    assert "protects nobody" in result.stderr
    assert "3,000 people" in result.stdout


def test_estimate_draws_and_explains(shuffledp, people, tmp_path):
    data = (people, "--column", "way", "--categories", WAYS, *COMMON)
    good(shuffledp("randomize", *data, "--out", "m.parquet"))
    good(shuffledp("tally", "m.parquet", "--out", "t.json"))
    result = good(
        shuffledp("estimate", "t.json", "--explain", "--plot", "p.svg", "--out", "r.json")
    )
    assert "The promise." in result.stdout
    assert "<svg" in (tmp_path / "p.svg").read_text()
    assert json.loads((tmp_path / "r.json").read_text())["n"] == 3000


class TestBadInput:
    def refused(self, result):
        assert result.exit_code == 2, result.output
        assert result.stderr.startswith("error: ")
        return result.stderr

    def test_what_the_messages_are_for(self, shuffledp, people):
        words = ("randomize", people, "--column", "home", *COMMON, "--out", "m.parquet")
        assert "--task" in self.refused(shuffledp(*words))

    def test_text_files_cannot_hold_messages(self, shuffledp, people, tmp_path):
        words = (
            "randomize",
            people,
            "--task",
            "count",
            "--column",
            "home",
            *COMMON,
            "--out",
            "m.csv",
        )
        assert ".parquet" in self.refused(shuffledp(*words))
        assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]

    def test_existing_outputs(self, shuffledp, people, tmp_path):
        words = ("randomize", people, "--task", "count", "--column", "home", *COMMON)
        good(shuffledp(*words, "--out", "m.parquet"))
        assert "exists" in self.refused(shuffledp(*words, "--out", "m.parquet"))
        good(shuffledp(*words, "--out", "m.parquet", "--force"))
        good(shuffledp("tally", "m.parquet", "--out", "t.json"))
        assert "exists" in self.refused(shuffledp("tally", "m.parquet", "--out", "t.json"))
        good(shuffledp("tally", "m.parquet", "--out", "t.json", "--force"))

    def test_other_files(self, shuffledp, people, tmp_path):
        assert "people.csv" in self.refused(shuffledp("tally", people, "--out", "t.json"))
        (tmp_path / "t.json").write_text('{"kind": "something"}')
        assert "not a tally" in self.refused(shuffledp("estimate", "t.json"))
        self.refused(shuffledp("estimate", "nowhere.json"))
        self.refused(shuffledp("tally", "nowhere.parquet", "--out", "t2.json"))

    def test_different_protocols_do_not_add(self, shuffledp, people):
        for name, epsilon in (("a", 1), ("b", 2)):
            words = ("--task", "count", "--column", "home", "--epsilon", epsilon, "--delta", 1e-6)
            good(shuffledp("randomize", people, *words, "--out", f"{name}.parquet"))
            good(shuffledp("tally", f"{name}.parquet", "--out", f"{name}.json"))
        assert "do not add" in self.refused(shuffledp("estimate", "a.json", "b.json"))
        self.refused(shuffledp("tally", "a.parquet", "b.parquet", "--out", "c.json"))

    def test_the_same_tally_twice(self, shuffledp, people):
        words = ("--task", "count", "--column", "home", *COMMON, "--out", "m.parquet")
        good(shuffledp("randomize", people, *words))
        good(shuffledp("tally", "m.parquet", "--out", "t.json"))
        assert "twice" in self.refused(shuffledp("estimate", "t.json", "./t.json"))


def test_python_reads_what_the_command_wrote(shuffledp, people):
    from shuffledp.engine.tallies import read_tally

    words = ("--task", "count", "--column", "home", *COMMON, "--out", "m.parquet")
    good(shuffledp("randomize", people, *words))
    good(shuffledp("tally", "m.parquet", "--out", "t.json"))
    collected = read_tally("t.json")
    assert collected.protocol == sdp.count(n=3000, epsilon=1.0, delta=1e-6)


def test_the_messages_of_a_file_state_the_guarantee_of_its_people(shuffledp, people):
    """They may be seen before those of other files join them."""
    words = ("randomize", people, "--task", "count", "--column", "home", "--epsilon", 1)
    words += ("--delta", 1e-6, "--protocol", "zsum_sparse", "--json")
    alone = json.loads(good(shuffledp(*words, "--out", "alone.parquet")).stdout)
    made_for_more = json.loads(good(shuffledp(*words, "--n", 3200, "--out", "more.parquet")).stdout)
    assert alone["delta"] <= 1e-6 < made_for_more["delta"]


def test_two_places_have_the_guarantee_of_one(shuffledp, people):
    words = ("randomize", people, "--task", "count", "--column", "home", "--protocol", "rr")
    for name in "ab":
        good(shuffledp(*words, *COMMON, "--out", f"{name}.parquet"))
        good(shuffledp("tally", f"{name}.parquet", "--out", f"{name}.json"))
    one = json.loads(good(shuffledp("estimate", "a.json", "--json")).stdout)
    two = json.loads(good(shuffledp("estimate", "a.json", "b.json", "--json")).stdout)
    assert (two["epsilon"], two["delta"]) == (one["epsilon"], one["delta"])
    assert two["guarantee_of_sum"]["epsilon"] < 0.7 * one["epsilon"]
    shown = good(shuffledp("estimate", "a.json", "b.json")).stdout
    stated = [line for line in shown.splitlines() if "epsilon = " in line]
    assert stated[0].startswith("rr: epsilon = ")
    assert stated[1].startswith("For readers of nothing but the sum: epsilon = ")
    assert len(stated) == 2
    fewer = json.loads(good(shuffledp("estimate", "a.json", "--honest", 0.5, "--json")).stdout)
    assert fewer["epsilon"] > one["epsilon"]


def test_local_tallies_count_on_nobody(shuffledp, people):
    words = ("--task", "count", "--column", "home", "--epsilon", 1, "--model", "local")
    good(shuffledp("randomize", people, *words, "--out", "m.parquet"))
    good(shuffledp("tally", "m.parquet", "--out", "t.json"))
    result = shuffledp("estimate", "t.json", "--honest", 0.5)
    assert result.exit_code == 2
    assert "--honest" in result.stderr
