"""The messages that a shuffler adds to a window: made like those of devices, and forgotten.

They are sealed for the analyzer's key with the same suite, encoding and length, so that nobody without that key tells
them from people's. How many say what is drawn once, and kept nowhere.
"""

import numpy as np

from shuffledp.core.octets import Octets
from shuffledp.core.randomizer import WordSource
from shuffledp.live.wire.document import Collection
from shuffledp.live.wire.report import seal_inner

__all__ = ["draw_dummies", "make_dummies", "seal_plains"]


def draw_dummies(collection: Collection, source: WordSource | None = None) -> Octets:
    """The plaintexts[n, 1 + message_size] of one window's dummies: another draw at every call."""
    from shuffledp.numerics.entropy import SecureWords

    words = SecureWords() if source is None else source
    parts = []
    for kind, question in enumerate(collection.questions):
        law = question.noise
        if law is None:
            continue
        payload = law.make(words)
        plain = np.zeros((len(payload), 1 + collection.message_size), dtype=np.uint8)
        plain[:, 0] = kind
        if len(payload):
            plain[:, 1 : 1 + question.code.size] = question.code.encode_message(payload)
        parts.append(plain)
    return np.concatenate(parts)


def seal_plains(collection: Collection, window: int, plains: Octets) -> Octets:
    """Each of them sealed for the analyzer: records[n, inner_size]."""
    sealed = b"".join(seal_inner(collection, window, row.tobytes()) for row in plains)
    return np.frombuffer(sealed, dtype=np.uint8).reshape(-1, collection.inner_size)


def make_dummies(collection: Collection, window: int) -> Octets:
    """The sealed dummies of a window, made in this process."""
    return seal_plains(collection, window, draw_dummies(collection))
