"""The sample of mutants is uniform and repeatable, meets the tests that cover it, and is counted right."""

import ast
import shutil
from dataclasses import replace

import pytest
from scipy.stats import binom

from mutants import run as listed
from mutants.sampled import choice, places, recording, run, sample
from mutants.sampled.run import Outcome, Verdict
from repository import ROOT
from support import ALPHA

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="no node")


def changes(text, required=frozenset()):
    """Every line that a change of the text leads to."""
    return [
        text[: place.start] + new + text[place.end :]
        for place in places.find_places(text, required)
        for new in place.news
    ]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("a < b <= c", {"a <= b <= c", "a >= b <= c", "a < b < c", "a < b > c"}),
        ("a == (b)", {"a != (b)"}),
        ("a is not b", {"a is b"}),
        ("a not in b", {"a in b"}),
        ("a - b * c", {"a + b * c", "a - b / c"}),
        ("a // b", {"a / b"}),
        ("a << b | c", {"a >> b | c", "a << b & c"}),
        ("a and (b or c)", {"a or (b or c)", "a and (b and c)"}),
        ("not a", {"a"}),
        ("-a", {"a"}),
        ("x = 3", {"x = 4", "x = 2"}),
        ("x = 0.5", {"x = 1.5", "x = -0.5"}),
        ("x = True", {"x = False"}),
        ("x = min(a)", {"x = max(a)"}),
        ("x = np.floor(a)", {"x = np.ceil(a)"}),
        ("x = f(a, b=c)", {"x = f(a)"}),
        ("x = f(b=c, d=e)", {"x = f(d=e)", "x = f(b=c)"}),
        ("x = a if b else c", {"x = a if True else c", "x = a if False else c"}),
        ("x = [a for a in b if a]", {"x = [a for a in b if True]", "x = [a for a in b if False]"}),
        ("f(a)", {"pass"}),
        ("raise a", {"pass"}),
        ("a.b = c", {"pass"}),
        ("a[b] = c", {"pass"}),
        ("a += b", {"pass", "a -= b"}),
        ("x = 'é' + a", {"x = 'é' - a"}),
    ],
)
def test_a_line_is_changed_in_these_ways_and_no_other(line, wanted):
    assert set(changes(line + "\n")) == {each + "\n" for each in wanted}


def test_statements_that_need_a_block():
    text = "def f(a):\n    while a:\n        break\n    return a\n"
    assert set(changes(text)) == {
        text.replace("while a", "while False"),
        text.replace("break", "continue"),
        text.replace("return a", "return None"),
    }


@pytest.mark.parametrize(
    "text",
    [
        '"""A number: 3."""',
        "from a import b",
        "x: Literal[3] = a",
        "Number = int | None",
        "@f(3)\nclass A:\n    pass",
        "x = f'{a + 1}'",
        "__all__ = [a + b]",
        "if TYPE_CHECKING:\n    x = 3",
        "if __name__ == '__main__':\n    f(3)",
        "class A(Protocol):\n    x = 3",
        "def f(a: int | None) -> int | None:\n    return None",
        "x = 'text'",
        "x = zip(a, b, strict=True)",
    ],
)
def test_what_is_left_alone(text):
    assert changes(text + "\n") == []


def test_arguments_that_no_call_can_do_without_are_not_left_out():
    assert changes("x = f(b=c, d=e)\n", frozenset({"b"})) == ["x = f(b=c)\n"]
    texts = ["class A:\n    b: int\n    c: int = 3\n", "def f(d, *, e, g=1): ...\ndef h(g): ..."]
    assert places.find_required(iter(texts)) == {"b", "d", "e"}


@pytest.mark.slow
def test_every_change_of_a_real_file_is_another_program():
    text = (ROOT / "src/shuffledp/core/domain.py").read_text()
    before, found = ast.dump(ast.parse(text)), changes(text)
    assert len(found) > 30
    assert all(ast.dump(ast.parse(each)) != before for each in found)


