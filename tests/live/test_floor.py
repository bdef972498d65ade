"""What people keep if everybody else conspires: all reports of a device add up, in every sentence that says so."""

import dataclasses
import json
import math
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path

import pytest

import live_support as live
import shuffledp as sdp
from shuffledp.core.protocol import honest_users
from shuffledp.live.design import Settings, choose_protocols
from shuffledp.live.pages import describe_trust
from shuffledp.live.serve.operator import Planner

ROOT = Path(__file__).parents[2]
NODE = shutil.which("node")
SURVEY = {
    "epsilon": 1.0,
    "delta": 1e-6,
    "questions": {"home": {"task": "count"}},
}


def make(reports, local=3.0, composed=True):
    pledge = dataclasses.replace(
        live.make_collection().pledge,
        epsilon=60.0,
        local_epsilon=local,
        reports_per_device=reports,
        composed=composed,
    )
    windows = dataclasses.replace(live.make_collection().windows, count=max(2, reports))
    return live.make_collection(pledge=pledge, windows=windows)


def guess_by_majority(right, reports):
    """How often the majority of an odd number of reports, each right with this probability, is right."""
    return sum(
        math.comb(reports, wrong) * right ** (reports - wrong) * (1 - right) ** wrong
        for wrong in range(reports // 2 + 1)
    )


@pytest.mark.parametrize("reports", [1, 2, 7])
@pytest.mark.parametrize("composed", [True, False])
def test_the_floor_is_that_of_all_reports(reports, composed):
    pledge = make(reports, composed=composed).pledge
    assert pledge.floor == 3.0 * reports
    assert pledge.guess == pytest.approx(1 / (1 + math.exp(-3.0 * reports)), rel=1e-12)


def test_the_majority_of_seven_reports_is_within_the_bound_and_far_beyond_that_of_one():
    """Each report of a yes or no is right in 93.5 % of cases; the majority of seven is in 99.947 %."""
    right = 0.935
    one = dataclasses.replace(make(1).pledge, local_epsilon=math.log(right / (1 - right)))
    seven = dataclasses.replace(one, reports_per_device=7)
    assert round(100 * guess_by_majority(right, 7), 3) == 99.947
    assert one.guess < guess_by_majority(right, 7) < seven.guess
    assert one.guess == pytest.approx(guess_by_majority(right, 1), rel=1e-12)


def test_the_table_says_it():
    floor = dict(describe_trust(make(7)))
    (said,) = [text for text in floor.values() if "equally likely" in text]
    assert said.startswith("local epsilon = 3 for each of 7 reports, 21 together: ")
    assert said.endswith("at most 100 % of cases")
    (once,) = [text for _, text in describe_trust(make(1)) if "equally likely" in text]
    assert once.startswith("local epsilon = 3: ")
    assert once.endswith("at most 95.3 % of cases")


def test_percentages_are_rounded_up():
    """93.54 % is not "at most 93.5 %"."""
    pledge = dataclasses.replace(make(1).pledge, local_epsilon=math.log(0.93541 / 0.06459))
    assert "at most 93.6 % of cases" in pledge.describe_floor()


def test_the_floors_of_many_reports_are_stated_and_devices_decide():
    """Reports that add up to hardly a floor need no word of trust: the sum is stated, and each device has its limit."""
    survey = sdp.Survey.read({**SURVEY, "epsilon": 8.0})
    settings = Settings(people=1_000, windows=7, reports_per_device=7, composed=False)

    def choose(**changes):
        changed = dataclasses.replace(settings, **changes)
        return choose_protocols(survey, changed)

    pledge = choose().pledge
    assert pledge.floor == 21.0
    assert not pledge.trust_the_shuffler
    assert "3 for each of 7 reports, 21 together" in pledge.describe_floor()
    with pytest.raises(sdp.ParameterError, match=r"local_epsilon=8.1 must be <= 8: above"):
        choose(local_epsilon=8.1)
    trusting = choose(local_epsilon=8.1, trust_the_shuffler=True).pledge
    assert trusting.trust_the_shuffler


def test_the_desk_says_it():
    wanted = {**SURVEY, "epsilon": 9.0}
    wanted["collection"] = {
        "windows": 2,
        "reports_per_device": 2,
        "composed": False,
        "local_epsilon": 1.5,
        "people": 40,
    }
    found = Planner().preview(json.loads(json.dumps(wanted)))
    assert found["floor"] == pytest.approx(2 * found["local_epsilon"])
    assert found["guess"] == pytest.approx(1 / (1 + math.exp(-found["floor"])))
    solved = Planner().preview(json.loads(json.dumps({**wanted, "error": 0.2})))
    assert solved["floor"] <= 8


TELL = """
import { readFileSync } from "node:fs";
import { Collection } from "./clients/js/src/index.js";
import { describeTrust } from "./src/shuffledp/live/pages/static/trust.js";
import { percentAbove, say, use } from "./src/shuffledp/live/pages/static/strings.js";
import { describeFloor } from "./src/shuffledp/live/pages/static/results.js";
const { document, id, promise } = JSON.parse(readFileSync(0, "utf8"));
use("en", JSON.parse(readFileSync("src/shuffledp/live/pages/texts/en.json", "utf8")));
const collection = await Collection.read(new TextEncoder().encode(document), id);
console.log(JSON.stringify({
  trust: describeTrust(collection), floor: collection.floor,
  guess: say("answer.guess", { percent: percentAbove(collection.guess) }),
  result: describeFloor("floor", promise), promise: describeFloor("promise", promise),
}));
"""


@pytest.mark.skipif(NODE is None, reason="no node: the page is not tested here")
@pytest.mark.parametrize(("reports", "local"), [(1, 3.0), (2, 3.0123456789), (7, 3.0)])
def test_the_pages_say_the_same(reports, local):
    collection = make(reports, local)
    given = {
        "document": collection.raw.decode(),
        "id": collection.id.hex(),
        "promise": collection.pledge.to_dict(),
    }
    done = subprocess.run(
        [NODE, "--input-type=module", "--eval", TELL],
        cwd=ROOT,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    told = json.loads(done.stdout)
    mine = describe_trust(collection)
    assert told["trust"][3][1] == mine[3][1] == collection.pledge.describe_floor()
    assert told["floor"] == pytest.approx(collection.pledge.floor, rel=1e-15)
    percent = mine[3][1].split("at most ")[1].split(" %")[0]
    assert f"at most {percent} % of the time" in told["guess"]
    together = sdp.core.privacy.round_up(collection.pledge.floor, 6)
    assert f"epsilon = {together}" in told["result"]
    assert ("reports together" in told["result"]) == (reports > 1)
    assert "for all reports of a device together" in told["promise"]


HONEST = """
import { readFileSync } from "node:fs";
import { describePromised } from "./src/shuffledp/live/pages/static/trust.js";
import { use } from "./src/shuffledp/live/pages/static/strings.js";
import { describeFloor } from "./src/shuffledp/live/pages/static/results.js";
use("en", JSON.parse(readFileSync("src/shuffledp/live/pages/texts/en.json", "utf8")));
const about = { one_operator: false, dummies: 0 };
console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map((promise) =>
  [describePromised(promise, about)[0][1], describeFloor("promise", promise)])));
"""


@pytest.mark.skipif(NODE is None, reason="no node: the page is not tested here")
def test_the_pages_count_on_as_many_honest_reports_as_the_promise():
    """0.29 of 200 reports is 58, and the product of the two floats is below; 90.4 % is not 90 %."""
    cases = [
        (50, 0.58),
        (90, 0.7),
        (200, 0.29),
        (170, 0.7),
        (1001, 0.9),
        (1000, 0.904),
        (2000, 1.0),
    ]
    cases += [(200 + share, share / 1000) for share in range(5, 1000, 13)]
    promises = [
        {**make(1).pledge.to_dict(), "min_batch": batch, "honest": share} for batch, share in cases
    ]
    done = subprocess.run(
        [NODE, "--input-type=module", "--eval", HONEST],
        cwd=ROOT,
        input=json.dumps(promises),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    for (batch, share), (trust, promise) in zip(cases, json.loads(done.stdout), strict=True):
        assert f"if {honest_users(batch, share):,} of the reports" in trust
        assert (
            f"if {float(Fraction(repr(share)) * 100):g} % of at least {batch:,} reports" in promise
        )
