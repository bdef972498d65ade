"""The operator's desk: made, previewed, edited, started, shared, and back after a restart."""

import asyncio
import json
import re
import shutil
import socket
import stat
import subprocess
import zipfile
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.dom.minidom import parseString

import httpx
import pytest

import live_support as live
from live.pages.test_pages import Visit
from live.wire.test_logo import make_png
from shuffledp.core.errors import DataError
from shuffledp.live import pages
from shuffledp.live.results import write_csv, write_xlsx
from shuffledp.live.serve import Desk, Home, operator, write_privacy
from shuffledp.live.wire.document import Texts

pytestmark = pytest.mark.xdist_group("browser")
ROOT = Path(__file__).parents[3]
NODE = shutil.which("node")
SURVEY = {
    "epsilon": "1",
    "delta": "1e-8",
    "questions": {"way": {"task": "histogram", "text": "How?", "categories": ["car", "bus"]}},
    "collection": {"title": "Ways", "people": 200, "local_epsilon": "3"},
}
FORM = {
    "title": "Ways",
    "people": "200",
    "error": "",
    "questions": [{"name": "q1", "task": "count"}],
}


@pytest.fixture
def place():
    """A folder with a short name, as the sockets of roles need it."""
    with TemporaryDirectory() as folder:
        yield Path(folder) / "surveys"


@pytest.fixture
def ask(place, monkeypatch):
    """A desk whose roles are not started, asked as its page asks."""
    monkeypatch.setattr(operator, "start_roles", lambda *_, **__: [])
    monkeypatch.setattr(
        Desk, "_describe", lambda _, home, __: {"title": home.collection().title, "results": []}
    )

    def open_desk():
        desk = Desk(place)
        desk.adopt_all()
        transport = httpx.ASGITransport(operator.make_desk_app(desk, "secret"))

        async def send(path, body):
            headers = {"authorization": "Bearer secret"}
            async with httpx.AsyncClient(
                transport=transport, base_url="http://127.0.0.1", headers=headers
            ) as client:
                return await (client.get(path) if body is None else client.post(path, json=body))

        return lambda path, body=None: asyncio.run(send(path, body))

    return open_desk


def test_the_price_of_choosing_several_is_shown():
    """One choice alone is as exact as the preview of a survey with that one says."""

    def preview(*names):
        part = {"kind": "several", "part_of": {"name": "pets", "text": "Which?"}}
        questions = {name: {"task": "count", "text": name, "asked": part} for name in names}
        content = {
            **SURVEY,
            "questions": questions,
            "collection": {"title": "Pets", "people": 2000},
        }
        return operator.Planner().preview(operator.read_form(content))

    (price,) = preview("dog", "cat", "bird")["several"]
    (alone,) = preview("dog")["several"]
    assert (price["text"], price["choices"], alone["choices"]) == ("Which?", 3, 1)
    assert price["share"] > 1.2 * price["alone"]
    assert price["alone"] == alone["alone"] == alone["share"]


def test_the_price_of_a_choice_is_that_of_one_which_half_of_the_people_make():
    """One random question in each report: a share of a half varies most with who was asked."""
    part = {"kind": "several", "part_of": {"name": "pets", "text": "Which?"}}
    questions = {name: {"task": "count", "text": name, "asked": part} for name in "abcdef"}
    content = {"epsilon": 1.0, "delta": 1e-6, "questions": questions}
    planned = {"people": 2000, "noise": "servers", "one_question": True}
    shown = operator.Planner().preview({**content, "collection": planned})
    assert shown["one_question"]
    assert shown["several"][0]["share"] == pytest.approx(0.078, abs=0.0005)  # at 0.3 it is 0.063


