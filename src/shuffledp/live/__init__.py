"""The three roles of a live collection as state machines: bytes and the time come in, bytes and effects go out.

`device` checks a collection before it answers and keeps its report until it is acknowledged; `shuffler` takes
reports, seals windows, and forgets; `analyzer` opens a batch, charges the ledger once, and publishes. None of them
has a clock or a socket: `serve` gives them both, and tests give them years in milliseconds.
"""

from typing import TYPE_CHECKING

from shuffledp.core import load_later

if TYPE_CHECKING:
    from shuffledp.live import pages, serve, wire
    from shuffledp.live.analyzer import Analyzer
    from shuffledp.live.design import (
        LOCAL_EPSILON,
        Design,
        Settings,
        choose_other,
        choose_protocols,
        compare_noise,
        create,
        generate_analyzer,
        make_collection,
        measure_influence,
        read_survey,
    )
    from shuffledp.live.device import (
        BUDGET,
        FLOOR_BUDGET,
        MENDABLE,
        Device,
        Sending,
        Spent,
        check_promise,
        read_reply,
    )
    from shuffledp.live.keys import AnalyzerSecrets, ShufflerSecrets, make_tokens
    from shuffledp.live.pages import describe_trust
    from shuffledp.live.seals import Entry, FolderLog, SealError, SealLog
    from shuffledp.live.shuffler import Reply, Shuffler
    from shuffledp.live.store import SqliteStore, State, Store, WindowRow, write_private
    from shuffledp.live.wire.document import LARGEST_FLOOR

__all__ = [
    "BUDGET",
    "FLOOR_BUDGET",
    "LARGEST_FLOOR",
    "LOCAL_EPSILON",
    "MENDABLE",
    "Analyzer",
    "AnalyzerSecrets",
    "Design",
    "Device",
    "Entry",
    "FolderLog",
    "Reply",
    "SealError",
    "SealLog",
    "Sending",
    "Settings",
    "Shuffler",
    "ShufflerSecrets",
    "Spent",
    "SqliteStore",
    "State",
    "Store",
    "WindowRow",
    "check_promise",
    "choose_other",
    "choose_protocols",
    "compare_noise",
    "create",
    "describe_trust",
    "generate_analyzer",
    "make_collection",
    "make_tokens",
    "measure_influence",
    "pages",
    "read_reply",
    "read_survey",
    "serve",
    "wire",
    "write_private",
]

# A device needs neither the planner nor the ledger, and should not wait for them.
if not TYPE_CHECKING:  # with it, every name would be Any
    __getattr__ = load_later(
        __name__,
        {
            "analyzer": "Analyzer",
            "design": "LOCAL_EPSILON Design Settings choose_other choose_protocols compare_noise "
            "create generate_analyzer make_collection measure_influence read_survey",
            "device": "BUDGET FLOOR_BUDGET MENDABLE Device Sending Spent check_promise read_reply",
            "keys": "AnalyzerSecrets ShufflerSecrets make_tokens",
            "pages": "describe_trust",
            "seals": "Entry FolderLog SealError SealLog",
            "shuffler": "Reply Shuffler",
            "store": "SqliteStore State Store WindowRow write_private",
            "wire.document": "LARGEST_FLOOR",
        },
        modules=("pages", "serve", "wire"),
    )
