"""Deliberately broken versions of our own randomizers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from shuffledp.core.randomizer import Messages


@dataclass(frozen=True)
class Broken:
    """A randomizer whose `encode` is another."""

    inner: Any
    how: Callable[[Any, Any, Any], Messages]

    @property
    def domain(self):
        return self.inner.domain

    @property
    def epsilon0(self):
        return self.inner.epsilon0

    @property
    def word_bits(self):
        return self.inner.word_bits

    @property
    def words_per_input(self):
        return self.inner.words_per_input

    def pmf(self, x):
        return self.inner.pmf(x)

    def encode(self, inputs, words):
        return self.how(self.inner, inputs, words)


def off_by_one(krr, inputs, words):
    """The share of each category is rounded down where it must be rounded up."""
    lower = type(krr)(k=krr.k, epsilon0=krr.epsilon0, word_bits=krr.word_bits)
    object.__setattr__(lower, "share", krr.share - 1)
    return lower.encode(inputs, words)


def no_noise(randomizer, inputs, words):
    """Every coin shows the same side."""
    return randomizer.encode(inputs, np.zeros_like(words))


def reused_word(randomizer, inputs, words):
    """One word serves for all coins of a user."""
    return randomizer.encode(inputs, np.repeat(words[:, :1], words.shape[1], axis=1))


def clipped(randomizer, inputs, words):
    """At most one message each: noise and value share it."""
    sent = randomizer.encode(inputs, words)
    owner, first = np.unique(np.asarray(sent.owner), return_index=True)
    return Messages(payload=sent.payload[first], owner=owner, users=sent.users)