def test_surveys_and_drafts_come_back(ask, place):
    first = ask()
    for _ in range(2):
        draft = first("/api/preview", SURVEY).json()["draft"]
        shown = first(f"/drafts/{draft}")
        assert shown.status_code == 200
        assert shown.headers["content-type"] == "application/json"
        assert shown.headers["cache-control"] == "no-store"
        assert first("/api/collections", {"draft": draft}).status_code == 200
        assert first(f"/drafts/{draft}").status_code == 404
    key = first("/api/drafts", {"key": "", "content": FORM}).json()["key"]
    again = ask()("/api/status").json()
    assert [each["title"] for each in again["collections"]] == ["Ways", "Ways"]
    assert [(each["key"], each["content"]) for each in again["drafts"]] == [(key, FORM)]
    assert again["folder"] == str(place)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


def test_a_survey_whose_port_is_taken_says_so_and_keeps_no_other(ask, place):
    first = ask()
    for _ in range(2):
        draft = first("/api/preview", SURVEY).json()["draft"]
        first("/api/collections", {"draft": draft})
    homes = [Home(path.parent) for path in place.glob("*/collection.json")]
    port = int(homes[0].collection().url.rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)):
        found = ask()("/api/status").json()["collections"]
    assert len(found) == 2
    assert f"port {port}" in next(each["stopped"] for each in found if "stopped" in each)


def test_a_draft_is_changed_until_it_is_started_and_then_gone(ask):
    desk = ask()
    key = desk("/api/drafts", {"key": "", "content": FORM}).json()["key"]
    changed = {**FORM, "title": "Other ways"}
    assert desk("/api/drafts", {"key": key, "content": changed}).json() == {"key": key}
    assert [each["title"] for each in desk("/api/status").json()["drafts"]] == ["Other ways"]
    draft = desk("/api/preview", SURVEY).json()["draft"]
    assert desk("/api/collections", {"draft": draft, "key": key}).status_code == 200
    assert desk("/api/status").json()["drafts"] == []
    refused = desk("/api/collections", {"draft": draft})
    assert (refused.status_code, refused.json()["field"]) == (400, "draft")
    for bad in ("../secret", "x" * 16):
        assert desk("/api/drafts", {"key": bad, "content": FORM}).status_code == 400


@pytest.mark.parametrize("people", [0, 1, -5])
def test_too_few_people_are_refused_by_name(ask, people):
    survey = {**SURVEY, "collection": {**SURVEY["collection"], "people": people}}
    found = ask()("/api/preview", survey)
    assert (found.status_code, found.json()["field"]) == (400, "people")


def test_a_folder_that_could_not_be_made_leaves_nothing_behind(tmp_path, monkeypatch):
    collection = live.make_collection()
    home = Home(tmp_path / "survey")

    class Keys:
        def save(self, folder):
            folder.mkdir(parents=True)
            (folder / "keys.json").write_text("secret")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("shuffledp.live.serve.folders.write_whole", fail)
    with pytest.raises(OSError, match="disk full"):
        home.create(collection, Keys(), Keys())
    assert not home.path.exists()
    monkeypatch.undo()
    home.create(collection, Keys(), Keys())
    assert home.document.read_bytes() == collection.raw


ROW = {"value": 1.5, "stderr": 0.5, "low": 0.5, "high": 2.5}


def test_results_for_spreadsheets_have_no_formulas():
    rows = [{"label": label, **ROW} for label in ("bus", "=1+1", "\x01<&>")]
    results = [{"window": 0, "questions": {"way": {"people": 9, "estimate": rows}}}]
    assert "'=1+1" in write_csv(results)
    with zipfile.ZipFile(BytesIO(write_xlsx(results))) as book:
        for name in book.namelist():
            parseString(book.read(name))  # noqa: S318
        sheet = parseString(book.read("xl/worksheets/sheet1.xml"))  # noqa: S318
    assert not sheet.getElementsByTagName("f")
    texts, numbers = (
        [each.firstChild.data for each in sheet.getElementsByTagName(name)] for name in "tv"
    )
    assert texts[-6:] == ["way", "bus", "way", "=1+1", "way", "\N{REPLACEMENT CHARACTER}<&>"]
    assert [float(each) for each in numbers][-4:] == list(ROW.values())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda table: table["answer"].pop("send"), "the text answer.send is missing"),
        (lambda table: table["answer"].update(more="x"), "there is no text answer.more"),
        (
            lambda table: table["answer"].update(batch="at least some"),
            "the text answer.batch must have {n}",
        ),
        (lambda table: table["about"].update(direction="up"), "the direction ltr or rtl"),
    ],
)
def test_a_language_is_translated_whole_or_refused(tmp_path, monkeypatch, change, said):
    folder = tmp_path / "shuffledp" / "languages"
    folder.mkdir(parents=True)
    table = json.loads(json.dumps(pages.speak("en").table))
    table["about"]["language"] = "fr"
    change(table)
    (folder / "fr.json").write_text(json.dumps(table))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(DataError, match=said):
        pages._read_catalogues.__wrapped__()


