"""No command states a number about privacy that the table of claims does not know."""

import html
import json
import math
import re
from fractions import Fraction
from xml.etree import ElementTree

import pytest

import live_support as live
from claims import CLAIMS, find_claims, find_field, list_unclaimed
from commands import commands
from repository import ROOT
from shuffledp import UnsupportedError
from shuffledp.cli._live import describe_collection
from shuffledp.live.serve.rehearse import Rehearsal
from shuffledp.live.wire.promise import Pledge

PRIVATE = re.compile(r"(epsilon|delta|guess|floor|guarantee|if_honest|hidden|visible)")
PEOPLE = "who,home,way,minutes\n" + "".join(
    f"{row // 2},true,car,10\n{row // 2},false,bus,20\n{row},true,car,5\n" for row in range(100)
)
SURVEY = """epsilon = 2.0
model = "local"
[questions.home]
task = "count"
[questions.way]
task = "histogram"
categories = ["car", "bus"]
"""
SHUFFLED = SURVEY.replace('model = "local"', "delta = 1e-4")
AUTO = """epsilon = 9.0
delta = 1e-4

[questions.minutes]
task = "mean"
lower = "auto"
upper = "auto"
"""
BUDGET = "--ledger l.json --budget-epsilon 9 --budget-delta 1e-2"
COMMANDS = {
    "run shuffle": f"run count p.csv --column home --epsilon 1 --delta 1e-4 {BUDGET}",
    "run explain": "run count p.csv --column home --protocol rr --epsilon 1 --delta 1e-4 --explain",
    "run local": "run mean p.csv --column minutes --lower 0 --upper 60 --epsilon 1 --model local --explain",
    "run central": "run quantiles p.csv --column minutes --lower 0 --upper 60 --epsilon 1 --model central --explain",
    "run auto": "run mean p.csv --column minutes --lower auto --upper auto --epsilon 9 --delta 1e-4 --explain",
    "run auto central": "run sum p.csv --column minutes --lower auto --upper auto --epsilon 9 --delta 1e-4 --model central",
    "run by": "run count p.csv --column home --by way --groups car,bus --epsilon 1 --delta 1e-4",
    "run survey": "run s.toml p.csv --explain",
    "run survey auto": "run a.toml p.csv --explain",
    "run survey shuffle": "run b.toml p.csv --explain",
    "run mean of rows": "run mean p.csv --column minutes --lower 0 --upper 60 --person who --of rows --max-rows 2 "
    "--epsilon 1 --delta 1e-3",
    "randomize": f"randomize p.csv --task count --column home --protocol rr --epsilon 1 --delta 1e-4 --out m.parquet --force {BUDGET}",
    "tally": "tally m.parquet --out t.json --force",
    "estimate": "estimate t.json --explain",
    "estimate several": "estimate t.json u.json",
    "plan": "plan count --n 300 --epsilon 1 --delta 1e-4",
    "plan epsilon": "plan count --n 300 --error 2 --delta 1e-4",
    "plan people": "plan mean --lower 0 --upper 9 --error 0.05 --epsilon 1 --delta 1e-4 --model local",
    "plan live": "plan count --n 300 --epsilon 1 --delta 1e-4 --local-epsilon 0.5",
    "plan survey": "plan s.toml --n 300",
    "plan survey shuffle": "plan b.toml --n 300",
    "plan survey central": "plan b.toml --n 300 --model central",
    "amplify": "amplify --epsilon0 1 --n 1000 --delta 1e-6",
    "amplify all": "amplify --randomizer rr --epsilon0 0.5 --n 1000 --delta 1e-6 --all",
    "amplify all, refused": "amplify --epsilon0 1 --n 1000 --delta 1e-6 --all",
    "amplify levels": "amplify --levels 0.5:1000,1:2000 --k 4 --delta 1e-6",
    "calibrate": "calibrate --n 1000 --epsilon 1 --delta 1e-6",
    "ledger": "ledger show l.json",
    "ledger budget": "ledger budget l.json --epsilon 9 --delta 1e-2",
    "audit": "audit rr --epsilon0 1 --epsilon 1 --n 3",
    "audit samples": "audit krr --k 3 --n 100 --epsilon 1 --delta 1e-3 --samples 2000 --seed 2",
    "learn": "learn p.csv --column way --categories car,bus --epsilon 1 --model local",
    "test": "test p.csv --column way --categories car,bus --epsilon 1 --model local --alpha 0.4",
    "frequencies": "frequencies p.csv --column way --epsilon 1",
    "robust": "robust count p.csv --column home --groups 5 --epsilon 1 --delta 1e-3",
    "doctor": "doctor",
    "demo": "demo --n 300",
}
WITHOUT_JSON = ("tally", "ledger budget", "demo")
"""Commands that print no JSON."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("claims")
    (folder / "p.csv").write_text(PEOPLE)
    (folder / "s.toml").write_text(SURVEY)
    (folder / "b.toml").write_text(SHUFFLED)
    (folder / "a.toml").write_text(AUTO)
    return folder


@pytest.fixture
def say(place, monkeypatch):
    from typer.testing import CliRunner

    from shuffledp.cli import app

    monkeypatch.chdir(place)
    monkeypatch.setenv("COLUMNS", "200")

    def invoke(words):
        result = CliRunner().invoke(app, words.split())
        return result, result.stdout + "\n" + result.stderr

    for name, made in (("m.parquet", "randomize"), ("t.json", "tally"), ("u.json", "tally")):
        if not (place / name).exists():
            words = COMMANDS[made].replace("t.json", name).replace(BUDGET, "")
            assert invoke(words)[0].exit_code == 0
    if not (place / "l.json").exists():
        assert invoke(COMMANDS["run shuffle"])[0].exit_code == 0
    return invoke


def list_paths(found, path=()):
    """The fields of JSON with their paths; lists have no number."""
    if isinstance(found, dict):
        for key, value in found.items():
            yield from list_paths(value, (*path, key))
    elif isinstance(found, list):
        for each in found:
            yield from list_paths(each, path)
    elif isinstance(found, int | float) and not isinstance(found, bool):
        yield ".".join(path)


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_printed(name, say):
    result, text = say(COMMANDS[name])
    assert result.exit_code == 0, text
    assert list_unclaimed(text) == []
    stated = bool(re.search(r"(epsilon|delta) = [0-9]", text))
    assert bool(find_claims(text)) or not stated


@pytest.mark.parametrize("name", [each for each in COMMANDS if each not in WITHOUT_JSON])
def test_what_json_holds(name, say):
    result, text = say(f"{COMMANDS[name]} --json")
    assert result.exit_code == 0, text
    content = json.loads(result.stdout[: result.stdout.rindex("}") + 1])
    command = COMMANDS[name].split()[0]
    paths = {path for path in list_paths(content) if PRIVATE.search(path)}
    assert [path for path in sorted(paths) if find_field(command, path) is None] == []


ABOUT_PEOPLE = ("run", "estimate", "randomize", "learn", "test", "robust", "frequencies")


@pytest.mark.parametrize("name", [each for each in COMMANDS if each.split()[0] in ABOUT_PEOPLE])
def test_every_answer_names_its_unit(name, say):
    from shuffledp.questions import UNITS

    result, text = say(COMMANDS[name].replace(BUDGET, ""))
    assert result.exit_code == 0, text
    unit = "person" if "--person" in COMMANDS[name] else "row"
    assert UNITS[unit] in " ".join(text.split())
    result, _ = say(f"{COMMANDS[name].replace(BUDGET, '')} --json")
    assert json.loads(result.stdout[: result.stdout.rindex("}") + 1])["unit"] == unit


REFUSED = {
    "plan": "plan histogram --k 5 --n 1000 --error 3 --delta 1e-6 --local-epsilon 3",
    "plan small": "plan count --n 1000 --epsilon 0.01 --delta 1e-3 --local-epsilon 3 --max-bytes 100",
    "ledger": "run count p.csv --column home --epsilon 10 --delta 1e-4 --ledger l.json",
    "delta": "run count p.csv --column home --epsilon 1 --delta 0.1",
    "local": "run count p.csv --column home --epsilon 1 --model local --honest 0.5",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_refusals_say(name, say):
    result, text = say(REFUSED[name])
    assert result.exit_code in (2, 3)
    assert list_unclaimed(text) == []
    assert find_claims(text)


def read_picture(path):
    """What a person reads in a picture, without the numbers along its axes."""

    def read(part):
        if not part.get("id", "").startswith(("xtick", "ytick")):
            yield part.text or ""
            for each in part:
                yield from read(each)
                yield each.tail or ""

    return " ".join(read(ElementTree.parse(path).getroot()))  # noqa: S314, our own


def read_page(path):
    """What a person reads on a page."""
    page = re.sub(r"<(style|script)\b.*?</\1>", "", path.read_text(), flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", " ", page))


DRAWN = [each for each in COMMANDS if each.startswith(("run", "estimate", "amplify", "plan"))]
DRAWN = [each for each in DRAWN if not each.startswith(("plan survey", "amplify l"))]


@pytest.mark.parametrize("name", DRAWN)
def test_what_is_drawn(name, say, tmp_path):
    import matplotlib as mpl

    command = name.split()[0]
    ends = ["svg", "html"] if command in ("run", "estimate") else ["svg"]
    for end in ["html"] if "survey" in name else ends:
        path = tmp_path / f"drawn.{end}"
        with mpl.rc_context({"svg.fonttype": "none"}):
            result, text = say(f"{COMMANDS[name]} --plot {path}".replace(BUDGET, ""))
        assert result.exit_code == 0, text
        drawn = read_page(path) if end == "html" else read_picture(path)
        assert list_unclaimed(drawn) == []
        assert find_claims(drawn)


def test_what_help_says(say):
    names = commands()
    assert len(names) > 40
    for name in names:
        result, text = say(f"{name} --help".removeprefix("shuffledp "))
        assert result.exit_code == 0, name
        assert list_unclaimed(re.sub("[│╭╮╰╯─]", " ", text)) == [], name


def test_pages_of_live_collections():
    text = (ROOT / "src/shuffledp/live/pages/texts/en.json").read_text()
    stated = [found.start() for found in re.finditer(r"epsilon = \{", text)]
    assert stated
    spans = [match.span() for claim in CLAIMS for match in re.finditer(claim.says, text)]
    missing = [text[at - 60 : at + 40] for at in stated if not any(s <= at < e for s, e in spans)]
    assert missing == []


@pytest.mark.parametrize("composed", [False, True])
@pytest.mark.parametrize("reports", [1, 2])
def test_what_live_collections_say(reports, composed):
    """`collection new`, `collection check` and `report --explain` print it."""
    pledge = Pledge(
        epsilon=4.0,
        delta=1e-2,
        honest=1.0,
        min_batch=20,
        local_epsilon=3.0,
        reports_per_device=reports,
        composed=composed,
    )
    text = describe_collection(live.make_collection(pledge=pledge))
    assert list_unclaimed(text) == []
    names = [claim.name for _, _, claim in find_claims(text)]
    assert names == ["live: the promise", "live: the floor"]


def test_what_a_report_and_a_rehearsal_say(capsys):
    from shuffledp.cli.report import _tell_price

    _tell_price(live.make_collection())
    said = capsys.readouterr()
    text = said.out + said.err
    assert list_unclaimed(text) == []
    names = [claim.name for _, _, claim in find_claims(text)]
    assert names == ["live: the promise", "live: the floor"]
    for noise, floor in (("devices", 3.0), ("servers", math.inf)):
        played = Rehearsal(
            people=90,
            accepted=90,
            rejected={},
            lost=0,
            doubled=0,
            seconds=1.5,
            epsilon=1.0,
            delta=1e-6,
            local_epsilon=floor,
            noise=noise,
            bytes_per_report=200,
            questions={},
        )
        assert list_unclaimed(str(played)) == []
        assert [claim.name for _, _, claim in find_claims(str(played))] == ["live: a rehearsal"]
        stated = {path for path in list_paths(played.to_dict()) if PRIVATE.search(path)}
        assert {"epsilon", "delta"} <= stated
        assert all(find_field("collection", path).name == "live: a rehearsal" for path in stated)


def test_what_a_device_has_spent():
    """Numbers of what is gone are rounded up, and of what is left down."""
    from shuffledp.live import Spent

    spent = Spent(
        epsilon=0.97211744, floor=2.00000001, without_floor=0, budget=8.0, floor_budget=8.0
    )
    assert (
        str(spent)
        == "epsilon: 0.972118 of 8 spent, 7.02788 left; floor: 2.00001 of 8 spent, 5.99999 left"
    )
    assert [claim.name for _, _, claim in find_claims(str(spent))] == [
        "live: what a device has spent"
    ]
    gone = Spent(epsilon=8.0, floor=9.5, without_floor=2, budget=8.0, floor_budget=8.0)
    assert (
        str(gone)
        == "epsilon: 8 of 8 spent, 0 left; floor: 9.5 of 8 spent, 0 left; 2 reports without a floor"
    )


def test_what_the_servers_cannot_add():
    from shuffledp.accounting.server_noise import Moved, calibrate_noise

    near = Moved(moves=1, p=Fraction(3, 4), q=Fraction(1, 4))
    with pytest.raises(UnsupportedError) as refused:
        calibrate_noise([near], epsilon=4.0, delta=1e-6)
    assert "a local epsilon of 1.09862 keeps" in str(refused.value)  # ln 3 is 1.098612...
    assert list_unclaimed(str(refused.value)) == []


def test_what_published_results_hold():
    """`collection results --json` prints them."""
    pledge = live.make_collection().pledge
    honest = {"reports": 9, "epsilon": 1.0, "delta": 1e-6, "for": "one report"}
    result = {"results": [{"promise": pledge.to_dict(), "if_honest": honest}]}
    stated = {path for path in list_paths(result) if PRIVATE.search(path)}
    assert {"results.promise.epsilon", "results.promise.local_epsilon"} <= stated
    assert [path for path in sorted(stated) if find_field("collection", path) is None] == []


def test_a_new_sentence_is_noticed():
    for text in (
        "epsilon: 0.5",
        "delta (1e-6)",
        "You have epsilon = 0.5 against everybody.",
        "Your delta is 1e-9.",
        "epsilon of at most 0.3",
        "Their epsilon0 was 2",
        "Somebody guesses your answer right in at most 60 % of cases.",
    ):
        assert list_unclaimed(text), text
    assert find_field("run", "epsilon_of_friends") is None
    assert find_field("audit", "friends.epsilon") is None


def test_every_claim_names_its_view():
    names = [claim.name for claim in CLAIMS]
    assert len(set(names)) == len(names)
    for claim in CLAIMS:
        assert all((claim.sees, claim.releases, claim.unit, claim.trust)), claim.name


def test_several_shuffles_are_told_from_one(say):
    _, text = say(COMMANDS["estimate several"])
    names = [claim.name for _, _, claim in find_claims(text)]
    assert names == ["guarantee, shuffle model", "sum of several shuffles"]
