"""The tape is one stream: how an engine cuts it into chunks changes nothing."""

import numpy as np
import pytest

from shuffledp import SeededWords, protocols
from shuffledp.engine import chunks, local
from support import any_protocol


@pytest.mark.parametrize("spec", protocols.PROTOCOLS, ids=lambda spec: spec.name)
def test_the_tally_does_not_depend_on_the_chunks(spec, monkeypatch):
    protocol = any_protocol(spec)
    domain = protocol.randomizer.domain
    values = domain.values(np.random.default_rng(1).integers(domain.size, size=501))
    if (values == values.astype(np.int64)).all():
        values = values.astype(np.int64)
    whole = local.tally_each(protocol, values, SeededWords(2))
    user = 8 * protocol.randomizer.words_per_input
    for users in (1, 100, 500, 501):
        monkeypatch.setattr(chunks, "_CHUNK_BYTES", users * user)
        parts = local.tally_each(protocol, values, SeededWords(2))
        assert parts.users == 501
        np.testing.assert_array_equal(parts.counts, whole.counts)
