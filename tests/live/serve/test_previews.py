"""What the desk shows of a survey before it is made: every number of the preview, and the floor that an error needs."""

import math

import pytest

from shuffledp.core.errors import UnsupportedError
from shuffledp.live.serve.operator import Planner, read_form

DEVICES, SERVERS = {"noise": "devices"}, {"noise": "servers"}
TRUSTED = {"local_epsilon": "none", "trust_the_shuffler": True}
COUNT, TEN = {"task": "count"}, {"lower": 0, "upper": 10}
PETS = {"kind": "several", "part_of": {"name": "pets", "text": "Which pets?"}}
GROUPS = {"by": "way", "groups": ["car", "bus"]}


def preview(questions, error=None, epsilon="1.0", **collection):
    content = {
        "epsilon": epsilon,
        "delta": "1e-8",
        "questions": questions,
        "collection": collection,
    }
    return Planner().preview(read_form(content if error is None else {**content, "error": error}))


SURVEYS = {
    "a count": ({"home": COUNT}, {"people": 5000, **DEVICES}),
    "three categories": ({"way": {"task": "histogram", "categories": ["car", "bus", "foot"]}}, {"people": 5001, **DEVICES}),
    "one random question": (
        {"home": {**COUNT, "text": "At home?"}, "age": {"task": "mean", "lower": -5, "upper": 10}},
        {"people": 9000, "one_question": True, **DEVICES},
    ),
    "a sum": ({"total": {"task": "sum", "lower": -2, "upper": 6}}, {"people": 3000, **DEVICES}),
    "a mean by group": ({"cost": {"task": "mean", **TEN, **GROUPS}}, {"people": 5000, **DEVICES}),
    "a sum by group": ({"cost": {"task": "sum", **TEN, **GROUPS}}, {"people": 5000, **DEVICES}),
    "a median": ({"age": {"task": "median", **TEN}}, {"people": 5000, **DEVICES}),
    "a range": ({"age": {"task": "range", **TEN, "at": [3, 7]}}, {"people": 5000, **DEVICES}),
    "words": ({"w": {"task": "words", "alphabet": "letters", "max_length": 5}}, {"people": 50_000}),
    "words of few": ({"w": {"task": "words", "alphabet": "letters", "max_length": 5}}, {"people": 4500, "local_epsilon": 8}),
    "servers": ({"way": {"task": "histogram", "categories": ["a", "b"]}, "n": {"task": "mean", **TEN}}, {"people": 300, **TRUSTED}),
    "servers, one random question": (
        {"way": {"task": "histogram", "categories": ["a", "b", "c"]}, "home": COUNT},
        {"people": 900, "one_question": True, "tokens": True, **SERVERS},
    ),
    "several": ({"dog": {**COUNT, "asked": PETS}, "cat": {**COUNT, "asked": PETS}, "home": COUNT}, {"people": 2000, **DEVICES}),
    "four reports": ({"home": COUNT}, {"people": 4000, "windows": 4, "reports_per_device": 4, "local_epsilon": "1.5", **DEVICES}),
}  # fmt: skip


def write(value):
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def describe(name):
    """A preview in lines."""
    questions, collection = SURVEYS[name]
    found = preview(questions, **collection)
    shown = found.pop("questions")
    several = [f"{each['text']} {each['choices']}: {each['share']:.5g}, alone {each['alone']:.5g}" for each in found.pop("several")]  # fmt: skip
    assert found.pop("compared").startswith(f"The {found['noise']} add the noise: ")
    lines = [", ".join(f"{key} {write(each)}" for key, each in found.items()), *several]
    for each in shown:
        bars = each.pop("estimate")
        lines.append(", ".join(f"{key} {write(value)}" for key, value in each.items()))
        lines += [f"  {bar['label']}: {bar['low']:.5g} {bar['value']:.5g} {bar['high']:.5g}" for bar in bars]  # fmt: skip
    return lines


