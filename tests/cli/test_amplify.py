"""`shuffledp amplify` and `shuffledp calibrate`, as a user types them."""

import json

import pytest
from typer.testing import CliRunner

import shuffledp as sdp
from shuffledp.accounting.closed_forms import CLOSED_FORMS, Covers
from shuffledp.cli import app
from shuffledp.protocols.gaussian import GaussianNoise
from shuffledp.protocols.levels import Levels

ASKED = ("amplify", "--epsilon0", 1, "--n", "1e4", "--delta", "1e-6", "--honest", 1)
FIELDS = {
    "epsilon", "delta", "lower", "method", "proof", "epsilon0", "delta0", "n", "honest", "rounds",
    "randomizer", "parameters", "model", "neighbours", "check_in", "sigma",
}  # fmt: skip


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("NO_COLOR", "1")
    return lambda *arguments: CliRunner().invoke(app, [str(word) for word in arguments])


@pytest.fixture
def answer(run):
    """The JSON object, which must be all of standard output."""

    def asked(*arguments):
        result = run(*arguments, "--json")
        assert result.exit_code == 0, result.output
        assert result.stderr == ""
        assert len(result.stdout.splitlines()) == 1
        return json.loads(result.stdout)

    return asked


class TestAmplify:
    def test_prints_the_guarantee_and_the_lower_bound(self, run):
        result = run(*ASKED)
        assert result.exit_code == 0
        *first, second = result.stdout.splitlines()
        assert " ".join(first) == str(sdp.amplify(epsilon0=1.0, n=10_000, delta=1e-6, honest=1))
        said, shown = second.removesuffix(".").rsplit(" = ", 1)
        assert said == "No analysis of an unknown randomizer can give less than epsilon"
        lower = sdp.amplify_lower(epsilon0=1.0, n=10_000, delta=1e-6, honest=1)
        assert lower * (1 - 1e-5) <= float(shown) <= lower

    def test_gaussian_noise_is_told_by_its_sigma(self, answer, run):
        crowd = ("--n", 100, "--delta", "1e-4", "--honest", 1)
        found = answer("amplify", "--sigma", 1, *crowd)
        grid = sdp.Reals(lower=0, upper=1, steps=8)
        device = GaussianNoise(domain=grid, sigma=1.0)
        stated = sdp.amplify(randomizer=device, n=100, delta=1e-4, honest=1)
        assert (found["epsilon"], found["method"]) == (stated.epsilon, "blanket")
        assert (found["sigma"], found["epsilon0"]) == (1.0, device.epsilon0)
        for wrong in ((), ("--sigma", 2, "--epsilon0", 1)):
            result = run("amplify", *wrong, *crowd)
            assert result.exit_code == 2
            assert "give either --epsilon0 or --sigma" in result.stderr
        result = run("amplify", "--sigma", 2, "--randomizer", "rr", *crowd)
        assert "leave out --randomizer" in result.stderr

    def test_levels_are_those_of_the_library(self, answer, run):
        words = ("amplify", "--levels", "0.5:20,2:5e1", "--k", 4, "--delta", "1e-4")
        found = answer(*words)
        crowd = Levels(k=4, people={0.5: 18, 2.0: 45})
        told = {row["epsilon0"]: (row["hidden"], row["visible"]) for row in found["levels"]}
        hidden, visible = crowd.hide(1e-4), crowd.show(1e-4)
        assert told == {
            level: (hidden[level].epsilon, visible[level].epsilon) for level in (0.5, 2.0)
        }
        assert "epsilon0 = 0.5, 20 people: epsilon = " in run(*words).stdout
        for wrong, said in (
            (("--levels", "0.5", "--k", 4), "levels="),
            (("--levels", "0.5:200"), "--levels needs --k"),
            (("--levels", "0.5:200", "--k", 4, "--n", 3), "--delta and --honest alone"),
            (("--epsilon0", 1), "n must be given"),
            (("--levels", "0.5:200", "--k", 4, "--honest", 2), "honest="),
        ):
            result = run("amplify", *wrong, "--delta", "1e-4")
            assert result.exit_code != 0
            assert said in result.stderr

    def test_json_is_the_answer_of_the_library(self, answer):
        found = answer(*ASKED)
        assert set(found) == FIELDS
        guarantee = sdp.amplify(epsilon0=1.0, n=10_000, delta=1e-6, honest=1)
        assert found["epsilon"] == guarantee.epsilon
        assert found["proof"] == guarantee.proof
        assert found["lower"] == sdp.amplify_lower(epsilon0=1.0, n=10_000, delta=1e-6, honest=1)
        assert (found["delta"], found["n"], found["honest"]) == (1e-6, 10_000, 10_000)
        assert (found["method"], found["rounds"]) == ("clones 2023", 1)
        assert (found["randomizer"], found["parameters"]) == (None, {})

    def test_a_randomizer_with_its_parameters(self, answer):
        found = answer(*ASKED, "--randomizer", "krr", "--k", 16)
        krr = sdp.protocols.krr.KRR(k=16, epsilon0=1.0)
        assert (
            found["epsilon"] == sdp.amplify(randomizer=krr, n=10_000, delta=1e-6, honest=1).epsilon
        )
        assert (found["method"], found["randomizer"]) == ("blanket", "krr")
        assert found["parameters"] == {"k": 16}

    def test_a_randomizer_for_means(self, answer):
        found = answer(
            *ASKED, "--randomizer", "piecewise", "--lower", 0, "--upper", 120, "--steps", 60
        )
        assert found["parameters"] == {"lower": 0, "upper": 120, "steps": 60}
        assert found["lower"] <= found["epsilon"] < 0.0433

    def test_no_lower_bound_is_null(self, answer):
        assert answer(*ASKED, "--randomizer", "local_hashing", "--k", 100)["lower"] is None

    def test_honest(self, answer):
        found = answer(*ASKED, "--honest", 0.5)
        assert found["honest"] == 5_000
        assert found["epsilon"] == sdp.amplify(epsilon0=1.0, n=5_000, delta=1e-6, honest=1).epsilon

    def test_rounds(self, answer):
        found = answer(*ASKED, "--rounds", 10)
        assert found["epsilon"] == pytest.approx(0.1485, rel=1e-3)
        assert found["lower"] is None
        assert found["method"] == "composition"
        assert found["proof"].startswith("10 rounds composed")

    def test_delta_0_is_the_local_guarantee(self, answer):
        found = answer("amplify", "--epsilon0", 1, "--n", 100, "--delta", 0)
        assert (found["epsilon"], found["lower"], found["method"]) == (1.0, None, "local")

    def test_a_bound_by_name(self, answer):
        found = answer(*ASKED, "--bound", "clones 2021")
        assert found["method"] == "clones 2021"
        assert found["epsilon"] == pytest.approx(0.05301, rel=1e-3)

    def test_levels_say_whose_honesty_they_count_on(self, run):
        words = ("amplify", "--levels", "0.5:20,2:5e1", "--k", 4, "--delta", "1e-4")
        said = " ".join(run(*words, "--honest", 0.9).stdout.split())
        assert "if 90 % of the people of each level are honest, 63 in all" in said

    @pytest.mark.parametrize("n", ["10000", "1e4", "10_000", "1E4", "0.1e5", "10000.0"])
    def test_ways_to_write_n(self, answer, n):
        assert answer("amplify", "--epsilon0", 1, "--n", n, "--delta", "1e-6")["n"] == 10_000

    def test_plot(self, run, tmp_path):
        result = run(*ASKED, "--plot", tmp_path / "curve.png")
        assert result.exit_code == 0
        assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
        assert "curve.png" in result.stdout

    def test_a_picture_that_exists_is_replaced_only_by_force(self, run, tmp_path):
        picture = tmp_path / "curve.png"
        picture.write_bytes(b"precious")
        result = run(*ASKED, "--plot", "curve.png")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "curve.png exists" in result.stderr
        assert picture.read_bytes() == b"precious"
        assert run(*ASKED, "--plot", "curve.png", "--force").exit_code == 0
        assert picture.read_bytes().startswith(b"\x89PNG")

    def test_every_bound_is_drawn(self, run, tmp_path):
        import matplotlib as mpl

        with mpl.rc_context({"svg.fonttype": "none"}):
            assert run(*ASKED, "--all", "--plot", tmp_path / "all.svg").exit_code == 0
        drawn = (tmp_path / "all.svg").read_text()
        for name in ("balle_2019_bennett", "feldman_2021", "doona", "doona_large", "clones 2021"):
            assert f">{name}<" in drawn, name
        assert ">data sets (lower)<" in drawn

    def test_plot_leaves_json_alone(self, answer, tmp_path):
        assert set(answer(*ASKED, "--plot", tmp_path / "curve.svg")) == FIELDS
        assert (tmp_path / "curve.svg").exists()


