"""kill -9 of the real shuffler and the real analyzer, over and over: nothing lost, nothing counted twice."""

import random
import threading
import time
from collections import Counter

import httpx
import pytest

import live_support as live
import shuffledp as sdp
from live.server_support import make_collection as make_noisy
from shuffledp.live.keys import signing_public
from shuffledp.live.serve.client import Operator, send_upload
from shuffledp.live.serve.folders import start
from shuffledp.live.wire.document import Windows
from shuffledp.live.wire.report import join_upload, seal_inner, seal_report


def make_home(folder, port, make=live.make_collection):
    """A collection that is open now, with keys on the disk."""
    secrets = sdp.live.ShufflerSecrets.generate()
    analyzer, public, sign = sdp.live.generate_analyzer()
    collection = make(
        windows=Windows(start=int(time.time()) - 5, seconds=100_000, count=1, grace=10),
        url=f"http://127.0.0.1:{port}",
        shuffler_keys=secrets.public_keys(1),
        shuffler_sign=signing_public(secrets.sign),
        analyzer_public=public,
        analyzer_sign=sign,
    )
    home = sdp.live.serve.Home(folder / "survey")
    home.create(collection, secrets, analyzer)
    return home, collection


class Senders:
    """Threads that send reports of their own, one or three at a time, again and again until they are acknowledged."""

    def __init__(self, collection, threads=3):
        self.collection, self.ended = collection, threading.Event()
        self.acknowledged, self.sent = set(), set()
        self.threads = [threading.Thread(target=self.work, args=(i,)) for i in range(threads)]
        for thread in self.threads:
            thread.start()

    def work(self, seed):
        source = random.Random(seed)  # noqa: S311
        while not self.ended.is_set():
            people = [
                [seal_inner(self.collection, 0, bytes([kind, 0])) for kind in range(2)]
                for _ in range(source.choice((1, 3)))
            ]
            self.sent |= {inner for inners in people for inner in inners}
            body = join_upload(
                self.collection, [seal_report(self.collection, 0, p) for p in people]
            )
            while not self.ended.is_set():
                try:
                    outcomes = send_upload(self.collection, body, len(people))
                except (httpx.HTTPError, sdp.WireError):
                    time.sleep(0.02)
                    continue
                assert outcomes == [None] * len(people)
                self.acknowledged |= {inner for inners in people for inner in inners}
                break

    def stop(self):
        self.ended.set()
        for thread in self.threads:
            thread.join(60)


def kill_again_and_again(folder, kills, seed, make=live.make_collection):
    source = random.Random(seed)  # noqa: S311
    port, other = sdp.live.serve.find_port(), sdp.live.serve.find_port()
    home, collection = make_home(folder, port, make)
    shuffler = start("shuffler", home, port, workers=1)
    senders = Senders(collection)
    try:
        for _ in range(kills):
            shuffler.wait_until_ready()
            time.sleep(source.uniform(0.0, 0.6))
            shuffler.process.kill()
            shuffler.process.wait()
            shuffler = start("shuffler", home, port, workers=1)
        shuffler.wait_until_ready()
        while len(senders.acknowledged) < 100:
            time.sleep(0.05)
        senders.stop()
        finish(home, collection, port, other, shuffler, source, kills)
    finally:
        senders.stop()
        for role in STARTED:
            role.process.kill()
            role.process.wait()
        shuffler.process.kill()
        shuffler.process.wait()
    batch = (home.analyzer / "batch-0.bin").read_bytes()
    size = collection.inner_size
    seen = Counter(batch[place : place + size] for place in range(0, len(batch), size))
    assert senders.acknowledged <= set(seen)
    assert set(seen.values()) == {1}
    analyzer = home.open_analyzer()
    (result,) = analyzer.results()
    fewest, most = collection.dummies
    assert fewest <= len(set(seen) - senders.sent) <= most
    assert result["reports"] * 2 == len(set(seen) & senders.sent)
    assert result["questions"]["way"]["people"] == result["reports"]
    assert len(analyzer.ledger.entries(collection.id.hex())) == 1
    assert list(home.shuffler.glob("batch*")) == []


STARTED = []


def finish(home, collection, port, other, shuffler, source, kills):
    """Close the collection, and kill the shuffler while it seals and the analyzer while it works."""
    closing = threading.Thread(target=close_quietly, args=(home,))
    closing.start()
    time.sleep(source.uniform(0.0, 0.05))
    shuffler.process.kill()
    shuffler.process.wait()
    closing.join(30)
    again = start("shuffler", home, port, workers=1)
    STARTED.append(again)
    again.wait_until_ready()
    close_quietly(home)
    for _ in range(max(1, kills // 3)):
        analyzer = start("analyzer", home, other, "--every", "0.05", workers=1)
        STARTED.append(analyzer)
        time.sleep(source.uniform(0.5, 4.0))
        analyzer.process.kill()
        analyzer.process.wait()
    last = start("analyzer", home, other, "--every", "0.05", workers=1)
    STARTED.append(last)
    end = time.monotonic() + 400
    opened = home.open_analyzer()
    while time.monotonic() < end:
        states = Operator(home).status()["windows"]
        if opened.results() and states[0]["state"] == "deleted":
            return
        time.sleep(0.1)
    raise AssertionError("nothing was published")


def close_quietly(home):
    """The shuffler may die while it answers."""
    try:
        Operator(home).close()
    except (httpx.HTTPError, sdp.ShuffledpError, OSError):
        return


# A client that loses its server in mid-sentence may leave a socket to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.xdist_group("servers")
def test_a_few_kills(tmp_path):
    kill_again_and_again(tmp_path, kills=2, seed=1)


@pytest.mark.slow
@pytest.mark.xdist_group("servers")
def test_100_kills(tmp_path):
    kill_again_and_again(tmp_path, kills=75, seed=2)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.xdist_group("servers")
def test_a_few_kills_of_servers_that_add_noise(tmp_path):
    kill_again_and_again(tmp_path, kills=1, seed=3, make=make_noisy)


@pytest.mark.slow
@pytest.mark.xdist_group("servers")
def test_100_kills_of_servers_that_add_noise(tmp_path):
    kill_again_and_again(tmp_path, kills=75, seed=4, make=make_noisy)
