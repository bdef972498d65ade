"""A walk through the pages: what is shown is what happens, nothing is lost, and words come from the numbers."""

import dataclasses
import math
import re
import time
from urllib.parse import urlsplit

import numpy as np
import pytest

import live_support as live
from live import server_support as servers
from live.pages.test_pages import AXE, Visit, answer, find_barriers
from live.wire.vectors import ask_all
from shuffledp import protocols
from shuffledp.live import pages
from shuffledp.live.analyzer import open_records
from shuffledp.live.results import describe_collection
from shuffledp.live.servers import describe_dummies
from shuffledp.live.wire import Collection, Noise, Pledge, Windows
from shuffledp.live.wire.document import Texts
from shuffledp.live.wire.question import Asking, Kind, Part
from shuffledp.live.wire.report import open_report, split_upload
from shuffledp.protocols.server_noise import make_server_noise
from support import need

pytestmark = pytest.mark.xdist_group("browser")

CODE, OTHER = "ab" * 32, "cd" * 32


def show_page(
    visit,
    place,
    *,
    tokens=False,
    windows=None,
    replies=None,
    state="open",
    results=None,
    prepare=None,
    questions=None,
    texts=None,
    **pledge,
):
    """Open the page of a made-up collection; a reply is a reason to refuse, None to accept, or False for no network.

    `prepare` gets what the analyzer publishes, which the page finds at `results`.
    """
    now = int(time.time())
    promised = {"epsilon": 1.0, "delta": 1e-6, "honest": 1.0, "min_batch": 10_000, **pledge}
    floor = promised.pop("local_epsilon", 3.0)
    collection = live.make_collection(
        questions=questions or live.questions(min(floor, 3.0))[:1],
        windows=windows or Windows(start=now - 100, seconds=86_400, count=1, grace=0),
        url="{0.scheme}://{0.netloc}".format(urlsplit(place)),
        tokens=tokens,
        texts=texts,
        pledge=Pledge(local_epsilon=floor, **promised),
    )
    bodies, left = [], list(replies or [])

    def take(route):
        reply = left.pop(0) if left else None
        if reply is False:
            return route.abort()
        bodies.append(route.request.post_data_buffer)
        failed = [] if reply is None else [{"index": 0, "reason": reply}]
        return route.fulfill(json={"accepted": 1 - len(failed), "failed": failed})

    page = visit.page
    page.route("**/collections/*", lambda route: route.fulfill(body=collection.raw))
    page.route("**/reports", take)
    listed = {"windows": [{"window": 0, "state": state}], "results": results}
    if prepare is not None:
        prepare.update(publish(collection))
    page.route("**/windows", lambda route: route.fulfill(json=listed))
    page.goto(f"{place}#{collection.id.hex()}")
    page.wait_for_selector("h1")
    return collection, bodies


@pytest.fixture
def place(demonstration):
    """The address of a participation page, without the id of its collection."""
    return demonstration["page"].partition("#")[0]


def choose(page):
    page.locator("input[type=radio]").first.check()


def test_a_report_that_was_not_sent_is_sent_when_the_page_opens_again(browser, place):
    with Visit(browser) as visit:
        _, bodies = show_page(visit, place, replies=[False])
        choose(visit.page)
        visit.page.click("button[type=submit]")
        visit.page.wait_for_selector("text=No connection")
        assert visit.page.is_visible("button.again")
        assert bodies == []
        visit.page.reload()
        visit.page.wait_for_selector("#state[data-state=acknowledged]")
        assert len(bodies) == 1
        assert visit.page.is_hidden("button.again")
        visit.check()


def test_a_wrong_code_can_be_mended_and_spends_nothing_twice(browser, place):
    with Visit(browser) as visit:
        page = visit.page
        _, bodies = show_page(visit, place, tokens=True, replies=["unknown_token", "token_spent"])
        choose(page)
        page.fill("#token", "ab")
        page.click("button[type=submit]")
        page.wait_for_selector("text=A code has 64 characters")
        assert bodies == [], "what cannot be a code is noticed before anything is spent"
        page.fill("#token", CODE)
        page.click("button[type=submit]")
        page.wait_for_selector("text=This code is not known here")
        assert page.evaluate("document.activeElement.id") == "token"
        page.fill("#token", OTHER)
        page.click("#mend button")
        page.wait_for_selector("text=This code was used already")
        page.reload()
        page.wait_for_selector("#state[data-state=acknowledged]")
        assert len(bodies) == 3
        visit.check()


