"""The list of mutants fits the code, and the runner tells the living from the dead."""

import pytest

from mutants import run
from mutants.run import BadListError, Mutant, Outcome


def test_the_list_fits_the_code():
    run.check(run.load_mutants())


def mutant(**changes):
    plain = {"name": "m", "room": "toy", "old": "return 1", "new": "return 2"}
    return Mutant(**(plain | {"tests": ("test_one.py",)} | changes))


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "toy"
    (root / "src/shuffledp").mkdir(parents=True)
    (root / "tests").mkdir()
    (root / "src/shuffledp/__init__.py").write_text("")
    (root / "src/shuffledp/toy.py").write_text(
        "def one():\n    return 1\n\ndef two():\n    return 2\n"
    )
    (root / "tests/test_one.py").write_text(
        "from shuffledp.toy import one\n\ndef test_one():\n    assert one() == 1\n"
    )
    (root / "tests/test_red.py").write_text("def test_red():\n    assert False\n")
    return root


def test_killed_and_survived(tree):
    said = []
    mutants = [mutant(), mutant(name="nobody looks", old="return 2", new="return 3")]
    killed, survived = run.run_mutants(mutants, root=tree, jobs=2, say=said.append)
    assert (killed.outcome, survived.outcome) == (Outcome.KILLED, Outcome.SURVIVED)
    assert "test_one" in killed.detail
    assert len(said) == 2
    text, good = run.summarize([killed, survived])
    assert "1 of 2 mutants killed: 50.0%" in text
    assert "nobody looks" in text
    assert not good
    assert run.summarize([killed])[1]


@pytest.mark.parametrize(
    ("code", "survives", "outcome"),
    [
        (0, "", Outcome.SURVIVED),
        (0, "it is equivalent", Outcome.EXPLAINED),
        (1, "", Outcome.KILLED),
        (1, "it is equivalent", Outcome.BROKEN),
        (None, "", Outcome.KILLED),  # it ran for too long
        (2, "", Outcome.BROKEN),  # it could not even be imported
        (5, "", Outcome.BROKEN),  # there was no test
    ],
)
def test_what_an_exit_code_means(code, survives, outcome):
    ended = run.Run(code=code, output="FAILED tests/test_one.py::test_one - no", seconds=1.0)
    assert run.tell(mutant(survives=survives), ended)[0] is outcome


def test_the_original_comes_back(tree):
    before = (tree / "src/shuffledp/toy.py").read_text()
    with run.plant(mutant(), tree):
        assert "return 1" not in (tree / "src/shuffledp/toy.py").read_text()
    assert (tree / "src/shuffledp/toy.py").read_text() == before


def test_no_two_versions_of_a_file_have_the_same_time(tmp_path):
    path, seconds = tmp_path / "a.py", []
    path.write_text("limit = 3\n")
    seconds.append(int(path.stat().st_mtime))
    for (
        digit
    ) in "45":  # within a second, and equally long: pytest would take what it has compiled before
        with run.swap(path, f"limit = {digit}\n", "limit = 3\n"):
            assert path.read_text() == f"limit = {digit}\n"
            seconds.append(int(path.stat().st_mtime))
        assert path.read_text() == "limit = 3\n"
        seconds.append(int(path.stat().st_mtime))
    assert len(set(seconds)) == 5


@pytest.mark.slow
def test_tests_that_fail_anyway_prove_nothing(tree):
    red = mutant(tests=("test_red.py",))
    (verdict,) = run.run_mutants([red], root=tree, jobs=1, say=str)
    assert verdict.outcome is Outcome.BROKEN
    assert "fail without it: tests/test_red.py" in verdict.detail


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"old": "return 7"}, "occurs 0 times"),
        ({"old": "return"}, "occurs 2 times"),
        ({"new": "return ("}, "is not Python"),
        ({"tests": ("test_none.py",)}, "there must be one test_none.py"),
        ({"file": "other.py"}, "occurs 0 times"),
    ],
)
def test_a_mutant_that_does_not_fit_is_an_error(tree, changes, why):
    with pytest.raises(BadListError, match=why):
        run.check([mutant(**changes)], tree)