PREVIEWS = {
    "a count": [
        "epsilon 0.5267, delta 1e-08, local_epsilon 3, floor 3, guess 0.95257, noise devices, min_batch "
        "2500, limited_by the floor, one_question False, influence 1.1048, bytes 104",
        "name home, text home, task count, part None, protocol rr, influence 1.1048, people 5000, unit 5000, "
        "lower None, upper None",
        "  yes: 1467.5 1500 1532.5",
    ],
    "three categories": [
        "epsilon 0.6238, delta 1e-08, local_epsilon 3, floor 3, guess 0.95257, noise devices, "
        "min_batch 2500, limited_by the floor, one_question False, influence 1.1572, bytes 104",
        "name way, text way, task histogram, part None, protocol krr, influence 1.1572, people "
        "5001, unit 5001, lower None, upper None",
        "  car: 2688.2 2729 2769.8",
        "  bus: 1325.8 1363 1400.2",
        "  foot: 873.01 909 944.99",
    ],
    "one random question": [
        "epsilon 0.6726, delta 1e-08, local_epsilon 3, floor 3, guess 0.95257, noise devices, "
        "min_batch 4500, limited_by the floor, one_question True, influence 3.1466, bytes 105",
        "name home, text At home?, task count, part None, protocol rr, influence 1.1048, people "
        "9000, unit 9000, lower None, upper None",
        "  yes: 2594.8 2700 2805.2",
        "name age, text age, task mean, part None, protocol hybrid, influence 1.5733, people "
        "9000, unit 15, lower -5, upper 10",
        "  mean: -1.4851 -1.2736 -1.062",
    ],
    "a sum": [
        "epsilon 0.7983, delta 1e-08, local_epsilon 3, floor 3, guess 0.95257, noise devices, min_batch 1500, "
        "limited_by the floor, one_question False, influence 1.5733, bytes 105",
        "name total, text total, task sum, part None, protocol hybrid, influence 1.5733, people 3000, unit "
        "24000, lower -2, upper 6",
        "  sum: 242.69 525 807.31",
    ],
    "a mean by group": [
        "epsilon 0.6071, delta 1e-08, local_epsilon 3, floor 3, guess 0.95257, noise devices, "
        "min_batch 2500, limited_by the floor, one_question False, influence 1.2096, bytes 104",
        "name cost, text cost, task mean_by_group, part None, protocol krr, influence 1.2096, people "
        "5000, unit 10, lower 0, upper 10",
        "  car: 2.8822 3.3333 3.8166",
        "  bus: 3.2443 4.2857 5.5294",
    ],
    "a sum by group": [
        "epsilon 0.6071, delta 1e-08, local_epsilon 3, floor 3, guess 0.95257, noise devices, "
        "min_batch 2500, limited_by the floor, one_question False, influence 1.2096, bytes 104",
        "name cost, text cost, task sum_by_group, part None, protocol krr, influence 1.2096, people "
        "5000, unit 50000, lower 0, upper 10",
        "  car: 10836 12000 13164",
        "  bus: 5030.8 6000 6969.2",
    ],
    "a median": [
        "epsilon 0.4514, delta 1e-08, local_epsilon 3, floor 3, guess 0.95257, noise devices, min_batch "
        "2500, limited_by the floor, one_question False, influence 10.864, bytes 104",
        "name age, text age, task quantiles, part None, protocol local_tree, influence 10.864, people 5000, "
        "unit 10, lower 0, upper 10",
        "  0.5: 1 2 2",
    ],
    "a range": [
        "epsilon 0.4514, delta 1e-08, local_epsilon 3, floor 3, guess 0.95257, noise devices, min_batch "
        "2500, limited_by the floor, one_question False, influence 21.728, bytes 104",
        "name age, text age, task range, part None, protocol local_tree, influence 21.728, people 5000, unit "
        "5000, lower 0, upper 10",
        "  range: 1114.5 1461 1807.5",
    ],
    "words": [
        "epsilon 0.1418, delta 1e-08, local_epsilon 3, floor 3, guess 0.95257, noise devices, min_batch 25000, "
        "limited_by the floor, one_question False, influence None, bytes 106",
        "name w, text w, task words, part None, protocol local_prefixes, influence None, people 50000, unit "
        "50000, lower None, upper None, found 935",
        "  a word of 1,870 people: 1591.4 1870 2148.6",
        "  a word of 935 people: 656.39 935 1213.6",
    ],
    "words of few": [
        "epsilon 0.9884, delta 1e-08, local_epsilon 4.912, floor 4.912, guess 0.9927, noise devices, "
        "min_batch 2250, limited_by the promise, one_question False, influence None, bytes 106",
        "name w, text w, task words, part None, protocol local_prefixes, influence None, people 4500, "
        "unit 4500, lower None, upper None, found 149",
        "  a word of 298 people: 266.04 298 329.96",
        "  a word of 149 people: 117.04 149 180.96",
    ],
    "servers": [
        "epsilon 1, delta 1e-08, local_epsilon None, floor None, guess 1, noise servers, min_batch 150, "
        "limited_by the servers' noise, one_question False, influence 2, bytes 154",
        "name way, text way, task histogram, part None, protocol server_noise, influence 1, people 300, unit "
        "300, lower None, upper None",
        "  a: 188.29 200 211.71",
        "  b: 88.294 100 111.71",
        "name n, text n, task mean, part None, protocol server_noise, influence 1, people 300, unit 10, "
        "lower 0, upper 10",
        "  mean: 2.72 3.0667 3.4133",
    ],
    "servers, one random question": [
        "epsilon 1, delta 1e-08, local_epsilon 3, floor 3, guess 0.95257, noise "
        "servers, min_batch 450, limited_by the servers' noise, one_question True, "
        "influence 2.3144, bytes 136",
        "name way, text way, task histogram, part None, protocol server_noise, "
        "influence 2.3144, people 900, unit 900, lower None, upper None",
        "  a: 437.7 492 546.3",
        "  b: 202.57 245 287.43",
        "  c: 125.32 163 200.68",
        "name home, text home, task count, part None, protocol server_noise, influence "
        "2.2096, people 900, unit 900, lower None, upper None",
        "  yes: 230.13 270 309.87",
    ],
    "several": [
        "epsilon 0.2998, delta 1e-08, local_epsilon 3, floor 3, guess 0.95257, noise devices, min_batch "
        "1000, limited_by the floor, one_question False, influence 6.4919, bytes 204",
        "Which pets? 2: 0.042053, alone 0.026648",
        "name dog, text dog, task count, part Which pets?, protocol rr, influence 2.164, people 2000, unit "
        "2000, lower None, upper None",
        "  yes: 515.89 600 684.11",
        "name cat, text cat, task count, part Which pets?, protocol rr, influence 2.164, people 2000, unit "
        "2000, lower None, upper None",
        "  yes: 515.89 600 684.11",
        "name home, text home, task count, part None, protocol rr, influence 2.164, people 2000, unit 2000, "
        "lower None, upper None",
        "  yes: 515.89 600 684.11",
    ],
    "four reports": [
        "epsilon 0.3907, delta 1e-08, local_epsilon 1.5, floor 6, guess 0.99753, noise devices, "
        "min_batch 2000, limited_by the floor, one_question False, influence 1.5744, bytes 104",
        "name home, text home, task count, part None, protocol rr, influence 1.5744, people 4000, unit "
        "4000, lower None, upper None",
        "  yes: 1124.6 1200 1275.4",
    ],
}