def test_shipped_languages_have_the_same_texts():
    english = pages.speak("en").table
    shipped = sorted((ROOT / "src/shuffledp/live/pages/texts").glob("*.json"))
    assert {path.stem for path in shipped} == {"de", "en"}
    for path in shipped:
        pages._compare(path, english, json.loads(path.read_text()))


def test_every_text_that_a_page_asks_for_is_there():
    static = ROOT / "src/shuffledp/live/pages/static"
    found = set()
    for path in static.glob("*.js"):
        found |= set(re.findall(r'(?:say|look)\("([a-z]+\.[\w.-]+)"', path.read_text()))
    assert len(found) > 100
    for key in sorted(found):
        pages.speak("en").look(key)


@pytest.mark.parametrize("language", ["en", "de"])
def test_the_privacy_notice_is_made_from_the_document(language):
    texts = Texts(title="<b>Wege", language=language, contact="amt@umfrage.example")
    collection = live.make_collection(texts=texts)
    shown = write_privacy(collection)
    for part in (
        f"lang={language}",
        "&lt;b&gt;Wege",
        "amt@umfrage.example",
        collection.id.hex(),
        collection.url,
        "1970-01-01 00:16 UTC",
        "1970-01-01 00:20 UTC",
        "epsilon = 4, delta = 0.01",
        "How do you come to work?",
    ):
        assert part in shown
    said = {"en": "One operator runs both servers", "de": "Ein Betreiber hat beide"}[language]
    assert said in shown, "on this machine"
    assert said not in write_privacy(live.make_collection(texts=texts, url="https://a.example"))
    assert shown.count("<mark>") == 2, "who is responsible, and on which basis"
    assert "{" not in shown.partition("</style>")[2]


CODES = """
import { makeCode } from "./src/shuffledp/live/pages/static/qr.js";
const texts = JSON.parse(process.argv[1]);
console.log(JSON.stringify(texts.map((text) => makeCode(text).map((row) => row.map(Number)))));
"""