class TestApproximate:
    def test_delta0(self, answer):
        found = answer(*ASKED, "--delta0", "1e-9")
        known = sdp.amplify(epsilon0=1.0, delta0=1e-9, n=10_000, delta=1e-6, honest=1)
        assert (found["epsilon"], found["delta0"]) == (known.epsilon, 1e-9)
        assert found["method"] == "approximate clones"
        assert 0 < found["lower"] < found["epsilon"]

    @pytest.mark.parametrize("more", [["--all"], ["--rounds", 2]])
    def test_pure_only(self, run, more):
        result = run(*ASKED, "--delta0", "1e-9", *more)
        assert result.exit_code != 0
        assert "leave out --delta0" in result.output

    def test_calibrate(self, answer):
        asked = ("calibrate", "--epsilon", 0.1, "--n", "1e4", "--delta", "1e-6", "--honest", 1)
        found = answer(*asked, "--delta0", "1e-10")
        assert found["delta0"] == 1e-10
        assert found["epsilon0"] < answer(*asked)["epsilon0"]


class TestCheckIn:
    def test_check_in(self, answer):
        found = answer(*ASKED, "--check-in", 0.1)
        known = sdp.amplify(epsilon0=1.0, n=10_000, delta=1e-6, check_in=0.1, honest=1)
        assert (found["epsilon"], found["check_in"], found["lower"]) == (known.epsilon, 0.1, None)

    def test_of_everybody_only(self, run):
        result = run(*ASKED, "--check-in", 0.1, "--all")
        assert result.exit_code != 0
        assert "leave out --check-in" in result.output


