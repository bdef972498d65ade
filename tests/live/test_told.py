"""What readers are told of a collection and its results, in whole sentences: tables, pages, privacy notices."""

import re

import pytest

import live_support as live
from live.server_support import make_collection as serve
from shuffledp.live.design import make_collection
from shuffledp.live.pages import describe_trust, write_privacy
from shuffledp.live.results import describe_collection, show_page, show_text

AROUND = [
    ("whoever serves the page or the program that asks", "nothing: it sees the answers"),
    ("the network", "everything, but it sees who takes part, when, and in which collection"),
]
ALONE = ("one operator plays all roles here", "trust as in the central model")
APART = live.make_collection(url="https://a.example")
SHARED = "epsilon = 4, delta = 0.01 (for all reports of a device together)"
SERVED = "epsilon = 3, delta = 0.3 (for all reports of a device together)"
DEVICES = [
    ("readers of the result; an analyzer that only watches",
     f"{SHARED}, if 20 of the reports of a batch come from honest devices, which nobody can verify"),
    ("a shuffler that only watches", "everything, but it knows that they took part, and when"),
    ("a shuffler that drops or adds reports; whoever floods the collection and blocks the others; "
     "shuffler and analyzer together",
     "local epsilon = 3: somebody who thought yes and no equally likely guesses right in at most 95.3 % of cases"),
    *AROUND,
]  # fmt: skip


def test_who_may_learn_what_from_devices_that_add_noise():
    assert describe_trust(APART) == DEVICES
    assert describe_trust(live.make_collection()) == [ALONE, *DEVICES]


@pytest.mark.parametrize(
    ("floor", "together"),
    [
        (None, "nothing: there is no floor, and the messages are the answers"),
        (1.0, "local epsilon = 2: somebody who thought yes and no equally likely guesses right in at most 88.1 % of cases"),
    ],
)  # fmt: skip
def test_who_may_learn_what_from_servers_that_add_noise(floor, together):
    assert describe_trust(serve(floor=floor)) == [
        ALONE,
        ("the analyzer alone",
         f"{SERVED}, whoever lies, drops out or takes part under many names: the shuffler adds about 20 messages that "
         "the analyzer cannot tell apart"),
        ("the shuffler alone, with the published result",
         f"{SERVED}, even if it drops all other reports: the analyzer adds as much noise before anything leaves it; the "
         "shuffler knows that they took part, and when"),
        ("readers of the result", "at least as much, through the noise of both servers"),
        ("shuffler and analyzer together", together),
        ("a shuffler that adds nothing",
         f"against readers of the result {SERVED}, by the analyzer's noise alone; the analyzer sees exact counts of the "
         "messages"),
        ("an analyzer that adds nothing",
         f"against readers of the result {SERVED}, by the shuffler's messages alone; the shuffler can subtract them, and "
         "see one message if it drops all others"),
        *AROUND,
    ]  # fmt: skip


HOME = {"home": {"task": "count"}}
WORDS = {"w": {"task": "words", "alphabet": "letters", "max_length": 4}}


@pytest.mark.parametrize(
    ("questions", "said"),
    [
        (HOME, "One report can move an answer by up to 1.11 people"),
        (WORDS, "By how many people one report can move w is not known"),
        (HOME | WORDS, "One report can move an answer by up to 3.15 people (w: not known)"),
        (HOME | {"b": {"task": "count"}}, "One report can move an answer by up to 3.15 people"),
    ],
)
def test_how_far_one_report_can_move_an_answer(questions, said):
    collection = {"people": 5000, "noise": "devices", "one_question": False}
    made = live.plan(
        {"epsilon": 1.0, "delta": 1e-6, "questions": questions, "collection": collection}
    )
    assert made.describe_influence() == said


def test_what_pages_are_told_of_each_kind_of_question():
    scale = {"kind": "scale", "ends": ["bad", "good"]}
    pets = {"kind": "several", "part_of": {"name": "pets", "text": "Which?"}}
    questions = {
        "how": {"task": "histogram", "text": "How?", "categories": ["1", "2", "3", "no answer"], "asked": {**scale, "skip": True}},
        "all": {"task": "histogram", "categories": ["1", "2", "3"], "asked": scale},
        "dog": {"task": "count", "asked": pets},
        "cat": {"task": "count", "asked": pets},
        "new": {"task": "count", "asked": {"answers": ["nein", "ja"]}},
        "age": {"task": "mean", "lower": 0, "upper": 10, "asked": {"unit": "years"}},
    }  # fmt: skip
    collection = {"people": 600, "noise": "devices", "one_question": False}
    content = {"epsilon": 4.0, "delta": 1e-6, "questions": questions, "collection": collection}
    made, _, _ = make_collection(live.plan(content), live.read_tables(content)[1])
    usual = dict.fromkeys(("part", "unit", "scale", "yes", "lower", "upper"))
    krr = {"task": "histogram", "protocol": "krr", "title": "k-ary randomized response", "reference": "Kairouz, Bonawitz, Ramage 2016"}  # fmt: skip
    rr = {"task": "count", "protocol": "rr", "title": "binary randomized response", "reference": "Warner 1965"}  # fmt: skip
    duchi = {"task": "mean", "protocol": "duchi", "title": "one-bit mean", "reference": "Duchi, Jordan, Wainwright 2018"}  # fmt: skip
    ends = {"1": "bad", "3": "good"}
    about = describe_collection(made)
    assert about.pop("questions") == [
        {**usual, **krr, "name": "how", "text": "How?", "scale": ends},
        {**usual, **krr, "name": "all", "text": "all", "scale": ends},
        {**usual, **rr, "name": "dog", "text": "dog", "part": "Which?", "yes": "yes"},
        {**usual, **rr, "name": "cat", "text": "cat", "part": "Which?", "yes": "yes"},
        {**usual, **rr, "name": "new", "text": "new", "yes": "ja"},
        {**usual, **duchi, "name": "age", "text": "age", "unit": "years", "lower": 0.0, "upper": 10.0},
    ]  # fmt: skip
    assert about == {
        "id": made.id.hex(), "title": "survey", "language": "en", "one_operator": True, "dummies": 0,
        "trust": [list(row) for row in describe_trust(made)],
    }  # fmt: skip
    assert describe_collection(serve())["dummies"] == 20
    assert describe_collection(APART)["one_operator"] is False


