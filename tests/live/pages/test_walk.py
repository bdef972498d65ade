"""A walk through the pages: what is shown is what happens, nothing is lost, and words come from the numbers."""

import re
import time
from urllib.parse import urlsplit

import pytest

import live_support as live
from live.pages.test_pages import Visit, answer, browser, demonstration
from shuffledp.live.wire import Collection, Pledge, Windows

__all__ = ["browser", "demonstration"]
pytestmark = pytest.mark.xdist_group("browser")

CODE, OTHER = "ab" * 32, "cd" * 32


def show_page(visit, place, *, tokens=False, windows=None, replies=None, state="open", **pledge):
    """Open the page of a made-up collection; a reply is a reason to refuse, None to accept, or False for no network."""
    now = int(time.time())
    promised = {"epsilon": 1.0, "delta": 1e-6, "honest": 1.0, "min_batch": 10_000, **pledge}
    floor = promised.pop("local_epsilon", 3.0)
    collection = live.make_collection(
        questions=live.questions(min(floor, 3.0))[:1],
        windows=windows or Windows(start=now - 100, seconds=86_400, count=1, grace=0),
        url="{0.scheme}://{0.netloc}".format(urlsplit(place)),
        tokens=tokens,
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
    listed = {"windows": [{"window": 0, "state": state}]}
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
        (-100, "expired", "This survey was closed, and takes no more answers."),
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


def test_closing_says_what_it_deletes_and_asks(browser, demonstration):
    with Visit(browser) as visit:
        answer(visit, demonstration["page"])
        visit.page.wait_for_selector("#state[data-state=acknowledged]")
    with Visit(browser) as desk:
        page = desk.page
        page.goto(demonstration["desk"])
        article = page.locator("article").first
        article.locator("text=Close it now").click()
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
        assert article.locator("text=takes answers").count() >= 1
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