@pytest.mark.skipif(NODE is None, reason="no node: the codes are not tested here")
def test_codes_say_what_they_are_made_of():
    """Read back by the rules of ISO/IEC 18004, written apart: 33 sizes, so that every version but the last is there."""
    texts = ["x" * (n - 2) + "é" for n in range(5, 670, 20)]
    done = subprocess.run(
        [NODE, "--input-type=module", "--eval", CODES, json.dumps(texts)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    for text, rows in zip(texts, json.loads(done.stdout), strict=True):
        assert read_code(rows) == text


def read_code(rows):
    """The text of a code without damage; its blocks have no remainder by the generator."""
    size = len(rows)
    version = (size - 17) // 4
    bits = [rows[8][at] for at in (0, 1, 2, 3, 4, 5, 7, 8)] + [rows[7][8]]
    bits += [rows[5 - at][8] for at in range(6)]
    assert bits[:2] == [1, 0], "level M, masked"
    mask = int("".join(map(str, bits[2:5])), 2) ^ 0b101
    flips = [
        lambda r, c: (r + c) % 2 == 0,
        lambda r, _: r % 2 == 0,
        lambda _, c: c % 3 == 0,
        lambda r, c: (r + c) % 3 == 0,
        lambda r, c: (r // 2 + c // 3) % 2 == 0,
        lambda r, c: r * c % 2 + r * c % 3 == 0,
        lambda r, c: (r * c % 2 + r * c % 3) % 2 == 0,
        lambda r, c: ((r + c) % 2 + r * c % 3) % 2 == 0,
    ][mask]
    many = version // 7 + 2 if version > 1 else 0
    spots = [6, *[size - 7 - i * _step(version, many) for i in range(many - 1)]] if many else []
    corners = {(6, 6), (6, size - 7), (size - 7, 6)}

    def fixed(r, c):
        finder = (r < 9 and (c < 9 or c >= size - 8)) or (r >= size - 8 and c < 9)
        near = any(
            abs(r - a) < 3 and abs(c - b) < 3 for a in spots for b in spots if (a, b) not in corners
        )
        stated = version > 6 and (
            (r < 6 and size - 12 < c < size - 8) or (c < 6 and size - 12 < r < size - 8)
        )
        return finder or r == 6 or c == 6 or near or stated

    stream, up = [], True
    for right in [*range(size - 1, 6, -2), 5, 3, 1]:
        for r in range(size - 1, -1, -1) if up else range(size):
            stream += [rows[r][c] ^ flips(r, c) for c in (right, right - 1) if not fixed(r, c)]
        up = not up
    words = [int("".join(map(str, stream[i : i + 8])), 2) for i in range(0, len(stream) - 7, 8)]
    blocks, length = BLOCKS[version - 1]
    return _join(words, blocks, length, version)


BLOCKS = [(1, 10), (1, 16), (1, 26), (2, 18), (2, 24), (4, 16), (4, 18), (4, 22), (5, 22), (5, 26)]
BLOCKS += [(5, 30), (8, 22), (9, 22), (9, 24), (10, 24), (10, 28), (11, 28), (13, 26), (14, 26)]
BLOCKS += [(16, 26)]


def _step(version, many):
    return -(-(4 * version + 4) // (2 * many - 2)) * 2


def _join(words, blocks, length, version):
    short, longer = divmod(len(words), blocks)
    sizes = [short - length + (place >= blocks - longer) for place in range(blocks)]
    left = iter(words)
    turns = [(place, part) for place in range(max(sizes)) for part in range(blocks)]
    woven = [(part, next(left)) for place, part in turns if place < sizes[part]]
    ends = [next(left) for _ in range(length * blocks)]
    parts = [[word for at, word in woven if at == part] for part in range(blocks)]
    for part in range(blocks):
        _check_block([*parts[part], *ends[part::blocks]], length)
    bits = "".join(f"{word:08b}" for part in parts for word in part)
    wide = 8 if version < 10 else 16
    assert bits[:4] == "0100"
    count = int(bits[4 : 4 + wide], 2)
    octets = [int(bits[4 + wide + 8 * i : 12 + wide + 8 * i], 2) for i in range(count)]
    return bytes(octets).decode()


def _check_block(block, length):
    """Every root of the generator is one of the block, too."""
    powers = [1]
    for _ in range(254):
        powers.append(powers[-1] << 1 ^ (0x11D if powers[-1] > 127 else 0))
    logs = {value: place for place, value in enumerate(powers)}
    for root in range(length):
        value = 0
        for word in block:
            value = (powers[(logs[value] + root) % 255] if value else 0) ^ word
        assert value == 0


def test_the_desk_says_what_is_wrong_beside_the_field(browser, demonstration):
    with Visit(browser, viewport={"width": 1200, "height": 900}) as desk:
        page = desk.page
        page.goto(demonstration["desk"])
        page.wait_for_selector("#preview svg")
        for people, said in {"": "people you expect", "0": "people you expect"}.items():
            page.fill("[name=people]", people)
            page.wait_for_selector(f"#error-people:has-text('{said}')")
            page.wait_for_selector("#preview >> text=One entry needs another look")
        page.click("text=Promise, protection and time")
        page.fill("[name=people]", "2000")
        page.fill("[name=epsilon]", "0,5")
        page.fill(".categories", "car\ncar")
        page.wait_for_selector("text=Two choices are the same: car")
        assert page.get_attribute(".categories", "aria-invalid") == "true"
        assert page.get_attribute("[name=epsilon]", "aria-invalid") == "false"
        assert page.is_disabled("#make")
        desk.check()


PICTURE = {"name": "logo.png", "mimeType": "image/png"}


def test_a_draft_is_previewed_saved_edited_and_shared(browser, demonstration):
    with Visit(browser, viewport={"width": 1200, "height": 900}) as desk:
        page = desk.page
        page.goto(demonstration["desk"])
        page.wait_for_selector("#see:enabled")
        page.fill("[name=title]", "How people travel")
        page.click("text=Language, welcome, consent, contact, logo")
        page.set_input_files("#logo-file", {**PICTURE, "buffer": b"<svg/>"})
        page.wait_for_selector("text=This cannot be a logo")
        page.set_input_files("#logo-file", {**PICTURE, "buffer": make_png(1000, 500)})
        page.wait_for_selector("img.logo:visible")
        page.wait_for_selector("text=This cannot be a logo", state="detached")
        page.wait_for_selector("#see:enabled")
        with desk.context.expect_page() as opened:
            page.click("#see")
        look = opened.value
        look.wait_for_selector("#preview-only")
        assert look.inner_text("h1") == "How people travel"
        size = "(img) => [img.naturalWidth, img.naturalHeight, img.alt]"
        assert look.eval_on_selector("#logo", size) == [160, 80, ""]
        look.check("input[value=bus]")
        look.click("button[type=submit]")
        assert "nothing can be sent" in look.inner_text("#state")
        look.close()
        page.click("#save")
        page.wait_for_selector("#drafts >> text=How people travel")
        page.reload()
        page.locator("#drafts article", has_text="How people travel").get_by_text("Edit").click()
        page.wait_for_selector("text=Editing: How people travel")
        assert page.input_value("[name=title]") == "How people travel"
        assert page.input_value("[name=logo]").startswith("data:image/png;base64,")
        page.click("text=Language, welcome, consent, contact, logo")
        page.click("#no-logo")
        assert page.input_value("[name=logo]") == ""
        page.locator("#drafts article", has_text="How people").get_by_text("Delete").click()
        page.wait_for_selector("#drafts >> text=How people travel", state="detached")
        article = page.locator("article", has_text="Invite people").last
        article.locator("text=Invite people").click()
        link = article.locator("input[readonly]").input_value()
        assert "/c/" in link
        assert article.locator("svg.qr").is_visible()
        desk.check()


ENDS = """
import { cutOut, roundOut, use } from "./src/shuffledp/live/pages/static/strings.js";
import { percents } from "./src/shuffledp/live/pages/static/results.js";
use("en", {});
const people = 1e6, row = { label: "yes", value: 123456, low: 123349, high: 123551 };
console.log(JSON.stringify({
  cut: [[52341.7, false, 4], [52341.7, true, 4], [-0.0012344, false, 4], [9999.5, true, 4], [0, true, 4], [40, true, 2]].map((each) => cutOut(...each)),
  rounded: [[12.34, false, 0.1], [12.34, true, 0.1], [12.3, true, 0.1], [12.3, false, 0.1], [0.1 + 0.2, true, 0.1]].map((each) => roundOut(...each)),
  percents: percents(row, people),
}));
"""


@pytest.mark.skipif(NODE is None, reason="no node: the page is not tested here")
def test_ends_of_intervals_are_rounded_outwards():
    """Four digits of a mean of 52,341.7, rounded to the nearest, would leave it out."""
    run = [NODE, "--input-type=module", "--eval", ENDS]
    told = json.loads(
        subprocess.run(run, cwd=ROOT, capture_output=True, timeout=60, check=True).stdout
    )
    assert told["cut"] == pytest.approx([52340, 52350, -0.001235, 10000, 0, 40], rel=1e-12)
    assert told["rounded"] == pytest.approx([12.3, 12.4, 12.3, 12.3, 0.3], rel=1e-12)
    assert told["percents"] == ["12.3", "12.3", "12.4"]
