"""A small live collection for tests: two questions, fixed keys, and a few people."""

import hashlib
import json
import shutil
import weakref

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shuffledp import SeededWords, protocols
from shuffledp.live.design import Settings, choose_protocols
from shuffledp.live.postgres import PostgresLog, PostgresStore
from shuffledp.live.seals import FolderLog
from shuffledp.live.store import SqliteStore
from shuffledp.live.wire.document import Collection, ShufflerKey, Windows, write_document
from shuffledp.live.wire.promise import Pledge
from shuffledp.live.wire.question import Question
from shuffledp.live.wire.report import encode_answers, public_bytes, seal_inner, seal_report
from shuffledp.questions import Survey

STORES = ("sqlite", "postgres")
STORE = "sqlite"
"""The kind of the stores that `make_store` makes; the fixture `every_store` sets it."""
_opened = weakref.WeakSet()


def read_tables(content):
    """A survey and its settings, from tables such as those of a form."""
    survey = Survey.read(content)
    return survey, Settings.read(survey)


def plan(content):
    """The design of a survey, from tables."""
    return choose_protocols(*read_tables(content))


def make_store(folder, collection):
    """The store of a folder, for tests of logic: opened again, it has what it had."""
    if STORE == "sqlite":
        return SqliteStore(folder / "store.sqlite", collection, durable=False)
    from postgres import get_server

    store = PostgresStore(get_server().make_schema(folder), collection, durable=False)
    _opened.add(store)
    return store


def _name_log(folder):
    return folder.with_name(f"{folder.name}.seals")


def move_log(folder, other):
    """Have the seal log of one folder be that of another, in place of what it has."""
    old, new = _name_log(folder), _name_log(other)
    if STORE == "sqlite":
        shutil.rmtree(new, ignore_errors=True)
        old.rename(new)
        return
    from postgres import get_server, name_schema

    old, new = name_schema(old), name_schema(new)
    get_server().execute(
        f"DROP SCHEMA IF EXISTS {new} CASCADE",
        f"ALTER SCHEMA {old} RENAME TO {new}",
        f"CREATE SCHEMA {old}",
    )


def drop_entry(folder, window):
    """Remove an entry of a seal log, as nobody should."""
    if STORE == "sqlite":
        (_name_log(folder) / f"window-{window}").unlink()
        return
    from postgres import get_server, name_schema

    schema = name_schema(_name_log(folder))
    get_server().execute(f'DELETE FROM {schema}.seals WHERE "window" = {window}')  # noqa: S608


def make_log(folder, collection):
    """The seal log of a folder: another folder, or another schema of the server, which only tests of logic may take."""
    if STORE == "sqlite":
        return FolderLog(_name_log(folder))
    from postgres import get_server

    where = get_server().make_schema(_name_log(folder))
    log = PostgresLog(where, collection.id, durable=False)
    _opened.add(log)
    return log


def copy_store(folder, other):
    """The folder and the store of another one, as they are now: a backup, or a restored one."""
    shutil.rmtree(other, ignore_errors=True)
    shutil.copytree(folder, other)
    if STORE == "postgres":
        from postgres import get_server

        get_server().copy_schema(folder, other)


def forget_store(folder):
    """Begin anew with the store of a folder; a file goes with its folder."""
    if STORE == "postgres":
        from postgres import get_server

        get_server().drop_schema(folder)


def close_stores():
    """Let go of the databases, so that no test runs out of connections."""
    for store in list(_opened):
        store.close()


def secret(name):
    """A private key for tests: always the same for a name."""
    return hashlib.sha256(f"shuffledp test key {name}".encode()).digest()


def signing_public(name):
    return Ed25519PrivateKey.from_private_bytes(secret(name)).public_key().public_bytes_raw()


def questions(epsilon=1.5):
    return (
        Question(
            name="way",
            text="How do you come to work?",
            task="histogram",
            protocol=protocols.krr.make_local(k=3, epsilon=epsilon),
            labels=("car", "bicycle", "bus"),
        ),
        Question(
            name="home",
            text="Do you work at home sometimes?",
            task="count",
            protocol=protocols.rr.make_local(epsilon=epsilon),
            labels=("no", "yes"),
        ),
    )


def make_collection(**changes) -> Collection:
    """`pledge`, `windows`, ... of `write_document`; two windows of 100 seconds from 1000 on by default."""
    windows = changes.pop("windows", Windows(start=1000, seconds=100, count=2, grace=10))
    keys = tuple(
        ShufflerKey(
            id=window, first=window, last=window, public=public_bytes(secret(f"outer {window}"))
        )
        for window in range(windows.count)
    )
    pledge = Pledge(epsilon=4.0, delta=1e-2, honest=1.0, min_batch=20, local_epsilon=3.0)
    return write_document(
        **{
            "title": "A test",
            "questions": questions(),
            "pledge": pledge,
            "windows": windows,
            "url": "http://127.0.0.1:8000",
            "shuffler_keys": keys,
            "shuffler_sign": signing_public("shuffler"),
            "analyzer_public": public_bytes(secret("inner")),
            "analyzer_sign": signing_public("analyzer"),
            **changes,
        }
    )


def as_format_1(raw):
    """The document as it was written in format 1, which had room for less."""
    content = json.loads(raw)
    dropped = ("asked", "noise")
    promise = content["promise"]
    return json.dumps(
        {
            "format": "shuffledp collection 1",
            "title": content["texts"]["title"],
            "questions": [
                {name: value for name, value in each.items() if name not in dropped}
                for each in content["questions"]
            ],
            "promise": {
                name: promise[name]
                for name in promise
                if name not in ("noise", "trust_the_shuffler")
            },
            "windows": content["windows"],
            "shuffler": content["shufflers"][0],
            **{
                name: content[name]
                for name in ("analyzer", "tokens", "suite", "slots", "message_size")
            },
        },
        ensure_ascii=False,
        separators=(",", ":"),
    ).encode()


def outer_secrets(collection):
    return {key.id: secret(f"outer {key.id}") for key in collection.shuffler_keys}


def make_inners(collection, window, seed):
    answers = {
        "way": ("car", "bicycle", "bus")[seed % 3],
        "home": seed % 2 == 0,
    }
    plains = encode_answers(collection, answers, SeededWords(seed))
    return [seal_inner(collection, window, plain) for plain in plains]


def make_report(collection, window, seed, token=b""):
    return seal_report(collection, window, make_inners(collection, window, seed), token)
