"""The pages in a real browser: an operator makes a survey, people answer in the page and from Python, a result appears."""

import json
import re
import shutil
import subprocess
import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

import live_support as live
from live.wire.vectors import ask_all
from shuffledp.live import pages, serve
from shuffledp.live.analyzer import count_messages, open_records
from shuffledp.live.results import describe_collection
from shuffledp.live.wire import Collection, Windows
from shuffledp.live.wire.report import open_report, split_upload
from support import need

ROOT = Path(__file__).parents[3]
AXE = ROOT / ".venv" / "npm" / "node_modules" / "axe-core" / "axe.min.js"
pytestmark = pytest.mark.xdist_group("browser")
PATIENCE = (
    180_000  # ms: a survey starts two processes, 2 s of work, which took 35 s beside 20 others
)


class Visit:
    """A page that remembers what went wrong and where it went."""

    def __init__(self, browser, **options):
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(PATIENCE)
        self.page = self.context.new_page()
        self.errors, self.hosts = [], set()
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.hosts.add(urlsplit(request.url).hostname))
        self.page.on("dialog", lambda dialog: self.errors.append(dialog.message))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()

    def check(self):
        assert self.errors == []
        assert self.hosts <= {"127.0.0.1", None}, "a page asks nobody else"


def answer(visit, url, way="bicycle", home="yes"):
    page = visit.page
    page.goto(url)
    page.check(f"input[value={way}]")
    page.check(f"input[name=home][value={home}]")
    page.click("button[type=submit]")


def test_an_answer_is_sent_once_however_often_the_page_is_opened(browser, demonstration):
    with Visit(browser, viewport={"width": 390, "height": 844}) as visit:
        answer(visit, demonstration["page"])
        visit.page.wait_for_selector("#state[data-state=acknowledged]")
        visit.page.reload()
        visit.page.wait_for_selector("text=This device has answered already")
        assert visit.page.query_selector("form") is None
        visit.check()


def test_nothing_leaves_before_sending_and_the_illustration_is_made_up(browser, demonstration):
    with Visit(browser) as visit:
        page, posts = visit.page, []
        page.on("request", lambda request: posts.append(request.method))
        page.goto(demonstration["page"])
        page.check("input[value=car]")
        page.click("text=Try it with a made-up answer")
        drawn = set()
        for _ in range(60):
            page.click("text=Draw again")
            drawn.add(page.inner_text("#drawn"))
        assert drawn > {"car"}, "chance shows"
        assert set(posts) == {"GET"}
        visit.check()


def test_offline_then_online(browser, demonstration):
    with Visit(browser) as visit:
        visit.page.goto(demonstration["page"])
        visit.page.wait_for_selector("form")
        visit.context.set_offline(True)
        visit.page.check("input[value=bus]")
        visit.page.check("input[name=home][value=no]")
        visit.page.click("button[type=submit]")
        visit.page.wait_for_selector("text=No connection")
        visit.context.set_offline(False)
        visit.page.wait_for_selector("#state[data-state=acknowledged]")
        visit.check()


def test_two_tabs_one_report(browser, demonstration):
    with Visit(browser) as visit:
        other = visit.context.new_page()
        other.goto(demonstration["page"])
        other.wait_for_selector("form")
        answer(visit, demonstration["page"])
        visit.page.wait_for_selector("#state[data-state=acknowledged]")
        other.check("input[value=car]")
        other.check("input[name=home][value=no]")
        other.click("button[type=submit]")
        other.wait_for_selector("text=This device has answered already, perhaps in another tab")
        visit.check()