@needs_node
def test_places_of_javascript(tmp_path):
    folder = tmp_path / "clients/js/src"
    folder.mkdir(parents=True)
    text = "export function f(a) {\n  if (a >= 2n) throw new Error(`${a + 1}`);\n  return Math.min(a, 1) && !a;\n}\n"
    (folder / "toy.js").write_text(text)
    ((_, found),) = sample.read_places(tmp_path).values()
    got = {(each.line, each.old, each.news) for each in found}
    assert got == {
        (2, "a >= 2n", ("true", "false")),
        (2, ">=", (">", "<")),
        (2, "2n", ("3n", "1n")),
        (2, "throw new Error(`${a + 1}`);", (";",)),
        (2, "+", ("-",)),
        (2, "1", ("2", "0")),
        (3, "Math.min(a, 1) && !a", ("undefined",)),
        (3, "min", ("max",)),
        (3, "1", ("2", "0")),
        (3, "&&", ("||",)),
        (3, "!", ("",)),
    }


TOY = {"src/shuffledp/core/toy.py": "".join(f"x = {number}\n" for number in range(10, 30))}


def places_of(texts):
    return {file: (text, places.find_places(text)) for file, text in texts.items()}


def test_a_sample_is_the_same_for_the_same_seed_and_grows():
    found = places_of(TOY)
    draw = [sample.draw_sample(found, ["core"], 8, "a") for _ in range(2)]
    assert draw[0] == draw[1]
    assert sample.draw_sample(found, ["core"], 20, "a")[:8] == draw[0]
    assert sample.draw_sample(found, ["core"], 8, "b") != draw[0]
    other = {"src/shuffledp/ledger/toy.py": "y = 3\n"}
    assert sample.draw_sample(places_of(TOY | other), ["core"], 8, "a") == draw[0]
    with pytest.raises(sample.SampleError, match="n=21 must be at most 20"):
        sample.draw_sample(found, ["core"], 21, "a")


def test_every_place_and_every_change_is_as_likely_as_another():
    found, seeds = places_of(TOY), 1500
    drawn = [sample.draw_sample(found, ["core"], 5, str(seed)) for seed in range(seeds)]
    assert all(len({each.place.line for each in mutants}) == 5 for mutants in drawn)
    lines = [each.place.line for mutants in drawn for each in mutants]
    for line in range(1, 21):
        times = lines.count(line)
        assert ALPHA / 2 < binom.cdf(times, seeds, 1 / 4) < 1 - ALPHA / 2
    larger = sum(each.new > each.place.old for mutants in drawn for each in mutants)
    assert ALPHA / 2 < binom.cdf(larger, len(lines), 1 / 2) < 1 - ALPHA / 2


def test_lines_that_say_the_same_are_different_places():
    found = places_of({"src/shuffledp/core/toy.py": "x = 3\nx = 3\n"})
    drawn = sample.draw_sample(found, ["core"], 2, "a")
    assert {each.place.line for each in drawn} == {1, 2}


def test_rooms_and_groups():
    paths = [*(ROOT / "src/shuffledp").rglob("*.py"), *(ROOT / "clients/js/src").glob("*.js")]
    rooms = {sample.room_of(path.relative_to(ROOT).as_posix()) for path in paths}
    assert set(sample.FOUNDATION + sample.SERVICE) <= rooms
    groups = [set(sample.choose_rooms(name, rooms)) for name in ("foundation", "service", "around")]
    assert set.union(*groups) == set(sample.choose_rooms("all", rooms)) == rooms
    assert sum(map(len, groups)) == len(rooms)
    with pytest.raises(sample.SampleError, match="rooms='cellar' must be one of"):
        sample.choose_rooms("cellar", rooms)


TEXT = """LIMIT = 3


def f(a, b=2):
    c = a + b

    return c < LIMIT
"""


@pytest.mark.parametrize(
    ("line", "near"),
    [(5, [{5}, {5}]), (1, [{1, 7}]), (4, [{4, 5, 6, 7}])],
)
def test_lines_that_no_test_runs_are_stood_for_by_others(line, near):
    assert choice.find_lines(TEXT, line)[0] == near