ROW = {"label": "car", "value": 12.5, "stderr": 2.0, "low": 8.0, "high": 17.0}
RESULT = {
    "window": 1,
    "level": 0.95,
    "questions": {
        "way": {"people": 20, "of": 40, "estimate": [ROW, {**ROW, "label": "<b>", "value": 3.0}]},
        "home": {"people": 40, "estimate": [], "found": {"found_95": 1200}},
    },
}


def test_results_in_a_terminal():
    assert show_text(APART, [RESULT, {**RESULT, "window": 2}]).splitlines() == [
        "A test",
        "",
        "How do you come to work?",
        *(
            line
            for window in (1, 2)
            for line in (
                f"Window {window}: 40 people, 20 of whom answered this question",
                "      estimate   std. error   95% interval",
                "car         12          2.0        8 .. 17",
                "<b>          3          2.0        8 .. 17",
            )
        ),
        "",
        "Do you work at home sometimes?",
        *(
            line
            for window in (1, 2)
            for line in (
                f"Window {window}: 40 people",
                "No word was found.",
                "A word that 1,200 people have is found with probability 95 %.",
            )
        ),
    ]


def test_results_on_a_page():
    page = show_page(APART, [RESULT])
    body = page.partition("<body>")[2].partition("</body>")[0]
    texts = [each for each in re.split(r"<[^>]*>", body) if each.strip()]
    head = ["estimate", "std. error", "95% interval"]
    assert texts == [
        "A test",
        "How do you come to work?",
        "Window 1: 40 people, 20 of whom answered this question",
        *head,
        *("car", "12 (30.0%)", "2.0", "8 .. 17"),
        *("&lt;b&gt;", "3 (7.5%)", "2.0", "8 .. 17"),
        "Do you work at home sometimes?",
        "Window 1: 40 people",
        "No word was found.",
        "A word that 1,200 people have is found with probability 95 %.",
        "Who may learn what",
        *("who is compromised", "what people still have"),
        *(text for row in DEVICES for text in row),
    ]
    assert page.startswith("<!doctype html>\n<html lang=en dir=ltr>")
    assert "<title>A test</title>" in page
    assert "td,th{text-align:left;padding:.2em 1em .2em 0}" in page
    # Both columns of the last table are texts, not numbers.
    assert page.count('<td style="text-align:left">') == len(DEVICES)


def test_the_privacy_notice_has_these_facts():
    page = write_privacy(APART)
    rows = re.findall(r"<tr><th scope=row>(.*?)<td>(.*?)(?=<tr>|</table>)", page, re.S)
    open_ = "<mark>to be filled in by the people who run the survey</mark>"
    assert rows == [
        ("Who is responsible", open_),
        ("Legal basis", open_),
        ("Contact", open_),
        ("What is asked", "How do you come to work?; Do you work at home sometimes?"),
        *rows[4:5],
        ("The shuffler", rows[5][1]),
        ("The analyzer",
         "It receives mixed messages without senders, and opens them only if at least 20 reports came; otherwise they are "
         "deleted unread."),
        ("What is published",
         f"Estimates with intervals, and exactly how many reports came. The promise: {SHARED}, under the conditions that "
        "the page of the survey states."),
        *rows[8:10],
        ("Id of the document (SHA-256)", APART.id.hex()),
    ]  # fmt: skip
    assert rows[4][0] == "On the device"
    assert rows[4][1].startswith("The answers are changed at random before anything is sent.")
    begin, end = "1970-01-01 00:16 UTC", "1970-01-01 00:20 UTC"
    assert rows[5][1].startswith(
        f"At https://a.example. It receives encrypted reports from {begin} to {end}, "
    )
    assert f"at the latest after {end};" in rows[8][1]
    assert "<title>Privacy notice: A test</title>" in page
    assert page.startswith("<!doctype html>\n<html lang=en dir=ltr>")
    whole = write_privacy(serve(texts=live.make_collection().texts))
    assert len(re.findall("<tr>", whole)) == len(rows) + 1  # one operator has both servers
    assert "The answers are changed at random" not in whole  # there is no floor
