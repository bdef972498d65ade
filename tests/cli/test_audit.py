"""`shuffledp audit`: claims confirmed, refuted, and left open."""

import json

import pytest

import shuffledp as sdp

KRR = ("audit", "krr", "--k", "3", "--epsilon0", "1", "--n", "12", "--epsilon", "0.5")


def test_is_the_function_of_python(shuffledp):
    told = json.loads(shuffledp(*KRR, "--json").stdout)
    found = sdp.audit.exact(sdp.protocols.krr.KRR(k=3, epsilon0=1.0), n=12, epsilon=0.5)
    assert {name: told[name] for name in found.to_dict()} == found.to_dict()
    assert told["verdict"] is None


@pytest.mark.parametrize(
    ("delta", "verdict", "code"), [("0.011", "confirmed", 0), ("0.01", "refuted", 1)]
)
def test_verdicts(shuffledp, delta, verdict, code):
    result = shuffledp(*KRR, "--delta", delta)
    assert result.exit_code == code
    assert f"is {verdict}" in result.stdout
    assert json.loads(shuffledp(*KRR, "--delta", delta, "--json").stdout)["verdict"] == verdict


def test_between_the_ends_nothing_is_decided(shuffledp):
    found = sdp.audit.exact(sdp.protocols.krr.KRR(k=3, epsilon0=1.0), n=12, epsilon=0.5)
    result = shuffledp(*KRR, "--delta", repr(found.lower))
    assert found.lower < found.delta
    assert result.exit_code == 0
    assert json.loads(shuffledp(*KRR, "--delta", repr(found.lower), "--json").stdout)[
        "verdict"
    ] == ("undecided")


def test_views(shuffledp):
    local = shuffledp(
        "audit", "krr", "--k", "3", "--epsilon0", "1", "--view", "local", "--epsilon", "1"
    )
    assert "delta = 0 at epsilon = 1" in local.stdout


def test_the_promise_of_a_shuffled_protocol_holds(shuffledp):
    result = shuffledp("audit", "rr", "--n", "40", "--epsilon", "1", "--delta", "1e-3")
    assert result.exit_code == 0, result.output
    assert "is confirmed" in result.stdout


def test_a_table_of_ones_own(shuffledp, tmp_path):
    rows = {"yes": {"red": "3/4", "blue": "1/4"}, "no": {"red": 0.25, "blue": 0.75}}
    (tmp_path / "mine.json").write_text(json.dumps(rows))
    told = json.loads(
        shuffledp("audit", "mine.json", "--n", "10", "--epsilon", "0.5", "--json").stdout
    )
    mine = sdp.audit.channel([["3/4", "1/4"], ["1/4", "3/4"]])
    assert told["delta"] == sdp.audit.exact(mine, n=10, epsilon=0.5).delta


def test_floats_of_a_table_are_the_decimals_that_are_written(shuffledp, tmp_path):
    (tmp_path / "mine.json").write_text("[[0.9, 0.1], [0.1, 0.9]]")
    result = shuffledp("audit", "mine.json", "--n", "3", "--epsilon", "0.5")
    assert result.exit_code == 0, result.output


class TestSamples:
    WORDS = ("audit", "krr", "--k", "4", "--epsilon0", "1.5", "--view", "local", "--samples", "4e4")

    def test_a_false_claim_is_refuted(self, shuffledp):
        result = shuffledp(*self.WORDS, "--epsilon", "1", "--seed", "5")
        assert result.exit_code == 1
        assert "is refuted, with this confidence" in result.stdout

    def test_a_true_one_is_not(self, shuffledp):
        result = shuffledp(*self.WORDS, "--epsilon", "1.5", "--seed", "5")
        assert result.exit_code == 0
        assert "proves nothing" in result.stdout

    def test_is_the_function_of_python(self, shuffledp):
        told = json.loads(shuffledp(*self.WORDS, "--seed", "5", "--json").stdout)
        found = sdp.audit.empirical(
            sdp.protocols.krr.KRR(k=4, epsilon0=1.5), [0], [1], delta=0.0, samples=40_000,
            rng=sdp.SeededWords(5), view="local",
        )  # fmt: skip
        assert told["epsilon"] == found.epsilon
        assert told["counted"]["event"] == found.counted.event

    def test_data_sets_of_ones_own(self, shuffledp):
        words = ("audit", "krr", "--k", "4", "--epsilon0", "3", "--samples", "2000")
        fine = shuffledp(*words, "--data", "3,1", "--neighbour", "3,2")
        assert fine.exit_code == 0, fine.output
        far = shuffledp(*words, "--data", "3,1", "--neighbour", "0,2")
        assert "non-neighbouring" in far.stderr
        alone = shuffledp(*words, "--data", "3,1")
        assert "data and neighbour belong together" in alone.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("krr", "--k", "3", "--epsilon0", "1", "--n", "3"), "epsilon must be given"),
        (("krr", "--k", "3", "--epsilon0", "1", "--epsilon", "1"), "n must be given"),
        (("krr", "--n", "3", "--epsilon", "1"), "give epsilon0 for a local protocol"),
        (("krr", "--epsilon0", "1", "--n", "3", "--epsilon", "1"), "k must be given"),
        (("abacus", "--epsilon0", "1", "--n", "3", "--epsilon", "1"), "abacus"),
        (("nowhere.json", "--n", "3", "--epsilon", "1"), "nowhere.json"),
        (("broken.json", "--n", "3", "--epsilon", "1"), "broken.json is not JSON"),
        (("odd.json", "--n", "3", "--epsilon", "1"), "error:"),
        (("odd.json", "--k", "3", "--n", "3", "--epsilon", "1"), "leave out k"),
        (("krr", "--k", "9", "--epsilon0", "1", "--n", "999", "--epsilon", "1"), "different multisets"),
        (("krr", "--k", "3", "--epsilon0", "1", "--samples", "100"), "n must be given"),
        (("correlated_count", "--n", "20", "--epsilon", "1", "--delta", "0.01"), "Sample instead"),
    ],
)  # fmt: skip
def test_errors_are_a_sentence(shuffledp, tmp_path, words, message):
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "odd.json").write_text('{"yes": 3}')
    result = shuffledp("audit", *words)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert "Traceback" not in result.output