def test_numbers_by_group_quantiles_and_words_are_asked_for_and_sent(browser, demonstration):
    """What the page sends opens here, with the keys of the document that it was given."""
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(demonstration["page"]))
    windows = Windows(start=int(time.time()) - 100, seconds=86_400, count=1, grace=0)
    asked = ask_all()[-3:]
    collection = live.make_collection(questions=asked, windows=windows, url=origin)
    bodies = []

    def take(route):
        bodies.append(route.request.post_data_buffer)
        route.fulfill(json={"accepted": 1, "failed": []})

    with Visit(browser, viewport={"width": 390, "height": 844}) as visit:
        page = visit.page
        page.route("**/collections/*", lambda route: route.fulfill(body=collection.raw))
        page.route("**/reports", take)
        page.goto(demonstration["page"].split("#")[0] + "#link=" + collection.link)
        page.fill("input[name=distance]", "4.5")
        page.fill("input[name=cost]", "2.25")
        page.fill("input[name=brand]", "aces!")
        page.press("input[name=brand]", "Tab")
        page.wait_for_selector("text=Please use letters, digits, - and _ only")
        page.fill("input[name=brand]", " Ace\uff15 ")
        page.press("input[name=brand]", "Tab")
        page.wait_for_selector("text=One word: up to 4 letters, digits, - and _")
        page.click("button[type=submit]")
        page.wait_for_selector("text=Please choose a group")
        page.check("input[name='cost:group'][value='car: old']")
        page.click("button[type=submit]")
        page.wait_for_selector("#state[data-state=acknowledged]")
        visit.check()
    (sealed,) = split_upload(collection, bodies[0])
    opened = open_report(collection, sealed, live.outer_secrets(collection))
    rows = np.frombuffer(opened.inners, dtype=np.uint8).reshape(-1, collection.inner_size)
    plains, good = open_records(collection, 0, live.secret("inner"), rows)
    assert good.all()
    counted = count_messages(collection, plains)
    assert counted.dropped == {}
    assert [tally.users for tally in counted.tallies] == [1] * len(asked)


def test_a_tampered_document_is_refused(browser, demonstration):
    with Visit(browser) as visit:

        def tamper(route):
            response = route.fetch()
            route.fulfill(response=response, body=response.text().replace("bicycle", "unicycle"))

        visit.page.route("**/collections/*", tamper)
        visit.page.goto(demonstration["page"])
        visit.page.wait_for_selector("text=not the one that the link names")
        assert visit.page.query_selector("form") is None


def test_a_browser_without_the_curve_is_told(browser, demonstration):
    with Visit(browser) as visit:
        visit.page.add_init_script("crypto.subtle.generateKey = () => Promise.reject(Error('no'))")
        visit.page.goto(demonstration["page"])
        visit.page.wait_for_selector("text=This browser lacks a piece of cryptography")


HOSTILE = "<img src=x onerror=document.body.dataset.hacked=1> & co"


def test_the_whole_story(browser, demonstration):
    """Made, shared, answered by 100 devices and one person with a phone, closed and read: by pages alone.

    Texts that try to run do not.
    """
    with Visit(browser, viewport={"width": 1200, "height": 900}) as desk:
        page = desk.page
        page.goto(demonstration["desk"])
        page.wait_for_selector("#preview svg")
        page.fill("[name=title]", HOSTILE)
        page.fill(".words", f"Which one? {HOSTILE}")
        page.fill(".categories", f"car\nbicycle\n{HOSTILE}")
        page.fill("[name=people]", "200")
        page.click("#make:enabled")
        made = page.wait_for_selector("#made").get_attribute("href")
        article = page.locator("article", has=page.locator(f'a[href="{made}"]'))
        article.locator("text=Invite people").click()
        link = article.locator("input[readonly]").input_value()
        assert link == made
        answer_on_a_phone(browser, link)
        collection = Collection.read(*serve.fetch_document(link.replace("/c/", "/collections/")))
        truth = np.repeat([0, 1, 2], [60, 30, 10])
        assert serve.send_people(collection, 0, {"q1": truth}, workers=1).accepted == 100
        article.locator("text=Close it now").click()
        article.locator("text=the result of 101 reports is published").wait_for()
        article.locator("text=Close and publish").click()
        article.locator("section.question svg").first.wait_for()
        with page.expect_download() as saved:
            article.locator("text=Picture (PNG)").first.click()
        assert Path(saved.value.path()).read_bytes().startswith(b"\x89PNG")
        csv = article.locator("a[download$=csv]").get_attribute("href")
        assert page.request.get(csv).status == 200
        assert page.evaluate("document.body.dataset.hacked") is None
        desk.check()
        results = article.locator("text=public results").get_attribute("href")
    with Visit(browser) as visit:
        visit.page.goto(results)
        visit.page.wait_for_selector("svg")
        shown = visit.page.evaluate("fetch('/results.json').then((reply) => reply.json())")
        assert visit.page.inner_text("h1") == HOSTILE
        visit.check()
        visit.page.goto(link)
        visit.page.wait_for_selector("#result svg")
        visit.check()
    (result,) = shown["results"]
    rows = result["questions"]["q1"]["estimate"]
    assert [row["label"] for row in rows] == ["car", "bicycle", HOSTILE]
    for row, expected in zip(rows, (60, 31, 10), strict=True):
        assert abs(row["value"] - expected) <= 6.5 * row["stderr"]


