"""A collection whose noise the servers add, and its two servers, for tests."""

from dataclasses import replace

import live_support as live
from live.test_roles import open_analyzer as open_any_analyzer
from shuffledp.live.analyzer import Analyzer
from shuffledp.live.keys import AnalyzerSecrets, ShufflerSecrets
from shuffledp.live.seals import FolderLog
from shuffledp.live.servers import describe_dummies
from shuffledp.live.shuffler import Shuffler
from shuffledp.live.wire.promise import Noise
from shuffledp.protocols.server_hashing import make_server_hashing
from shuffledp.protocols.server_noise import make_server_noise

__all__ = [
    "hashed_questions",
    "make_collection",
    "open_analyzer",
    "open_any_analyzer",
    "open_shuffler",
    "questions",
]


def questions(floor=None, rates=(0.5, 1.0), most=(4, 4), parts=1):
    """The two of `live_support`, with noise of the servers; small numbers, so that tests are fast."""
    way, home = live.questions()
    common = {"epsilon": floor, "parts": parts}
    choice = make_server_noise(task="histogram", k=3, rate=rates[0], most=most[0], **common)
    yes = make_server_noise(task="count", rate=rates[1], most=most[1], **common)
    return tuple(
        replace(each, protocol=made, noise=describe_dummies(made))
        for each, made in ((way, choice), (home, yes))
    )


def hashed_questions(floor=None, messages=40, parts=1):
    """The same two, the first of them hashed: half of all messages support a category."""
    way, home = questions(floor, rates=(0.5, 0.5), most=(4, 6), parts=parts)
    made = make_server_hashing(
        k=3, r=4, s=2, width=2, messages=messages, epsilon=floor, parts=parts
    )
    return replace(way, protocol=made, noise=describe_dummies(made)), home


def make_collection(floor=None, asked=None, **changes):
    given = {"epsilon": 3.0, "delta": 0.3, "min_batch": 5, **changes.pop("pledge", {})}
    pledge = replace(
        live.make_collection().pledge,
        local_epsilon=float("inf") if floor is None else 2 * floor,
        trust_the_shuffler=True,
        noise=Noise.SERVERS,
        **given,
    )
    return live.make_collection(
        questions=questions(floor) if asked is None else asked, pledge=pledge, **changes
    )


COLLECTION = make_collection()


def open_shuffler(folder, collection=COLLECTION, step=None, seals=None, store=None):
    """`store` and `seals`: the folders to which they belong, if that is not its own."""
    folder.mkdir(exist_ok=True, mode=0o700)
    log = live.make_log(folder if seals is None else seals, collection)
    more = {} if step is None else {"step": step}
    return Shuffler(
        collection=collection,
        secrets=ShufflerSecrets(outer=live.outer_secrets(collection), sign=live.secret("shuffler")),
        store=live.make_store(folder if store is None else store, collection),
        folder=folder,
        seals=log,
        **more,
    )


def open_analyzer(folder, collection=COLLECTION, step=None, rng=None):
    folder.mkdir(exist_ok=True, mode=0o700)
    more = {} if step is None else {"step": step}
    return Analyzer(
        collection=collection,
        secrets=AnalyzerSecrets(inner=live.secret("inner"), sign=live.secret("analyzer")),
        folder=folder,
        durable=False,
        seals=FolderLog(folder.with_name(f"{folder.name}.seals")),
        rng=rng,
        **more,
    )
