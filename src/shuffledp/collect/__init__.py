"""The three roles of a live collection as state machines: bytes and the time come in, bytes and effects go out.

`device` checks a collection before it answers and keeps its report until it is acknowledged; `shuffler` takes
reports, seals windows, and forgets; `analyzer` opens a batch, charges the ledger once, and publishes. None of them
has a clock or a socket: `serve` gives them both, and tests give them years in milliseconds.
"""

from shuffledp.collect.analyzer import Analyzer
from shuffledp.collect.design import (
    LOCAL_EPSILON,
    Asked,
    Design,
    Settings,
    SurveyFile,
    choose_protocols,
    create,
    describe_trust,
    generate_analyzer,
    measure_influence,
    read_survey,
)
from shuffledp.collect.device import BUDGET, Device, Sending, read_reply
from shuffledp.collect.keys import AnalyzerSecrets, ShufflerSecrets
from shuffledp.collect.shuffler import Reply, Shuffler
from shuffledp.collect.store import SqliteStore, State, Store, WindowRow

__all__ = [
    "BUDGET",
    "LOCAL_EPSILON",
    "Analyzer",
    "AnalyzerSecrets",
    "Asked",
    "Design",
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
    "measure_influence",
    "read_reply",
    "read_survey",
]