def answer_on_a_phone(browser, link):
    with Visit(browser, viewport={"width": 390, "height": 844}) as visit:
        visit.page.goto(link)
        visit.page.check("input[value=bicycle]")
        visit.page.click("button[type=submit]")
        visit.page.wait_for_selector("#state[data-state=acknowledged]")
        assert visit.page.evaluate("document.body.dataset.hacked") is None
        visit.check()


@pytest.mark.slow
def test_the_desk_plans_words(browser, demonstration):
    with Visit(browser, viewport={"width": 1200, "height": 900}) as desk:
        desk.page.goto(demonstration["desk"])
        desk.page.wait_for_selector("#preview svg")
        desk.page.select_option("select.task", "words")
        said = desk.page.wait_for_selector("#preview .found").inner_text()
        assert re.search(r"Of 2,000 people \d+ must have a word", said)
        desk.check()


@pytest.mark.parametrize("words", [("cat", HOSTILE), ()], ids=["some", "none"])
def test_results_of_words(browser, demonstration, words):
    collection = live.make_collection(questions=ask_all()[-1:])
    row = {"value": 500.0, "stderr": 20.0, "low": 460.0, "high": 540.0}
    answer = {"people": 2000, "of": 2000, "found": {"found_95": 338}}
    answer["estimate"] = [{"label": word, **row} for word in words]
    promise = {"epsilon": 1.0, "delta": 1e-8, "honest": 0.9, "min_batch": 20, "local_epsilon": 3.0}
    result = {"window": 0, "level": 0.95, "promise": promise, "questions": {"brand": answer}}
    content = {"collection": describe_collection(collection), "results": [result, result]}
    with Visit(browser) as visit:
        page = visit.page
        page.route("**/results.json", lambda route: route.fulfill(json=content))
        page.goto(demonstration["results"])
        page.wait_for_selector("text=A word that 338 people have is found in 95 % of cases")
        assert page.locator("text=No word was found").count() == (not words)
        assert page.locator("svg").count() == (2 if words else 0)
        assert page.evaluate("document.body.dataset.hacked") is None
        visit.check()


def test_the_desk_wants_its_token(browser, demonstration):
    with Visit(browser) as visit:
        visit.page.goto(demonstration["desk"].partition("#")[0])
        visit.page.wait_for_selector("text=Open the link that the command printed")
        assert visit.page.query_selector("form") is None


