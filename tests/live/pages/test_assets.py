"""The files of the pages, as they are served and as they are written for another host; languages and their texts."""

import asyncio
import dataclasses
import gzip
import hashlib
import html
import json
import re

import pytest
from starlette.applications import Starlette

import live_support as live
from live.serve.test_servers import client
from live.server_support import COLLECTION
from shuffledp.core.errors import DataError
from shuffledp.live import pages
from shuffledp.live.serve import write_privacy
from shuffledp.live.serve.http import asset_routes
from shuffledp.live.wire.document import Texts

TYPES = {"css": "text/css; charset=utf-8", "html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8"}  # fmt: skip
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


def test_every_file_has_its_address_and_type():
    listed = pages.list_assets()
    assert len(listed) == len(set(listed))
    for address in listed:
        assert re.fullmatch(r"/(assets|device)/[\w.-]+", address)
        assert pages.find_asset(address).media_type == TYPES[address.rpartition(".")[2]]
    assert "/device/node.js" not in listed
    for language in ("en", "de"):
        for part in ("answer", "more", "result", "desk"):
            found = pages.find_asset(f"/assets/{language}.{part}.js").content.decode()
            said = json.loads(re.fullmatch(r"export default (.*);\n", found, re.S)[1])
            table = pages.speak(language).table
            assert said == {"about": table["about"], part: table[part]}
            assert "\\u" not in found  # letters as they are
    assert b'<meta name="languages" content="en de">' in pages.find_asset("/assets/answer.html").content  # fmt: skip
    assert pages.find_asset("/assets/nothing.js") is None


def test_files_are_served_packed_to_whoever_can_unpack_them():
    async def scene():
        async with client(Starlette(routes=asset_routes()), "http://127.0.0.1") as web:
            for address in ("/assets/style.css", "/device/laws.js", "/assets/de.answer.js"):
                asset = pages.find_asset(address)
                for accepted in ("gzip, br", "identity"):
                    answer = await web.get(address, headers={"accept-encoding": accepted})
                    assert (answer.status_code, answer.content) == (200, asset.content)
                    packed = accepted != "identity"
                    assert answer.headers.get("content-encoding") == ("gzip" if packed else None)
                    assert answer.headers.get("vary") == ("Accept-Encoding" if packed else None)
                    assert answer.headers["content-type"] == asset.media_type
                    length = len(gzip.compress(asset.content, 9, mtime=0)) if packed else len(asset.content)  # fmt: skip
                    assert int(answer.headers["content-length"]) == length
                    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
            missing = await web.get("/assets/nothing.js")
            assert (missing.status_code, missing.text) == (404, "there is no such page\n")

    asyncio.run(scene())


HEADERS = {
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


def test_a_site_has_all_files_with_their_sums(tmp_path):
    site = tmp_path / "a" / "site"
    told = pages.write_site(site)
    sums = (site / "SHA256SUMS").read_bytes()
    assert hashlib.sha256(sums).hexdigest() == told
    lines = sums.decode().splitlines()
    assert lines == sorted(lines)
    there = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    wanted = {name[1:] for name in pages.list_assets() if not name.endswith(".html")}
    assert there == wanted | {"index.html", "SHA256SUMS"}
    for line in lines:
        digest, name = line.split("  ")
        assert hashlib.sha256((site / name).read_bytes()).hexdigest() == digest
    assert len(lines) == len(there) - 1
    index = (site / "index.html").read_text()
    assert index.count("Content-Security-Policy") == 1
    assert "script-src 'self'" in index
    assert '"/assets/' not in index
    assert '"/device/' not in index
    assert '"assets/answer.js"' in index
    assert (site / "assets" / "style.css").read_bytes() == pages.find_asset("/assets/style.css").content  # fmt: skip
    with pytest.raises(DataError) as said:
        pages.write_site(site)
    assert str(said.value) == f"{site} is not empty"
    (tmp_path / "empty").mkdir()
    assert pages.write_site(tmp_path / "empty") == told


@pytest.fixture
def write(tmp_path, monkeypatch):
    """A language of the operator's own, in the folder where they are looked for."""
    folder = tmp_path / "shuffledp" / "languages"
    folder.mkdir(parents=True)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))

    def write(name, change=lambda _: None, text=None):
        table = json.loads(json.dumps(pages.speak("en").table))
        table["about"].update(language=name, direction="ltr")
        change(table)
        (folder / f"{name}.json").write_text(json.dumps(table) if text is None else text)
        return folder / f"{name}.json"

    return write


def read_all():
    return pages._read_catalogues.__wrapped__()


def put(path, value):
    def change(table):
        *names, last = path.split(".")
        for name in names:
            table = table[name]
        if value is None:
            del table[last]
        else:
            table[last] = value

    return change