TOY_TREE = {
    "pyproject.toml": "[tool.pytest.ini_options]\nmarkers = ['slow']\n",
    "src/shuffledp/__init__.py": "",
    "src/shuffledp/core/__init__.py": "",
    "src/shuffledp/core/toy.py": """LIMIT = 3


def strong(a):
    return a < LIMIT


def weak(a):
    return a + 5


def idle(a):
    return a + 7
""",
    "tests/core/test_toy.py": """import pytest
from shuffledp.core.toy import strong, weak

@pytest.mark.parametrize("a", [2, 3])
def test_strong(a):
    assert strong(a) == (a == 2)

def test_weak():
    assert weak(1) > 0
""",
    "tests/core/test_red.py": """from shuffledp.core.toy import weak

def test_red():
    assert weak(1) == 0
""",
}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    root = tmp_path_factory.mktemp("toy")
    for name, text in TOY_TREE.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    recording.record(root, recording.list_test_files(root), 0)
    return root


def mutant(text, old, new):
    found = [place for place in places.find_places(text) if place.old == old and new in place.news]
    return sample.Mutant(file="src/shuffledp/core/toy.py", text=text, place=found[-1], new=new)


def test_a_recording_knows_who_runs_a_line_and_finds_it_when_it_has_moved(toy):
    recorded = recording.Recorded.load(toy)
    file = "src/shuffledp/core/toy.py"
    strong = {f"tests/core/test_toy.py::test_strong[{a}]" for a in (2, 3)}
    assert recorded.covering(file, [5]) == strong
    assert recorded.covering(file, [9]) == {
        "tests/core/test_toy.py::test_weak",
        "tests/core/test_red.py::test_red",
    }
    assert recorded.covering(file, [1]) == recorded.covering(file, [13]) == set()
    path, before = toy / file, TOY_TREE[file]
    try:
        path.write_text("# A word of explanation.\n" + before)
        assert recorded.covering(file, [6]) == strong
        assert recorded.covering(file, [1]) == set()
        path.rename(path.with_name("moved.py"))  # a file that has moved is found, too
        moved = "src/shuffledp/core/moved.py"
        assert recorded.covering(moved, [6]) == strong
        (toy / moved).write_text("nothing = 'of the kind'\n")
        assert recorded.covering(moved, [1]) == set()
        (toy / moved).unlink()
    finally:
        path.write_text(before)
    files = recording.list_test_files(toy)
    assert recorded.stale(files) == []
    assert recorded.stale([*files, "tests/core/test_new.py"]) == ["tests/core/test_new.py"]


@pytest.mark.slow
def test_a_weak_test_leaves_a_survivor_and_a_strong_one_does_not(toy):
    text = TOY_TREE["src/shuffledp/core/toy.py"]
    mutants = [
        mutant(text, "<", "<="),
        mutant(text, "5", "4"),  # the red test fails anyway, and says nothing
        mutant(text, "7", "8"),
        mutant(text, "3", "4"),  # no test runs the line: it is the tests of LIMIT
        mutant(text, "a + 5", "None"),
    ]
    said = []
    judge = run.Judge(recorded=recording.Recorded.load(toy))
    kept = run.Kept(path=toy / "killed.tsv", root=toy)
    found = run.run_sample(mutants, judge=judge, jobs=1, say=said.append, kept=kept)
    assert [each.outcome for each in found] == [
        Outcome.KILLED,
        Outcome.SURVIVED,
        Outcome.SURVIVED,
        Outcome.KILLED,
        Outcome.KILLED,
    ]
    assert found[0].culprit == "tests/core/test_toy.py::test_strong[3]"
    assert found[2].detail.endswith("0 cover the line")
    assert found[4].culprit == "tests/core/test_toy.py::test_weak"
    assert len(said) == 5
    assert (toy / "src/shuffledp/core/toy.py").read_text() == text  # never the tree itself
    assert [kept.recall(each) is not None for each in mutants] == [True, False, False, True, True]
    text, good = run.summarize(found, 0.5)
    assert "3    60.0%  14.7% to 94.7%" in text
    assert "- return a + 7\n    + return a + 8\n" in text
    assert good
    assert not run.summarize(found, 0.61)[1]


