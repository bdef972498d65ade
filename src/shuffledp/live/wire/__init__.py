"""What travels in a live collection: the document, reports, batches, receipts. No sockets, no clock.

`strict` is JSON with one meaning, `question` how something is asked and the way from an answer to a message, `noise`
what servers add, `promise` what holds then, `document` the collection that everybody holds the same bytes of, `hpke` the
encryption, `report` what a device sends and what the shuffler hands to the analyzer.
"""

from shuffledp.core.randomizer import Decoded, MessageCode
from shuffledp.live.wire.document import Collection, ShufflerKey, Texts, Windows, write_document
from shuffledp.live.wire.noise import Dummies, DummyKind, HashedDummies
from shuffledp.live.wire.promise import Noise, Pledge, compute_guarantee
from shuffledp.live.wire.question import Asking, Kind, Part, Question, carry, describe_law
from shuffledp.live.wire.report import MEDIA_TYPE, MOST_REPORTS, Manifest, Opened
from shuffledp.numerics.tabulated import CutLaplace

__all__ = [
    "MEDIA_TYPE",
    "MOST_REPORTS",
    "Asking",
    "Collection",
    "CutLaplace",
    "Decoded",
    "Dummies",
    "DummyKind",
    "HashedDummies",
    "Kind",
    "Manifest",
    "MessageCode",
    "Noise",
    "Opened",
    "Part",
    "Pledge",
    "Question",
    "ShufflerKey",
    "Texts",
    "Windows",
    "carry",
    "compute_guarantee",
    "describe_law",
    "write_document",
]