class TestAdaptive:
    def test_adaptive(self, answer):
        found = answer(*ASKED, "--adaptive")
        assert "depend on earlier messages" in found["proof"]
        assert found["epsilon"] == answer(*ASKED)["epsilon"]

    def test_of_unknown_randomizers_only(self, run):
        result = run(*ASKED, "--adaptive", "--randomizer", "rr")
        assert result.exit_code != 0
        assert "goes without randomizer" in result.output


class TestAll:
    def test_every_bound_has_a_line(self, answer):
        found = answer(*ASKED, "--all")
        assert set(found) == FIELDS | {"bounds"}
        names = [line["name"] for line in found["bounds"]]
        assert names == [
            *(form.name for form in CLOSED_FORMS),
            *("clones 2021", "clones 2023", "blanket", "binary", "data sets"),
        ]
        for line in found["bounds"]:
            assert (line["epsilon"] is None) == bool(line["why_not"]), line["name"]

    def test_what_is_no_guarantee_is_marked(self, answer):
        kinds = {line["name"]: line["kind"] for line in answer(*ASKED, "--all")["bounds"]}
        for form in CLOSED_FORMS:
            approximation = form.covers is Covers.APPROXIMATION
            assert kinds[form.name] == ("approximation" if approximation else "upper")
        assert kinds["data sets"] == "lower"

    def test_the_answer_is_the_smallest_guarantee(self, answer):
        found = answer(*ASKED, "--all", "--randomizer", "rr")
        values = {
            kind: [
                line["epsilon"]
                for line in found["bounds"]
                if line["kind"] == kind and line["epsilon"] is not None
            ]
            for kind in ("upper", "lower")
        }
        assert found["epsilon"] == min(values["upper"])
        assert values["lower"] == [found["lower"]]
        assert found["lower"] <= found["epsilon"]

    def test_a_theorem_outside_its_regime_says_why(self, answer):
        lines = {line["name"]: line for line in answer(*ASKED, "--all")["bounds"]}
        assert "epsilon0 < 1/2" in lines["erlingsson_2019"]["why_not"]
        assert "binary randomized response only" in lines["cheu_2019"]["why_not"]
        assert "needs a randomizer" in lines["blanket"]["why_not"]

    def test_closed_forms_count_honest_users_only(self, answer):
        some = answer(*ASKED, "--all", "--honest", 0.5)["bounds"]
        fewer = answer(*ASKED, "--all", "--n", 5000)["bounds"]
        assert some == fewer

    def test_the_table(self, run):
        shown = run(*ASKED, "--all").stdout
        for form in CLOSED_FORMS:
            assert form.name in shown
        assert "0.0432085" in shown
        assert "approximation: not a guarantee" in shown

    def test_no_guarantee_in_the_table_is_below_itself(self, run, answer):
        """Of 20 six-digit numbers, rounded to the nearest, some would be; and some lower bounds above theirs."""
        lines = answer(*ASKED, "--all")["bounds"]
        rows = run(*ASKED, "--all").stdout.replace("│", "|").splitlines()
        looked = 0
        for line in lines:
            cells = [row.split("|") for row in rows if f" {line['name']} " in row]
            if line["epsilon"] is None or not cells:
                continue
            shown, looked = float(cells[0][2]), looked + 1
            assert shown == pytest.approx(line["epsilon"], rel=1e-5)
            if line["kind"] == "lower":
                assert shown <= line["epsilon"]
            else:
                assert shown >= line["epsilon"]
        assert looked >= 8