@pytest.mark.parametrize("name", SURVEYS)
def test_a_preview_is_the_one_that_was_written_down(name):
    """Whoever changes the numbers on purpose writes down the new ones: `python -m live.serve.test_previews`."""
    assert describe(name) == PREVIEWS[name]


def worst(found):
    return max((bar["high"] - bar["value"]) / each["unit"] for each in found["questions"] for bar in each["estimate"])  # fmt: skip


WAY = {"way": {"task": "histogram", "categories": ["car", "bus", "foot"]}}


@pytest.mark.parametrize(
    ("questions", "wanted", "more"),
    [
        (WAY, 0.05, DEVICES),
        (WAY, 0.02, DEVICES),
        ({"n": {"task": "mean", **TEN}}, 0.05, DEVICES),
        (WAY, 0.05, {**DEVICES, "windows": 2, "reports_per_device": 2}),
    ],
)
def test_the_floor_that_is_found_is_the_smallest_to_one_percent(questions, wanted, more):
    found = preview(questions, error=str(wanted), people=5000, **more)
    assert worst(found) <= wanted
    floor = found["local_epsilon"]
    assert floor * more.get("reports_per_device", 1) <= 8
    assert found["floor"] == pytest.approx(floor * more.get("reports_per_device", 1))
    less = preview(questions, people=5000, local_epsilon=floor * 0.985, **more)
    assert worst(less) > wanted


def test_an_error_that_all_of_the_floor_just_reaches_is_reached():
    """The largest floor that is looked at is 8 for all reports together."""
    large = {"people": 1000, "epsilon": "60", **DEVICES}
    most = worst(preview(WAY, local_epsilon="8", **large))
    assert preview(WAY, error=most, **large)["local_epsilon"] > 7.9
    said = r"^error=[0-9.e-]+ cannot be reached with 1,000 people and epsilon=60$"
    with pytest.raises(UnsupportedError, match=said):
        preview(WAY, error=most * 0.999, **large)
    without = preview(WAY, people=1000, **TRUSTED)
    assert preview(WAY, error=worst(without), people=1000, **TRUSTED)["local_epsilon"] is None


def test_bars_of_devices_are_1_96_standard_errors_of_their_protocol():
    (bar,) = preview({"home": COUNT}, people=4000, local_epsilon="2", **DEVICES)["questions"][0]["estimate"]  # fmt: skip
    p = math.exp(2) / (1 + math.exp(2))
    assert bar["value"] == 1200  # three of ten
    assert bar["high"] - 1200 == pytest.approx(1.96 * math.sqrt(4000 * p * (1 - p)) / (2 * p - 1), rel=1e-6)  # fmt: skip
    assert 1200 - bar["low"] == pytest.approx(bar["high"] - 1200)


if __name__ == "__main__":
    import pprint

    pprint.pp({name: describe(name) for name in SURVEYS}, width=115)