@pytest.mark.slow
def test_a_mutant_that_does_not_end_or_cannot_be_imported_is_killed(toy, monkeypatch):
    monkeypatch.setattr(run, "_START", 30.0)
    text = TOY_TREE["src/shuffledp/core/toy.py"]
    kinds = {"LIMIT = 3": "LIMIT = 1 // 0", "return a < LIMIT": "while True: pass"}
    mutants = []
    for old, new in kinds.items():
        start = text.index(old)
        place = places.Place(
            line=1 + text[:start].count("\n"),
            start=start,
            end=start + len(old),
            old=old,
            news=(new,),
            operator="toy",
        )
        mutants.append(
            sample.Mutant(file="src/shuffledp/core/toy.py", text=text, place=place, new=new)
        )
    judge = run.Judge(recorded=recording.Recorded.load(toy))
    found = run.run_sample(mutants, judge=judge, jobs=1, say=str)
    assert [each.outcome for each in found] == [Outcome.KILLED] * 2
    assert "ran far longer" in found[1].detail


def test_a_test_that_fails_anyway_and_cannot_be_left_out_kills_nothing(monkeypatch, tmp_path):
    scripts = choice.Choice(batches=[["a.test.js"]], seconds=[1.0], covering=1)
    monkeypatch.setattr(run.Judge, "choose", lambda *_: scripts)
    monkeypatch.setattr(run.Judge, "find_bad", lambda _, tests, __: set(tests))
    red = run.listed.Run(code=1, output="FAILED a.test.js::red\n", seconds=0.1)
    monkeypatch.setattr(run.listed, "run_tests", lambda *_: red)
    toy = mutant(TOY_TREE["src/shuffledp/core/toy.py"], "<", "<=")
    path = tmp_path / toy.file
    path.parent.mkdir(parents=True)
    path.write_text(toy.text)
    judge = run.Judge(recorded=recording.Recorded(root=tmp_path, recordings=[]))
    (found,) = judge.confirm([judge.judge(toy, tmp_path)], tmp_path)
    assert (found.outcome, found.culprit) == (Outcome.SURVIVED, "")
    assert found.detail == "a.test.js::red fails anyway"


def test_tests_are_run_up_to_the_limit_the_nearest_and_fastest_first():
    seconds = {
        "tests/core/test_toy.py::test_a[1]": 2.0,
        "tests/core/test_toy.py::test_a[2]": 1.0,
        "tests/core/test_far.py::test_b": 0.5,
        "tests/engine/test_c.py::test_c": 0.1,
        "tests/engine/test_c.py::test_d": 50.0,
    }

    class Fixed:
        root = ROOT / "nowhere"
        files = frozenset({"src/shuffledp/core/toy.py"})

        def seconds(self, test):
            return seconds[test]

        def covering(self, file, lines):
            return set(seconds)

    text = TOY_TREE["src/shuffledp/core/toy.py"]
    order = choice.sort_tests("src/shuffledp/core/toy.py", seconds, Fixed())
    assert [test.partition("::")[2] for test in order] == [
        "test_a[2]",
        "test_b",
        "test_a[1]",
        "test_c",
        "test_d",
    ]
    chosen = choice.choose_tests(mutant(text, "<", "<="), Fixed(), 10.0)
    assert [len(batch) for batch in chosen.batches] == [3, 1]
    assert chosen.seconds == pytest.approx([3.5, 0.1])
    assert chosen.covering == 5


def test_files_that_were_not_recorded_are_chosen_by_name(tmp_path):
    texts = {"test_toy.py": "", "test_x.py": "from core import toy", "test_y.py": "toys = 1"}
    for name, text in texts.items():
        (tmp_path / "tests/core").mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests/core" / name).write_text(text)
    recorded = recording.Recorded(root=tmp_path, recordings=[])
    named, others = choice.find_by_name("src/shuffledp/core/toy.py", recorded)
    assert named == {"src/shuffledp/core/toy.py", "tests/core/test_toy.py", "tests/core/test_x.py"}
    assert others == {"tests/core/test_y.py"}


def verdicts(killed, survived, explained):
    text = TOY_TREE["src/shuffledp/core/toy.py"]
    one = Verdict(mutant=mutant(text, "<", "<="), outcome=Outcome.KILLED, detail="")
    return (
        [one] * killed
        + [replace(one, outcome=Outcome.SURVIVED)] * survived
        + [replace(one, outcome=Outcome.EXPLAINED)] * explained
    )