class TestCalibrate:
    def test_prints_a_safe_epsilon0(self, run):
        result = run("calibrate", "--epsilon", 1, "--n", "1e6", "--delta", "1e-8", "--honest", 1)
        assert result.exit_code == 0
        shown = float(result.stdout.splitlines()[0].removeprefix("epsilon0 = "))
        exact = sdp.calibrate(epsilon=1.0, n=10**6, delta=1e-8, honest=1)
        assert exact * (1 - 1e-5) <= shown <= exact

    def test_json(self, answer):
        found = answer(
            "calibrate", "--epsilon", 0.5, "--n", 1000, "--delta", 1e-6, "--randomizer", "krr",
            "--k", 16, "--honest", 1,
        )  # fmt: skip
        assert found["randomizer"] == "krr"
        assert (found["epsilon"], found["delta"], found["n"]) == (0.5, 1e-6, 1000)
        assert found["method"] == "blanket"
        krr = sdp.protocols.krr.KRR(k=16, epsilon0=found["epsilon0"])
        assert sdp.amplify(randomizer=krr, n=1000, delta=1e-6, honest=1).epsilon <= 0.5

    def test_honest(self, answer):
        found = answer("calibrate", "--epsilon", 1, "--n", 2000, "--delta", 1e-6, "--honest", 0.5)
        assert found["honest"] == 1000
        assert found["epsilon0"] == sdp.calibrate(epsilon=1.0, n=1000, delta=1e-6, honest=1)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (["--n", "1.5"], "n='1.5' must be a whole number such as 1e6"),
        (["--n", "many"], "n='many' must be a whole number such as 1e6"),
        (["--n", "nan"], "n='nan' must be a whole number such as 1e6"),
        (["--n", "1e999999999"], "n='1e999999999' must be a whole number such as 1e6"),
        (["--n", "1e30"], "n='1e30' must be a whole number such as 1e6, of at most 30"),
        (["--plot", "x.bmp"], "x.bmp: a picture ends in one of .pdf, .png, .svg"),
        (["--n", "0"], "n=0 must be >= 1"),
        (["--epsilon0", "-1"], "epsilon0=-1.0 must be > 0"),
        (["--delta", "2"], "delta=2.0 must be >= 0 and < 1"),
        (["--honest", "0"], "honest=0.0 must be > 0 and <= 1"),
        (["--rounds", "0"], "rounds=0 must be >= 1"),
        (["--rounds", "2", "--all"], "--all and --plot are about one round: leave out --rounds"),
        (["--bound", "best"], "bound='best' must be one that applies here"),
        (["--k", "4"], "--k needs --randomizer"),
        (["--randomizer", "krr"], "krr needs --k"),
        (["--randomizer", "duchi", "--upper", "1"], "duchi needs --lower, --steps"),
        (["--randomizer", "rr", "--k", "2"], "rr does not take --k"),
        (["--randomizer", "krr", "--k", "1"], "k=1 must be >= 2"),
        (["--randomizer", "none"], "protocol='none' must be one of correlated_count,"),
    ],
)
def test_errors_are_one_sentence(run, changed, message):
    arguments = dict(zip(ASKED[1::2], ASKED[2::2], strict=True))
    extra = dict.fromkeys(changed[0:1])
    words = [
        word
        for option, value in arguments.items()
        if option not in extra
        for word in (option, value)
    ]
    result = run("amplify", *words, *changed)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"error: {message}")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (["--epsilon", "0"], "epsilon=0.0 must be > 0"),
        (["--epsilon", "1", "--randomizer", "hadamard"], "hadamard needs --k"),
    ],
)
def test_errors_of_calibrate(run, changed, message):
    result = run("calibrate", "--n", "1e4", "--delta", "1e-6", *changed)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {message}")