@pytest.mark.slow
def test_one_that_does_not_fit_is_broken_and_the_others_are_run(tree):
    mutants = [mutant(name="lost", old="return 7"), mutant()]
    lost, killed = run.run_mutants(mutants, root=tree, jobs=1, say=str)
    assert (lost.outcome, killed.outcome) == (Outcome.BROKEN, Outcome.KILLED)
    assert "occurs 0 times" in lost.detail
    text, good = run.summarize([lost, killed], 90.0)
    assert "1 broken; 1.5 minutes" in text
    assert not good


@pytest.mark.slow
def test_only_some_of_the_tests_are_run(tree):
    found = run.run_mutants([mutant(only="red")], root=tree, jobs=1, say=str)
    assert found[0].outcome is Outcome.BROKEN  # no test is called so
    with (tree / "tests/test_one.py").open("a") as file:
        file.write("\n\ndef test_slow():\n    raise AssertionError\n")
    (verdict,) = run.run_mutants([mutant(only="not slow")], root=tree, jobs=1, say=str)
    assert verdict.outcome is Outcome.KILLED


@pytest.mark.slow
def test_tests_that_do_not_end_kill_only_if_they_end_without_the_mutant(tree, monkeypatch):
    monkeypatch.setattr(run, "_LIMIT", 20.0)
    monkeypatch.setattr(run, "_PATIENCE", 1)
    endless = mutant(new="while True:\n        pass")
    (verdict,) = run.run_mutants([endless], root=tree, jobs=1, say=str)
    assert (verdict.outcome, verdict.detail) == (
        Outcome.KILLED,
        "ran far longer than without the mutant",
    )


def test_a_run_goes_on_where_the_last_one_ended(tree, tmp_path):
    record = run.Record(path=tmp_path / "record.tsv")
    mutants = [mutant(), mutant(name="nobody looks", old="return 2", new="return 3")]

    def known():
        found = run.run_mutants(mutants, root=tree, jobs=1, say=str, record=record)
        assert [each.outcome for each in found] == [Outcome.KILLED, Outcome.SURVIVED]
        return [each.known for each in found]

    assert known() == [False, False]
    with record.path.open("a") as file:
        file.write("half a li")  # the power went off
    assert known() == [True, False]  # what was not killed is tried again
    before = run.make_key(mutants[0], tree)
    with (tree / "tests/test_one.py").open("a") as file:
        file.write("\n\ndef test_more():\n    pass\n")
    assert run.make_key(mutants[0], tree) != before  # with other tests, too


@pytest.mark.slow
def test_tests_that_fail_anyway_are_told_from_those_that_kill(tree):
    tests = [f"tests/test_{name}.py::test_{name}" for name in ("one", "red")]
    assert run.find_bad(tests, tree) == {tests[1]}
    assert run.find_bad([tests[0], "tests/test_one.py::test_gone"], tree) == {
        "tests/test_one.py::test_gone"
    }


@pytest.mark.parametrize(
    "text",
    [
        '[[mutant]]\nname = "a"\nold = "x"\nnew = "y"\n',
        '[[mutant]]\nname = "a"\nold = "x"\nnew = "x"\ntests = ["t"]\n',
        '[[mutant]]\nname = "a"\nold = "x"\nnew = "y"\ntests = []\n',
        '[[mutant]]\nname = "a"\nold = "x"\nnew = "y"\ntests = ["t"]\nline = 3\n',
        '[[mutant]]\nname = "a"\nold = "x"\nnew = "y"\ntests = ["t"]\n' * 2,
    ],
)
def test_a_malformed_list_is_an_error(tmp_path, text):
    (tmp_path / "toy.toml").write_text(text)
    with pytest.raises(BadListError):
        run.load_mutants(tmp_path)