ABOUT = "{}: about must have the language of the file's name and the direction ltr or rtl"


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("fr", put("answer.send", None), "{}: the text answer.send is missing"),
        ("fr", put("answer.more", "x"), "{}: there is no text answer.more"),
        ("fr", put("answer.batch", "some"), "{}: the text answer.batch must have {{n}}"),
        ("fr", put("answer.send", "{n}"), "{}: the text answer.send must have no placeholder"),
        ("fr", put("answer.send", 7), "answer.send must be a text"),
        ("fr", put("about.direction", "up"), ABOUT),
        ("fr", put("about.language", "en"), ABOUT),
        ("french", lambda _: None, ABOUT),
        ("de", lambda _: None, "{}: de comes with the package already"),
        ("fr", put("about", None), "{} is not a catalogue of texts: 'about'"),
        ("fr", put("about.direction", None), "{} is not a catalogue of texts: 'direction'"),
    ],
)
def test_a_language_that_is_not_whole_is_told_by_what_it_lacks(write, name, change, said):
    path = write(name, change)
    with pytest.raises(DataError) as told:
        read_all()
    assert str(told.value) == said.format(path)


@pytest.mark.parametrize("text", ["", "[]", "7", "{"])
def test_a_file_that_is_no_catalogue(write, text):
    path = write("fr", text=text)
    with pytest.raises(DataError, match=f"^{re.escape(str(path))} is not a catalogue of texts: "):
        read_all()


def test_a_language_of_ones_own_is_spoken(write):
    write("fr", put("answer.send", "Envoyer"))
    found = read_all()
    assert list(found) == ["de", "en", "fr"]
    french = found["fr"]
    assert (french.language, french.direction, french.say("answer.send")) == ("fr", "ltr", "Envoyer")  # fmt: skip
    write("ar", put("about.direction", "rtl"))
    assert read_all()["ar"].direction == "rtl"


def test_languages_are_found_by_their_tags():
    assert pages.list_languages() == ("en", "de")
    spoken = [pages.speak(tag).language for tag in ("de", "DE", "de-AT", "en-GB", "xx", "xx-de", "")]  # fmt: skip
    assert spoken == ["de", "de", "de", "en", "en", "en", "en"]
    english, german = pages.speak("en"), pages.speak("de")
    assert english.say("desk.accepted", n=1) != english.say("desk.accepted", n=2)
    assert english.say("desk.accepted", n=1) == "One report accepted."
    assert english.say("desk.accepted", n=2000) == "2,000 reports accepted."
    assert german.count(1234567.5) == "1.234.567,5"
    assert english.count(1234567.5) == "1,234,567.5"
    assert german.count("1,5") == "1,5"


def test_a_notice_says_what_the_document_says_and_marks_what_it_cannot_know():
    def write(**changes):
        return write_privacy(live.make_collection(texts=Texts(title="T"), **changes))

    plain = write()
    assert plain.count("<mark>") == 3  # the operator, the basis, and whom to ask
    known = write_privacy(live.make_collection(texts=Texts(title="T", contact="a&b")))
    assert known.count("<mark>") == 2
    assert "a&amp;b" in known
    english = pages.speak("en")

    def says(text, key, **values):
        return html.escape(english.say(f"privacy.{key}", **values)) in text

    assert says(plain, "deviceText")
    assert not says(plain, "devicePlain")
    assert says(plain, "analyzerText", n=20)
    assert says(plain, "operatorText")
    elsewhere = write(url="https://a.example")
    assert not says(elsewhere, "operatorText")
    times = {"start": "1970-01-01 00:16 UTC", "end": "1970-01-01 00:20 UTC"}
    assert says(elsewhere, "shufflerText", url="https://a.example", **times)
    assert says(elsewhere, "keptText", **times)
    together, each = english.say("answer.together"), english.say("answer.each")
    pledge = live.make_collection().pledge
    apart = write(pledge=dataclasses.replace(pledge, composed=False))
    for text, words in ((plain, together), (apart, each)):
        assert says(text, "publicText", epsilon="4", delta="0.01", together=words)
    assert "How do you come to work?; Do you work at home sometimes?" in plain
    served = write_privacy(COLLECTION)
    assert says(served, "devicePlain")
    assert not says(served, "deviceText")


def test_the_device_comes_from_the_wheel_if_it_is_there(tmp_path, monkeypatch):
    """In a wheel it is packed beside the pages, in the repository it is where its tests are."""
    here = tmp_path / "site" / "shuffledp" / "live" / "pages"
    monkeypatch.setattr(pages, "__file__", str(here / "__init__.py"))
    assert pages._find_device() == tmp_path / "clients" / "js" / "src"
    (here / "device").mkdir(parents=True)
    assert pages._find_device() == here / "device"