@pytest.mark.parametrize(
    ("starts", "state", "said"),
    [
        (3600, "open", "This survey has not started. It takes answers from"),
        (-90_000, "open", "This survey is over: it took answers until"),
        (-100, "sealed", "This survey was closed, and takes no more answers."),
        pytest.param(
            -100,
            "expired",
            "This survey was closed, and takes no more answers.",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_survey_that_takes_no_answers_says_why_and_has_no_form(
    browser, place, starts, state, said
):
    windows = Windows(start=int(time.time()) + starts, seconds=86_400, count=1, grace=0)
    with Visit(browser) as visit:
        show_page(visit, place, windows=windows, state=state)
        visit.page.wait_for_selector("#closed")
        assert visit.page.inner_text("#closed").startswith(said)
        assert visit.page.query_selector("form") is None
        visit.check()


@pytest.mark.parametrize(
    ("reports", "said"),
    [
        (9_999, "Too few people took part, so all answers were deleted unread."),
        (
            10_000,
            "The result is not published yet.",
        ),  # given up by a restored shuffler: perhaps it was counted
    ],
)
def test_only_rounds_with_too_few_reports_are_said_to_be_deleted_unread(
    browser, place, reports, said
):
    with Visit(browser) as visit:
        show_page(visit, place, state="expired")
        listed = {"windows": [{"window": 0, "state": "expired", "reports": reports}]}
        visit.page.route("**/windows", lambda route: route.fulfill(json=listed))
        visit.page.reload()
        visit.page.wait_for_selector("#result")
        assert visit.page.inner_text("#result").startswith(said)
        visit.check()


TIERS = [
    (0.1, 1.0, "almost nothing about you: ", 52.5, "says little about the answer"),
    (1.0, 3.0, "tells little about you: ", 73.2, "nobody can be sure"),
    (2.5, 3.0, "can tell something about you: ", 92.5, "nobody can be sure"),
    (
        8.0,
        8.0,
        "This survey protects you only weakly: ",
        99.97,
        "almost certainly knows your answer",
    ),
]


@pytest.mark.parametrize(("epsilon", "floor", "published", "right", "noise"), TIERS)
def test_words_come_from_the_numbers(browser, place, epsilon, floor, published, right, noise):
    with Visit(browser) as visit:
        show_page(visit, place, epsilon=epsilon, local_epsilon=floor)
        said = visit.page.inner_text("#published")
        assert published in said
        (percent,) = re.findall(r"at most ([\d.]+) % of the time", said)
        assert right <= float(percent) < right + 0.11
        assert noise in visit.page.inner_text("#noise")
        whole = visit.page.inner_text("main")
        assert "100.0 %" not in whole
        assert "Nobody gets the answer itself" not in whole
        visit.check()


def test_the_page_says_which_numbers_it_has_recomputed(browser, place):
    """Of the servers' noise; of the devices' they are claimed."""
    noisy = servers.questions(rates=(0.5, 1.0), most=(30, 30))[:1]
    none = {"local_epsilon": math.inf, "trust_the_shuffler": True, "noise": Noise.SERVERS}
    with Visit(browser) as visit:
        show_page(visit, place)
        visit.page.get_by_text("claimed by the survey").first.wait_for(state="attached")
    with Visit(browser) as visit:
        show_page(visit, place, questions=noisy, **none)
        visit.page.get_by_text("recomputed here, from the noise").first.wait_for(state="attached")


NO_FLOOR = {"local_epsilon": math.inf, "trust_the_shuffler": True, "noise": Noise.SERVERS}
RANDOM = ("changed at random", "hardly changed", "randomized on the respondent's own device")


def test_a_page_of_a_survey_without_a_floor_says_nowhere_that_the_device_changes_answers(
    browser, place, demonstration
):
    """There the device sends the answer itself, and both servers together could read it."""
    noisy = servers.questions(rates=(0.5, 1.0), most=(30, 30))
    pets = Part(name="pets", text="Which pets?")
    several = [
        dataclasses.replace(
            noisy[1], name=name, text=name, asking=Asking(kind=Kind.SEVERAL, part_of=pets)
        )
        for name in ("dog", "cat")
    ]
    asked, shown = (noisy[0], *several), {}
    with Visit(browser) as visit:
        page = visit.page
        page.route("**/results.json", lambda route: route.fulfill(json=shown))
        show_page(visit, place, questions=asked, **{**NO_FLOOR, "epsilon": 3.1})
        page.wait_for_selector("form")
        page.click("text=Try it with a made-up answer")
        page.wait_for_selector("#drawn")
        assert "does not hide your answer" in page.inner_text("#noise")
        assert "nothing hides your answer from them" in page.inner_text("#guess")
        assert page.query_selector("#repeated") is None
        before = page.inner_text("main")
        page.check("input[value=bicycle]")
        page.check("input[name=dog]")
        page.click("button[type=submit]")
        page.check("#accept")
        page.click("button[type=submit]")
        page.wait_for_selector("#sent")
        sent = page.inner_text("#sent")
        assert "bicycle" in sent
        assert "This device hid nothing of your answers" in sent
        visit.check()
    with Visit(browser) as visit:
        page = visit.page
        page.route("**/results.json", lambda route: route.fulfill(json=shown))
        more = {"results": demonstration["results"], "prepare": shown}
        show_page(visit, place, questions=noisy[:1], state="deleted", **more, **NO_FLOOR)
        page.wait_for_selector("#result svg")
        page.click("text=Methods paragraph")
        methods = page.inner_text(".paragraph")
        assert "the respondent's own device, which added no noise" in methods
        visit.check()
    for text in (before, sent, methods):
        assert [each for each in RANDOM if each in text] == []


@pytest.mark.parametrize(("floor", "noise"), [(1.0, "says little"), (2.9, "nobody can be sure")])
def test_a_page_of_several_reports_says_how_one_is_changed_and_counts_all_of_them(
    browser, place, floor, noise
):
    windows = Windows(start=int(time.time()) - 100, seconds=86_400, count=9, grace=0)
    with Visit(browser) as visit:
        several = {"reports_per_device": 4, "composed": False, "trust_the_shuffler": True}
        show_page(visit, place, windows=windows, local_epsilon=floor, **several)
        said = {each: visit.page.inner_text(f"#{each}") for each in ("noise", "repeated", "guess")}
        assert noise in said["noise"]
        assert "up to 4 times" in said["repeated"]
        (percent,) = re.findall(r"at most ([\d.]+) % of the time", said["guess"])
        right = 100 / (1 + math.exp(-4 * floor))
        assert right <= float(percent) < right + 0.11
        visit.check()
    with Visit(browser) as visit:
        show_page(visit, place)
        assert visit.page.query_selector("#repeated") is None


def test_tables_on_a_phone_break_no_word(browser, place, demonstration):
    shown = {}
    with Visit(browser, viewport={"width": 320, "height": 640}) as visit:
        page = visit.page
        page.route("**/results.json", lambda route: route.fulfill(json=shown))
        show_page(visit, place, state="deleted", results=demonstration["results"], prepare=shown)
        page.wait_for_selector("#result svg")
        page.click("#result .numbers summary")
        row = page.locator("#result .numbers tbody tr").first
        assert row.locator("td").first.inner_text() == "car"
        lines = "(each) => each.getBoundingClientRect().height / parseFloat(getComputedStyle(each).lineHeight)"
        assert row.evaluate(lines) < 2
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
        visit.check()


def test_the_methods_paragraph_is_about_all_rounds_and_says_that_one_question_was_answered(
    browser, place, demonstration
):
    shown = {}
    with Visit(browser) as visit:
        page = visit.page
        page.route("**/results.json", lambda route: route.fulfill(json=shown))
        show_page(visit, place, state="deleted", results=demonstration["results"], prepare=shown)
        page.wait_for_selector("#result svg")
        one = "Each respondent sent the answer to one question only"
        page.click("text=Methods paragraph")
        assert "800 reports were opened" in page.inner_text(".paragraph")
        assert one not in page.inner_text(".paragraph")
        (first,) = shown["results"]
        first["promise"]["one_question"] = True
        shown["results"].append({**first, "window": 1, "reports": 450})
        page.reload()
        page.wait_for_selector("#result svg")
        page.click("text=Methods paragraph")
        assert "1,250 reports were opened" in page.inner_text(".paragraph")
        assert one in page.inner_text(".paragraph")
        visit.check()


def test_results_that_cannot_be_shown_now_are_asked_for_again(browser, demonstration):
    away = [True]

    def reply(route):
        return (
            route.fulfill(status=503, json={"title": "unavailable"}) if away else route.continue_()
        )

    with Visit(browser) as visit:
        visit.page.route("**/results.json", reply)
        visit.page.goto(demonstration["results"])
        visit.page.wait_for_selector("text=The results cannot be shown now")
        away.clear()
        visit.page.wait_for_selector("text=Nothing is published yet")
        visit.check()


def test_closing_says_what_it_deletes_and_asks(browser, demonstration):
    with Visit(browser) as visit:
        answer(visit, demonstration["page"])
        visit.page.wait_for_selector("#state[data-state=acknowledged]")
    with Visit(browser) as desk:
        page = desk.page
        page.goto(demonstration["desk"])
        article = page.locator("article", has_text="Close it now").last
        article.locator("text=Close it now").click()
        article = page.locator("article", has=page.locator("[role=alertdialog]"))
        said = article.locator("[role=alertdialog] p").inner_text()
        assert re.fullmatch(
            r"[\d,]+ more reports are needed for a result\. Closing now deletes (the 1 report|all [\d,]+ reports) "
            r"of this round, and nothing is published\.",
            said,
        )
        assert page.evaluate("document.activeElement.textContent") == "Keep it open"
        time.sleep(3.5)  # the desk looks again every three seconds
        assert article.locator("[role=alertdialog]").is_visible()
        assert page.evaluate("document.activeElement.textContent") == "Keep it open"
        article.locator("text=Keep it open").click()
        page.locator("[role=alertdialog]").wait_for(state="detached")
        assert page.locator("text=takes answers").count() >= 1
        desk.check()


def test_what_is_previewed_is_what_is_started(browser, demonstration):
    with Visit(browser, viewport={"width": 1200, "height": 900}) as desk:
        page, previews = desk.page, []
        page.on(
            "response",
            lambda reply: previews.append(reply.json()) if reply.url.endswith("preview") else None,
        )
        page.goto(demonstration["desk"])
        page.wait_for_selector("#preview svg")
        page.fill(".categories", "car, red\nbicycle\nother")
        page.fill("[name=people]", "20000")
        page.click("text=Promise, protection and time")
        page.fill("[name=error]", "5")
        page.wait_for_selector("#preview >> text=car, red", timeout=60_000)
        page.wait_for_selector("#make:enabled")
        wanted = previews[-1]
        assert wanted["local_epsilon"] < 1
        page.click("#make")
        link = page.wait_for_selector("#made", timeout=60_000).get_attribute("href")
        raw = page.request.get(link.partition("#")[0].replace("/c/", "/collections/")).body()
        started = Collection.read(raw, bytes.fromhex(wanted["draft"]))
        assert started.pledge.local_epsilon == wanted["local_epsilon"]
        assert started.pledge.epsilon == wanted["epsilon"]
        desk.check()


def publish(collection):
    """What the analyzer shows once it has published a result of the first question."""
    rows = [
        {"label": label, "value": value, "stderr": 10.0, "low": max(0.0, value - 20), "high": 520.0}
        for label, value in {"car": 500.0, "bicycle": 300.0, "bus": -3.0}.items()
    ]
    answered = {"people": 800, "of": 800, "estimate": rows}
    result = {
        "window": 0,
        "level": 0.95,
        "promise": collection.pledge.to_dict(),
        "questions": {"way": answered},
        "version": "0.1.0",
    }
    return {"collection": describe_collection(collection), "results": [result]}


def test_a_closed_survey_shows_its_result(browser, place, demonstration):
    with Visit(browser) as visit:
        page = visit.page
        shown = {}
        page.route("**/results.json", lambda route: route.fulfill(json=shown))
        collection = show_page(
            visit, place, state="deleted", results=demonstration["results"], prepare=shown
        )[0]
        page.wait_for_selector("#result svg")
        said = page.inner_text("#result")
        assert "800 people answered in round 1." in said
        assert "500 (63 %)" in page.inner_html("#result svg")
        assert "-3 (0 %)" in page.inner_html("#result svg"), "no share is minus nothing"
        assert "It is shown as it came out" in said, "an estimate below 0 is explained"
        assert page.query_selector("form") is None
        page.click("text=Methods paragraph")
        methods = page.inner_text(".paragraph")
        for part in ("Kairouz", "epsilon = 1,", "delta = 0.000001", collection.id.hex(), "800"):
            assert part in methods
        assert "One operator ran the shuffler and the analyzer" in methods
        csv, xlsx = (page.get_attribute(f"a[download$={kind}]", "href") for kind in ("csv", "xlsx"))
        assert csv == f"{demonstration['results']}/results.csv"
        assert page.request.get(csv).status == page.request.get(xlsx).status == 200
        drawn = "sent the answer to one question only, chosen at random"
        assert drawn not in said
        shown["results"][0]["promise"]["one_question"] = True
        page.reload()
        page.wait_for_selector("#result svg")
        assert drawn in page.inner_text("#result")
        visit.check()


def test_the_result_of_another_survey_is_not_shown(browser, place, demonstration):
    with Visit(browser) as visit:
        shown = {}
        visit.page.route("**/results.json", lambda route: route.fulfill(json=shown))
        show_page(visit, place, state="deleted", results=demonstration["results"], prepare=shown)
        visit.page.wait_for_selector("#result")
        shown["collection"]["id"] = "0" * 64
        visit.page.reload()
        visit.page.wait_for_selector("text=The result is not published yet")


def test_what_is_wrong_is_said_beside_the_field(browser, place):
    asked = ask_all()
    numbers = [each for each in asked if each.task in ("mean", "quantiles") and not each.range][:1]
    with Visit(browser) as visit:
        page = visit.page
        show_page(visit, place, questions=(*live.questions(1.0)[:1], *numbers))
        name = numbers[0].name
        page.click("button[type=submit]")
        page.wait_for_selector("text=2 answers need another look")
        first = page.locator("fieldset").first
        assert first.locator(".error").inner_text() == "Please choose an answer."
        assert first.locator("[role=radiogroup]").get_attribute("aria-invalid") == "true"
        assert page.evaluate("document.activeElement.value") == "car"
        choose(page)
        assert first.locator(".error").inner_text() == "", "it goes when it is mended"
        for given, said in {
            "many": "Please write a number, such as",
            "1,500": "Is this 1500 or 1.500? Please write the number without thousands",
            "1e9": "Please write a number from",
        }.items():
            page.fill(f"input[name={name}]", given)
            page.click("button[type=submit]")
            page.wait_for_selector(f"text={said}")
            assert page.get_attribute(f"input[name={name}]", "aria-invalid") == "true"
            assert page.evaluate("document.activeElement.name") == name
        described = page.get_attribute(f"input[name={name}]", "aria-describedby").split()
        assert all(page.query_selector(f"[id='{each}']") for each in described)
        visit.check()


READ = """(texts) => import("/assets/strings.js").then(async ({ load, readNumber }) => {
  const found = {};
  for (const language of ["en", "de"]) {
    await load(language, "answer");
    found[language] = texts.map(readNumber);
  }
  return found;
})"""


def test_numbers_are_read_as_people_write_them(browser, place):
    texts = ["1,5", "1.5", "1,500", "1.500", "0,125", "-3", "1e-8", "12.345,6", "", "-", "1500"]
    with Visit(browser) as visit:
        show_page(visit, place)
        found = visit.page.evaluate(READ, texts)
    both = {"one": "1500", "other": "1.500"}
    assert found["en"] == [1.5, 1.5, both, 1.5, 0.125, -3, 1e-8, None, None, None, 1500]
    both = {"one": "1500", "other": "1,500"}
    assert found["de"] == [1.5, 1.5, 1.5, both, 0.125, -3, 1e-8, None, None, None, 1500]


def test_what_was_sent_is_shown_afterwards_and_never_before(browser, place):
    with Visit(browser) as visit:
        page = visit.page
        collection, bodies = show_page(visit, place)
        choose(page)
        page.click("text=Try it with a made-up answer")
        page.wait_for_selector("#odds")
        assert page.query_selector("#sent") is None
        page.click("button[type=submit]")
        shown = page.wait_for_selector("#sent dd").inner_text()
        assert page.locator("#sent").count() == 1
        visit.check()
    (sealed,) = split_upload(collection, bodies[0])
    opened = open_report(collection, sealed, live.outer_secrets(collection))
    rows = np.frombuffer(opened.inners, dtype=np.uint8).reshape(-1, collection.inner_size)
    plains, _ = open_records(collection, 0, live.secret("inner"), rows)
    assert collection.questions[0].labels[plains[0][1]] == shown


@pytest.mark.parametrize(
    ("floor", "said"),
    [
        (3.0, "About 9 times in 10 the answer itself is sent"),
        pytest.param(
            1.0,
            "About 6 times in 10 the answer itself is sent",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_odds_are_those_of_the_law(browser, place, floor, said):
    with Visit(browser) as visit:
        show_page(visit, place, local_epsilon=floor, epsilon=min(floor, 1.0))
        visit.page.click("text=Try it with a made-up answer")
        assert visit.page.wait_for_selector("#odds").inner_text().startswith(said)


@pytest.mark.parametrize(
    ("floor", "said"),
    [
        (2.0, "About 8 times in 10 the answer itself is sent"),
        (None, "The answer itself is sent: encrypted, but unchanged."),
    ],
)
def test_the_odds_are_told_where_the_servers_add_the_noise(browser, place, floor, said):
    """A number is rounded first, and what is sent is a number, not the place of one."""
    way = servers.questions(floor, rates=(0.5, 1.0), most=(30, 30))[0]
    common = {"task": "mean", "rate": 0.5, "most": 30, "epsilon": floor}
    made = make_server_noise(lower=0.0, upper=120.0, steps=4, **common)
    noise = describe_dummies(made)
    number = dataclasses.replace(
        way, name="km", text="How far?", task="mean", protocol=made, noise=noise, labels=None
    )
    pledge = {"local_epsilon": 8.0} if floor else {"local_epsilon": math.inf}
    pledge |= {"trust_the_shuffler": True, "noise": Noise.SERVERS, "epsilon": 2.1}
    with Visit(browser) as visit:
        page = visit.page
        show_page(visit, place, questions=(way, number), **pledge)
        page.click("text=Try it with a made-up answer")
        assert page.wait_for_selector("#odds").inner_text().startswith(said)
        assert page.inner_text("#drawn") in way.labels
        page.select_option("#made-up-question", "1")
        told = page.inner_text("#odds")
        assert told.startswith(f"The answer is first rounded to one of 5 values. {said[:6]}")
        levels = {f"the number {each}" for each in (0, 30, 60, 90, 120)}
        for _ in range(20):
            assert page.inner_text("#drawn") in levels
            page.click("text=Draw again")
        assert page.inner_text("#tally") == ""
        visit.check()


def test_a_page_without_protection_says_that_it_needs_https(browser, place):
    with Visit(browser) as visit:
        visit.page.add_init_script("Object.defineProperty(window, 'isSecureContext', {value: 0})")
        visit.page.goto(f"{place}#{'0' * 64}")
        visit.page.wait_for_selector("text=an address that begins with https")


@pytest.mark.parametrize("which", ["page", "results", "desk"])
def test_without_scripts_the_pages_say_so(browser, demonstration, which):
    with Visit(browser, java_script_enabled=False) as visit:
        visit.page.goto(demonstration[which])
        assert visit.page.locator("text=Loading").is_hidden()
        assert visit.page.locator("main h1").is_visible()


def test_the_page_works_in_a_subfolder_of_another_host(browser, place, tmp_path):
    pages.write_site(tmp_path / "site")
    with Visit(browser) as visit:
        page = visit.page
        origin = "{0.scheme}://{0.netloc}".format(urlsplit(place))

        def serve(route):
            path = tmp_path / "site" / urlsplit(route.request.url).path.partition("/deep/er/")[2]
            route.fulfill(path=path)

        page.route("**/deep/er/**", serve)
        collection = show_page(visit, place)[0]
        page.goto(f"{origin}/deep/er/index.html#link={collection.link}")
        page.wait_for_selector("form")
        page.click("text=Try it with a made-up answer")
        page.wait_for_selector("#odds")
        visit.check()


def ask_in_every_way():
    """A scale that may be skipped, several choices, a yes or no in its own words, and a number with a unit."""
    way, home = live.questions(0.5)
    scale = dataclasses.replace(
        way,
        name="scale",
        text="Wie zufrieden sind Sie?",
        protocol=protocols.krr.make_local(k=6, epsilon=0.5),
        labels=("1", "2", "3", "4", "5", "lieber nicht"),
        asking=Asking(kind=Kind.SCALE, ends=("gar nicht", "sehr"), skip=True, description="Heute."),
    )
    part = Part(name="pets", text="Welche Tiere haben Sie?")
    several = [
        dataclasses.replace(
            home, name=name, text=text, asking=Asking(kind=Kind.SEVERAL, part_of=part)
        )
        for name, text in {"pets_1": "Hund", "pets_2": "Katze"}.items()
    ]
    number = next(each for each in ask_all() if each.task == "mean" and not each.range)
    number = dataclasses.replace(number, asking=Asking(kind=Kind.NUMBER, unit="km"))
    return scale, *several, dataclasses.replace(home, labels=("nö", "klar")), number


def test_results_know_what_the_ends_of_a_scale_mean():
    described = describe_collection(live.make_collection(questions=ask_in_every_way()))
    ends = [each["scale"] for each in described["questions"]]
    assert ends == [{"1": "gar nicht", "5": "sehr"}, None, None, None, None]


@pytest.mark.parametrize(
    ("language", "direction", "send", "scheme"),
    [
        ("ar", "rtl", "ع Send", "light"),
        ("de", "ltr", "Senden", "dark"),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in (
                ("ar", "rtl", "ع Send", "dark"),
                ("de", "ltr", "Senden", "light"),
                ("en", "ltr", "Send", "light"),
                ("en", "ltr", "Send", "dark"),
            )
        ),
    ],
)
def test_every_kind_of_question_in_the_language_of_the_survey(
    browser, place, language, direction, send, scheme
):
    need(AXE.exists(), "axe-core")
    texts = Texts(
        title="Eine Umfrage",
        language=language,
        direction=direction,
        welcome="Willkommen.",
        consent="Ich stimme zu.",
        contact="amt@umfrage.example",
    )
    size = {"width": 390, "height": 844}
    with Visit(browser, bypass_csp=True, color_scheme=scheme, viewport=size) as visit:
        page = visit.page
        asked = ask_in_every_way()
        _, bodies = show_page(
            visit, place, questions=asked, texts=texts, epsilon=7.0, local_epsilon=7.9
        )
        page.wait_for_selector("form")
        assert page.get_attribute("html", "lang") == language
        assert page.get_attribute("html", "dir") == direction
        assert page.inner_text("button[type=submit]") == send
        assert page.inner_text("#welcome") == "Willkommen."
        assert "amt@umfrage.example" in page.inner_text("#contact")
        assert "gar nicht" in page.inner_text("fieldset[name=scale]")
        assert "klar" in page.inner_text("fieldset[name=home]")
        page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
        page.wait_for_selector("#odds")
        page.click("button[type=submit]")
        assert page.locator(".error", has_text=re.compile(".")).count() == 3
        assert find_barriers(page) == []
        page.check("[name=pets_2]")
        page.check("input[name=home][value=klar]")
        page.fill(f"input[name={asked[-1].name}]", "1,5")
        page.click("button[type=submit]")
        assert page.evaluate("document.activeElement.id") == "consent"
        page.check("#consent")
        page.click("button[type=submit]")
        page.wait_for_selector("#state[data-state=acknowledged]")
        page.wait_for_selector("#sent")
        assert find_barriers(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert len(bodies) == 1
        visit.check()
