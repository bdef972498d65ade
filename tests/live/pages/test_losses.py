"""Whatever people do with the page, a report that was sent arrives, once: random walks against a real store."""

import hashlib
import json
import random
import time
from collections import Counter
from urllib.parse import urlsplit

import pytest

import live_support as live
from live.pages.test_pages import Visit
from shuffledp.live.shuffler import open_reports
from shuffledp.live.wire import Windows
from shuffledp.live.wire.report import split_upload

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.slow]
WALKS, STEPS = 50, 7
FORM = "form:not(#mend) button[type=submit]"
ARRIVED = "#state.good"
HURRY = 5000


class Shuffler:
    """A store with codes, behind a network that is up, down, or loses replies."""

    def __init__(self, folder, url):
        windows = Windows(start=int(time.time()) - 100, seconds=86_400, count=1, grace=0)
        asked = live.questions(1.5)[:1]
        self.collection = live.make_collection(
            questions=asked, windows=windows, url=url, tokens=True
        )
        self.store = live.make_store(folder, self.collection)
        self.network = "up"
        self.seen = Counter()

    def issue(self, code):
        self.store.issue_tokens([hashlib.sha256(bytes.fromhex(code)).digest()])

    def count(self):
        return self.store.count(0)

    def take(self, route):
        if self.network == "down":
            self.seen["down"] += 1
            return route.abort()
        sealed = split_upload(self.collection, route.request.post_data_buffer)
        (opened,) = open_reports(self.collection, sealed, live.outer_secrets(self.collection))
        (reason,) = self.store.admit([opened], time.time())
        self.seen[reason] += 1
        if self.network == "mute":
            return route.abort()
        failed = [] if reason is None else [{"index": 0, "reason": reason}]
        return route.fulfill(json={"accepted": 1 - len(failed), "failed": failed})


class Person:
    """Somebody with a device, a code, and no patience."""

    def __init__(self, visit, shuffler, place, seed):
        self.visit, self.shuffler, self.chance = visit, shuffler, random.Random(seed)  # noqa: S311
        self.address = f"{place}#{shuffler.collection.id.hex()}"
        self.code, self.wrong = f"{seed:02x}" * 32, "ee" * 32
        self.page = visit.page
        from playwright.sync_api import TimeoutError as Late

        self.Late = Late
        for path, reply in {
            "**/collections/*": lambda route: route.fulfill(body=shuffler.collection.raw),
            "**/windows": lambda route: route.fulfill(
                json={"windows": [{"window": 0, "state": "open"}], "results": None}
            ),
            "**/reports": shuffler.take,
        }.items():
            visit.context.route(path, reply)
        shuffler.issue(self.code)

    def open(self):
        self.page.goto(self.address)
        self.page.wait_for_selector("h1")

    def reopen(self):
        self.page.close()
        self.page = self.visit.context.new_page()
        self.open()

    def enter(self, code):
        """Send the form, or mend the code, whichever there is; it may go while somebody types."""
        try:
            if self.page.query_selector("#mend"):
                self.page.fill("#mend #token", code, timeout=HURRY)
                self.page.click("#mend button", timeout=HURRY)
            elif self.page.query_selector(f"{FORM}:enabled"):
                self.page.locator("input[type=radio]").first.check(timeout=HURRY)
                self.page.fill("#token", code, timeout=HURRY)
                self.page.click(FORM, timeout=HURRY)
        except self.Late:
            self.shuffler.seen["late"] += 1

    def blink(self):
        self.visit.context.set_offline(True)
        self.visit.context.set_offline(False)

    def again(self):
        try:
            if self.page.is_visible("button.again"):
                self.page.click("button.again", timeout=HURRY)
        except self.Late:
            self.shuffler.seen["late"] += 1

    def wander(self):
        """Take steps in a hurry: nothing is waited for."""
        self.open()
        for _ in range(STEPS):
            self.shuffler.network = self.chance.choice(("up", "down", "down", "mute"))
            step = self.chance.choice(
                ("enter", "enter", "close", "reload", "reopen", "blink", "again")
            )
            if step in ("enter", "close"):
                self.enter(self.chance.choice((self.code, self.code, self.wrong)))
            if step in ("close", "reopen"):
                self.reopen()
            elif step == "reload":
                self.page.reload()
                self.page.wait_for_selector("h1")
            elif step in ("blink", "again"):
                getattr(self, step)()

    def come_back(self):
        """With a network and the right code, do what the page asks for, until it says that the report was taken."""
        self.shuffler.network = "up"
        self.reopen()
        self.page.wait_for_selector(f"{ARRIVED}, #mend, {FORM}")
        self.enter(self.code)
        try:
            self.page.wait_for_selector(ARRIVED, timeout=60_000)
        except self.Late:
            return False
        return True


def test_nothing_is_lost_in_fifty_random_walks(browser, demonstration, tmp_path):
    place = demonstration["page"].partition("#")[0]
    shuffler = Shuffler(tmp_path, "{0.scheme}://{0.netloc}".format(urlsplit(place)))
    lost = []
    for seed in range(WALKS):
        before = shuffler.count()
        with Visit(browser, viewport={"width": 390, "height": 844}) as visit:
            person = Person(visit, shuffler, place, seed)
            person.wander()
            arrived = person.come_back()
            if not arrived or shuffler.count() != before + 1:
                said = person.page.inner_text("#state")
                lost.append((seed, said, shuffler.count() - before))
            visit.check()
    print(json.dumps({str(key): value for key, value in shuffler.seen.items()}))  # noqa: T201
    assert lost == []
    assert min(shuffler.seen[each] for each in (None, "down", "unknown_token")) >= 10, "they walked"
