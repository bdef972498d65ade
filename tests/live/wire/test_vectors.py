"""`vectors/` is what this version does, and the JavaScript device does the same."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from live.wire.vectors import ANSWERS, FOLDER, WRITERS, Listed
from live_support import outer_secrets, secret
from shuffledp.core.errors import WireError
from shuffledp.live.wire.document import Collection
from shuffledp.live.wire.report import (
    encode_answers,
    open_inner,
    open_report,
    report_id,
    split_upload,
)
from shuffledp.live.wire.strict import UNWANTED
from support import need

ROOT = Path(__file__).parents[3]
CLIENT = ROOT / "clients" / "js"
INDEPENDENT = ("@hpke/core", "hpke")
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(
    NODE is None, reason="no node: the JavaScript device is not tested here"
)


def read(name):
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", WRITERS)
def test_vectors_are_up_to_date(name):
    """If this fails, devices in the field send something else: think, then `python -m wire.vectors`."""
    assert read(name) == json.loads(json.dumps(WRITERS[name]()))


@pytest.mark.parametrize("case", read("documents"), ids=lambda case: case["what"])
def test_documents_that_are_refused(case):
    with pytest.raises(WireError) as caught:
        Collection.read(case["document"].encode()).verify()
    assert caught.value.reason == (case["reason"] or "document")


@pytest.mark.parametrize("case", read("formats")["refused"], ids=lambda case: case["what"])
def test_documents_of_format_2_that_are_refused(case):
    with pytest.raises(WireError) as caught:
        Collection.read(case["document"].encode())
    assert caught.value.reason == case["reason"]


@pytest.mark.parametrize("case", read("formats")["accepted"], ids=lambda case: case["what"])
def test_documents_of_format_2_and_what_is_sent(case):
    collection = Collection.read(case["document"].encode())
    for each in case["cases"]:
        plains = encode_answers(collection, each["answers"], Listed(case["words"]))
        assert [plain.hex() for plain in plains] == each["plains"]


PLACES = {"url": ("shuffler", "url"), "decimal": ("promise", "delta"), "suite": ("suite",)}
"""Where each kind of `vectors/texts.json` stands in a document; a text is its title."""


@pytest.mark.parametrize(
    "case", read("texts"), ids=lambda case: f"{case['kind']} {case['value']!a}"[:60]
)
def test_texts_that_are_accepted_and_refused(case):
    content = json.loads(read("report")["document"])
    *parts, last = PLACES.get(case["kind"], ("title",))
    place = content
    for part in parts:
        place = place[part]
    place[last] = case["value"]
    raw = json.dumps(content).encode()
    if case["accepted"]:
        Collection.read(raw)
        return
    with pytest.raises(WireError):
        Collection.read(raw)


def test_both_readers_have_the_same_list_of_unwanted_characters():
    text = (CLIENT / "src" / "strict.js").read_text(encoding="utf-8")
    listed = "".join(re.findall(r'^  "([0-9a-f -]+)"', text, re.MULTILINE))
    assert listed == UNWANTED


def test_the_sealed_report_opens():
    case = read("report")
    collection = Collection.read(case["document"].encode(), bytes.fromhex(case["collection_id"]))
    plains = encode_answers(collection, dict(ANSWERS), Listed(case["words"]))
    assert [plain.hex() for plain in plains] == case["plains"]
    inners = b"".join(map(bytes.fromhex, case["inners"]))
    assert report_id(collection, case["window"], inners).hex() == case["report_id"]
    check_upload(collection, bytes.fromhex(case["upload"]), case["plains"])


def check_upload(collection, upload, plains):
    (sealed,) = split_upload(collection, upload)
    opened = open_report(collection, sealed, outer_secrets(collection))
    assert opened.window == 1
    assert opened.id == report_id(collection, 1, opened.inners)
    size = collection.inner_size
    inners = [opened.inners[place : place + size] for place in range(0, len(opened.inners), size)]
    found = [open_inner(collection, 1, inner, secret("inner")).hex() for inner in inners]
    assert found == plains


def run_node(*arguments):
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [NODE, *arguments], cwd=CLIENT, capture_output=True, text=True, timeout=300, env=environment
    )


@pytest.fixture(scope="module")
def tested():
    return run_node("--test", "test/")


@needs_node
def test_javascript_does_the_same(tested):
    done = tested
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    counted = dict(re.findall(r"^# (\w+) (\d+)$", done.stdout, re.MULTILINE))
    files = [path.read_text(encoding="utf-8") for path in (CLIENT / "test").glob("*.test.js")]
    alone = sum(len(re.findall(r'^test\("', text, re.MULTILINE)) for text in files)
    named = ("laws", "messages", "words", "documents", "texts", "noise")
    vectors = sum(len(read(name)) for name in named)
    vectors += sum(map(len, read("formats").values()))
    ratios = len(re.findall(r"^ok \d+ - the likelihood ratio of ", done.stdout, re.MULTILINE))
    assert ratios >= 10  # one for each kind of randomizer
    assert int(counted["tests"]) == alone + vectors + ratios + 4 * len(INDEPENDENT)
    assert int(counted["pass"]) + int(counted["skipped"]) == int(counted["tests"])
    assert counted["skipped"] in (
        "0",
        str(4 * len(INDEPENDENT)),
    )  # the next test says whether they may be
    assert counted["fail"] == counted["cancelled"] == counted["todo"] == "0"


@needs_node
def test_independent_implementations_take_part(tested):
    """`.ci/run` installs them; elsewhere the line of the skip says how."""
    modules = ROOT / ".venv" / "npm" / "node_modules"
    missing = [name for name in INDEPENDENT if not (modules / name / "package.json").exists()]
    need(not missing, f"other HPKE: npm install --prefix .venv/npm --no-save {' '.join(missing)}")
    for name in INDEPENDENT:
        assert re.search(rf"^ok \d+ - {name} opens what we seal$", tested.stdout, re.MULTILINE)
        assert re.search(rf"^ok \d+ - we open what {name} seals", tested.stdout, re.MULTILINE)
    assert "# skipped 0" in tested.stdout


SEAL = """
import { readFileSync } from "node:fs";
import { Collection, Device, listedWords, MemoryOutbox } from "./src/index.js";
const report = JSON.parse(readFileSync("../../vectors/report.json", "utf8"));
const collection = await Collection.read(new TextEncoder().encode(report.document), report.collection_id);
let sent;
const fetch = async (url, { body }) => {
  sent = body;
  return new Response('{"accepted":1,"failed":[]}');
};
const source = listedWords(report.words.map(BigInt));
const device = new Device(new MemoryOutbox(), { fetch, source });
const window = await device.answer(collection, report.answers, 1150);
console.log(await device.send(collection, window), Buffer.from(sent).toString("hex"));
"""


@needs_node
def test_python_opens_what_javascript_seals():
    done = run_node("--input-type=module", "--eval", SEAL)
    assert done.returncode == 0, done.stderr
    state, upload = done.stdout.split()
    case = read("report")
    assert state == "acknowledged"
    collection = Collection.read(case["document"].encode())
    check_upload(collection, bytes.fromhex(upload), case["plains"])