def test_the_share_is_of_those_that_are_not_left_out():
    text, good = run.summarize(verdicts(128, 7, 15), 0.94)
    assert "core               150        15     128    94.8%  89.6% to 97.9%" in text
    assert "128 of 135 killed, at least 94% wanted" in text
    assert good
    text, good = run.summarize(verdicts(8, 0, 2))
    assert "more than 15% of the sample are left out" in text
    assert not good


@pytest.mark.parametrize(("killed", "n"), [(0, 10), (10, 10), (140, 150), (1, 2)])
def test_the_interval_is_that_of_exact_tails(killed, n):
    low, high = run.interval(killed, n)
    if killed:
        assert binom.sf(killed - 1, n, low) == pytest.approx(0.025)
    else:
        assert low == 0
    if killed < n:
        assert binom.cdf(killed, n, high) == pytest.approx(0.025)
    else:
        assert high == 1


ENTRY = '[[mutant]]\nfile = "toy.py"\nold = "a < b"\nnew = "a <= b"\nkind = "tuning"\nreason = "speed"\n'


@pytest.mark.parametrize(
    "text",
    [
        ENTRY.replace("tuning", "boring"),
        ENTRY.replace('"speed"', '" "'),
        ENTRY.replace("a <= b", "a < b"),
        ENTRY + "line = 3\n",
        ENTRY * 2,
    ],
)
def test_a_malformed_explanation_is_an_error(tmp_path, text):
    path = tmp_path / "explained.toml"
    path.write_text(text)
    with pytest.raises(sample.SampleError):
        sample.load_explained(tmp_path)


def test_lines_that_are_explained_are_those_of_the_sources():
    """An explanation of a line that has changed explains nothing any more: change or remove it."""
    sources = {
        f"/{path.relative_to(ROOT).as_posix()}": [
            line.strip() for line in path.read_text(encoding="utf-8").splitlines()
        ]
        for folder, ending in (("src/shuffledp", "py"), ("clients/js/src", "js"))
        for path in (ROOT / folder).rglob(f"*.{ending}")
    }

    def stands(each):
        wanted = [line.strip() for line in each.old.strip().splitlines()]
        return any(
            lines[start : start + len(wanted)] == wanted
            for name, lines in sources.items()
            if name.endswith(f"/{each.file}")
            for start, line in enumerate(lines)
            if line == wanted[0]
        )

    stale = [(each.file, each.old) for each in sample.load_explained() if not stands(each)]
    assert stale == []


def test_an_explanation_fits_the_change_and_no_other():
    text = TOY_TREE["src/shuffledp/core/toy.py"]
    why = sample.Explained(
        file="core/toy.py",
        old="return a < LIMIT",
        new="return a <= LIMIT",
        kind="tuning",
        reason="speed",
    )
    assert why.fits(mutant(text, "<", "<="))
    assert not why.fits(mutant(text, "<", ">="))
    assert not replace(why, file="other.py").fits(mutant(text, "<", "<="))
    assert not replace(why, file="y.py").fits(mutant(text, "<", "<="))
    every = replace(why, new="*")
    assert every.fits(mutant(text, "<", ">="))
    assert not replace(every, old="return a > LIMIT").fits(mutant(text, "<", ">="))


@needs_node
def test_mutants_of_javascript_meet_the_tests_of_node(tmp_path):
    root = tmp_path / "toy"
    for name, text in {
        "src/shuffledp/__init__.py": "",
        "tests/test_one.py": "",
        "clients/js/package.json": '{"type": "module"}',
        "clients/js/src/toy.js": "export const one = () => 1;\nexport const two = () => 2;\n",
        "clients/js/test/toy.test.js": 'import assert from "node:assert/strict";\n'
        'import { test } from "node:test";\nimport { one } from "../src/toy.js";\n'
        'test("one is one", () => assert.equal(one(), 1));\n',
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    common = {"room": "js", "file": "toy.js", "tests": ("toy.test.js",)}
    mutants = [
        listed.Mutant(name="one is two", old="=> 1", new="=> 2", **common),
        listed.Mutant(name="nobody looks", old="=> 2", new="=> 3", **common),
    ]
    listed.check(mutants, root)
    found = listed.run_mutants(mutants, root=root, jobs=1, say=str)
    assert [each.outcome.value for each in found] == ["killed", "SURVIVED"]
    assert found[0].culprit == "clients/js/test/toy.test.js::one is one"