VECTORS = """async ({ messages, words: spelt, report, documents, choices, laws }) => {
  const device = await import("/device/index.js");
  await device.loadLaws(device.LAWS);
  const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  let same = 0;
  for (const { law, cases } of messages) {
    const randomizer = device.buildRandomizer(law);
    for (const { place, words, message } of cases) {
      const sent = device.randomize({ randomizer }, place, device.listedWords(words.map(BigInt)));
      if (hex(device.encodeMessage(randomizer.code, sent)) !== message) throw new Error(law.type);
      same += 1;
    }
  }
  for (const { law, cases } of spelt) {
    const question = { name: "word", labels: null, range: null, randomizer: device.buildRandomizer(law) };
    for (const { text, code, words, message, said } of cases) {
      let place = null, wrong = "";
      try {
        place = device.findPlace(question, text);
      } catch (error) {
        wrong = error.message;
      }
      if (said ? !wrong.endsWith(said) : String(place) !== code) throw new Error(`${text}: ${place} ${wrong}`);
      const sent = said ? null : device.randomize(question, place, device.listedWords(words.map(BigInt)));
      if (!said && hex(device.encodeMessage(question.randomizer.code, sent)) !== message) throw new Error(text);
      same += 1;
    }
  }
  const collection = await device.Collection.read(new TextEncoder().encode(report.document), report.collection_id);
  const plains = device.encodeAnswers(collection, report.answers, device.listedWords(report.words.map(BigInt)));
  if (plains.map(hex).join() !== report.plains.join()) throw new Error("plains");
  const identify = async (raw) => hex(new Uint8Array(await crypto.subtle.digest("SHA-256", raw)));
  for (const { what, document, reason } of documents) {
    const raw = new TextEncoder().encode(document);
    const refused = await device.Collection.read(raw, await identify(raw)).then(() => null, (error) => error.reason);
    if (refused !== (reason ?? "law")) throw new Error(what);
    same += 1;
  }
  const one = await device.Collection.read(new TextEncoder().encode(choices.document), choices.collection_id);
  for (const { words, plain } of choices.cases) {
    const sent = device.encodeAnswers(one, choices.answers, device.listedWords(words.map(BigInt)));
    if (sent.map(hex).join() !== plain) throw new Error("choices");
    same += 1;
  }
  for (const { law, tapes } of laws) {
    const randomizer = device.buildRandomizer(law), bits = BigInt(randomizer.wordBits), width = randomizer.wordsPerInput;
    tapes.forEach((declared, code) => {
      const counts = {};
      for (let tape = 0n; tape < 1n << (bits * BigInt(width)); tape++) {
        const words = Array.from({ length: width }, (_, place) => (tape >> (bits * BigInt(place))) & ((1n << bits) - 1n));
        const sent = hex(device.encodeMessage(randomizer.code, randomizer.encode(code, words)));
        counts[sent] = (counts[sent] ?? 0) + 1;
      }
      for (const sent of new Set([...Object.keys(declared), ...Object.keys(counts)])) {
        if ((declared[sent] ?? 0) !== (counts[sent] ?? 0)) throw new Error(law.type);
      }
    });
    same += 1;
  }
  return same;
}"""


def test_vectors_in_the_browser(browser, demonstration):
    read = {
        name: json.loads((ROOT / "vectors" / f"{name}.json").read_text())
        for name in ("messages", "words", "report", "documents", "choices", "laws")
    }
    spoken = (*read["messages"], *read["words"], read["choices"])
    cases = sum(len(each["cases"]) for each in spoken)
    cases += len(read["documents"]) + len(read["laws"])
    with Visit(browser) as visit:
        visit.page.goto(demonstration["page"])
        assert visit.page.evaluate(VECTORS, read) == cases


@pytest.mark.parametrize("scheme", ["dark", pytest.param("light", marks=pytest.mark.slow)])
@pytest.mark.parametrize("which", ["page", "results", "desk"])
def test_accessibility(browser, demonstration, which, scheme):
    need(AXE.exists(), "axe-core")
    with Visit(browser, color_scheme=scheme, bypass_csp=True) as visit:
        visit.page.goto(demonstration[which])
        visit.page.wait_for_selector("#preview svg" if which == "desk" else "h1")
        visit.page.evaluate(
            "document.querySelectorAll('details').forEach((each) => (each.open = true))"
        )
        assert find_barriers(visit.page) == []


def find_barriers(page):
    """What keeps some people from using the page."""
    page.add_script_tag(path=str(AXE))
    found = page.evaluate("axe.run().then((report) => report.violations)")
    return [(each["id"], each["nodes"][0]["html"]) for each in found]


