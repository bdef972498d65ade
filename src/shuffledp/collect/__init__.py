"""The three roles of a live collection as state machines: bytes and the time come in, bytes and effects go out.

`device` checks a collection before it answers and keeps its report until it is acknowledged; `shuffler` takes
reports, seals windows, and forgets; `analyzer` opens a batch, charges the ledger once, and publishes. None of them
has a clock or a socket: `serve` gives them both, and tests give them years in milliseconds.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shuffledp.collect.analyzer import Analyzer
    from shuffledp.collect.design import (
        LARGEST_FLOOR,
        LOCAL_EPSILON,
        Design,
        DesignQuestion,
        Settings,
        SurveyFile,
        choose_protocols,
        create,
        describe_trust,
        generate_analyzer,
        make_collection,
        measure_influence,
        read_survey,
    )
    from shuffledp.collect.device import BUDGET, Device, Sending, read_reply
    from shuffledp.collect.disk import write_private
    from shuffledp.collect.keys import AnalyzerSecrets, ShufflerSecrets, make_tokens
    from shuffledp.collect.shuffler import Reply, Shuffler
    from shuffledp.collect.store import SqliteStore, State, Store, WindowRow

__all__ = [
    "BUDGET",
    "LARGEST_FLOOR",
    "LOCAL_EPSILON",
    "Analyzer",
    "AnalyzerSecrets",
    "Design",
    "DesignQuestion",
    "Device",
    "Reply",
    "Sending",
    "Settings",
    "Shuffler",
    "ShufflerSecrets",
    "SqliteStore",
    "State",
    "Store",
    "SurveyFile",
    "WindowRow",
    "choose_protocols",
    "create",
    "describe_trust",
    "generate_analyzer",
    "make_collection",
    "make_tokens",
    "measure_influence",
    "read_reply",
    "read_survey",
    "write_private",
]

# A device needs neither the planner nor the ledger, and should not wait for them.
_PLACES = {
    **dict.fromkeys(("BUDGET", "Device", "Sending", "read_reply"), "device"),
    **dict.fromkeys(("AnalyzerSecrets", "ShufflerSecrets", "make_tokens"), "keys"),
    **dict.fromkeys(("Reply", "Shuffler"), "shuffler"),
    **dict.fromkeys(("SqliteStore", "State", "Store", "WindowRow"), "store"),
    "Analyzer": "analyzer",
    "write_private": "disk",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'shuffledp.collect' has no attribute {name!r}")
    return getattr(import_module(f"shuffledp.collect.{_PLACES.get(name, 'design')}"), name)