def test_fields_of_every_kind_are_accessible(browser, demonstration):
    """A choice, a number, a group and a word, and a word that is none."""
    need(AXE.exists(), "axe-core")
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(demonstration["page"]))
    windows = Windows(start=int(time.time()) - 100, seconds=86_400, count=1, grace=0)
    collection = live.make_collection(questions=ask_all(), windows=windows, url=origin)
    with Visit(browser, bypass_csp=True) as visit:
        page = visit.page
        page.route("**/collections/*", lambda route: route.fulfill(body=collection.raw))
        page.goto(demonstration["page"].split("#")[0] + "#link=" + collection.link)
        page.fill("input[name=brand]", "aces!")
        page.press("input[name=brand]", "Tab")
        page.wait_for_selector("input[aria-invalid=true]")
        assert find_barriers(page) == []
        visit.check()


def test_long_words_and_the_other_direction_do_not_break_the_page(browser, demonstration):
    with Visit(browser, viewport={"width": 320, "height": 640}) as visit:
        visit.page.goto(demonstration["page"])
        visit.page.wait_for_selector("form")
        visit.page.evaluate(
            "document.documentElement.dir = 'rtl';"
            "document.querySelector('legend').textContent = 'x'.repeat(300)"
        )
        wide = visit.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 320


def list_preloads():
    page = pages.find_asset("/assets/answer.html").content.decode()
    return set(re.findall(r'modulepreload" href="([^"]+)"', page))


@pytest.mark.parametrize("language", ["en", "de"])
def test_the_page_is_small(language):
    """What is loaded before anything is sent."""
    import gzip

    used = {"answer.html", "style.css", "answer.js", f"{language}.answer.js"}
    used = {f"/assets/{name}" for name in used} | list_preloads()
    packed = sum(len(gzip.compress(pages.find_asset(name).content, 9)) for name in used)
    assert packed <= 40_000


def test_modules_without_their_comments_are_still_modules(tmp_path):
    """Node reads what is served, and it is all of the code: without comments both are the same."""
    node = shutil.which("node")
    need(node, "node")
    served = [name for name in pages.list_assets() if name.endswith(".js")]
    for name in served:
        content = pages.find_asset(name).content
        assert b"@param" not in content
        assert b"@typedef" not in content
        (tmp_path / f"{name[1:].replace('/', '_')[:-3]}.mjs").write_bytes(content)
    assert len(served) > 30
    check = "for (const file of process.argv.slice(1)) new (require('vm').SourceTextModule)(require('fs').readFileSync(file, 'utf8'))"
    files = sorted(map(str, tmp_path.iterdir()))
    flags = ["--experimental-vm-modules", "--no-warnings"]
    subprocess.run([node, *flags, "--eval", check, *files], check=True, timeout=60)


def test_the_page_asks_for_all_its_modules_at_once():
    asked = list_preloads()
    needed, left = set(), ["/assets/answer.js"]
    while left:
        text = pages.find_asset(left.pop()).content.decode()
        for name in re.findall(r'^(?:import|export) .*from "(.+)";', text, re.MULTILINE):
            file = name.rpartition("/")[2]
            address = f"/device/{file}"
            if address not in pages.list_assets():
                address = f"/assets/{file}"
            if address not in needed:
                needed.add(address)
                left.append(address)
    assert needed == asked
    later = {name for name in pages.list_assets() if name.startswith("/device/")} - asked
    assert later == {"/device/prefixes.js", "/device/promise.js", "/device/texts.js"}


def test_the_page_elsewhere(tmp_path):
    first, again = pages.write_site(tmp_path / "one"), pages.write_site(tmp_path / "two")
    assert first == again
    assert (tmp_path / "one" / "index.html").exists()
    assert (tmp_path / "one" / "device" / "laws.js").exists()
    (tmp_path / "one" / "SHA256SUMS").unlink()
    with pytest.raises(Exception, match="not empty"):
        pages.write_site(tmp_path / "one")
