import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.engine import chunks


def test_a_bad_value_is_named_by_its_position_in_the_whole_column():
    protocol = sdp.protocols.krr.make_local(k=4, epsilon=1.0)
    values = np.zeros(400_000, dtype=np.int64)
    values[300_001] = 9
    with pytest.raises(sdp.DataError, match="value 9 at position 300001 is outside"):
        sdp.run(protocol, values)


@pytest.mark.parametrize("values", [[[1, 2], [3]], np.ma.array([1, 2], mask=[True, False])])
def test_ragged_and_masked_columns_are_refused(values):
    with pytest.raises(sdp.DataError, match="values"):
        sdp.run(sdp.protocols.krr.make_local(k=4, epsilon=1.0), values)


def test_chunks_hold_many_users_even_if_the_tape_is_long():
    unary = sdp.protocols.optimized_unary.make_local(k=1024, epsilon=1.0).randomizer
    assert chunks.users_per_chunk(unary) == 2048
    huge = sdp.protocols.optimized_unary.make_local(k=10**8, epsilon=1.0).randomizer
    assert chunks.users_per_chunk(huge) == 1


def test_too_few_users_for_the_guarantee_are_refused():
    protocol = sdp.protocols.zsum_sparse.make(n=1000, epsilon=1.0, delta=1e-6)
    with pytest.raises(sdp.DataError, match="needs the noise of at least 900 users"):
        sdp.run(protocol, [1] * 899)
    assert sdp.run(protocol, [1] * 900).stderr > 0


def test_secure_words_by_default():
    protocol = sdp.protocols.rr.make_local(epsilon=0.1)
    values = np.zeros(1000, dtype=bool)
    assert len({sdp.run(protocol, values).value for _ in range(20)}) > 1


class TestNames:
    PETS = sdp.Categories(k=3, names=("bird", "cat", "dog"))
    NAMES = ("cat", "dog", "dog", "bird") * 50

    def columns(self):
        import pandas as pd
        import polars as pl
        import pyarrow as pa

        yield list(self.NAMES)
        yield np.array(self.NAMES)
        yield pd.Series(self.NAMES)
        yield pd.Series(self.NAMES, dtype="category")
        yield pl.Series(self.NAMES)
        yield pl.Series(self.NAMES, dtype=pl.Categorical)
        yield pa.array(self.NAMES)
        yield pa.array(self.NAMES).dictionary_encode()

    def test_every_kind_of_column_gives_the_tally_of_its_codes(self):
        protocol = sdp.protocols.krr.make_local(k=3, epsilon=2.0)
        codes = np.array([1, 2, 2, 0] * 50)
        expected = sdp.run(protocol, codes, sdp.SeededWords(5)).value
        for column in self.columns():
            found = sdp.run(protocol, column, sdp.SeededWords(5), domain=self.PETS)
            assert found.labels == ("bird", "cat", "dog")
            np.testing.assert_array_equal(found.value, expected)

    def test_without_a_domain_the_error_says_how_to_declare_it(self):
        protocol = sdp.protocols.krr.make_local(k=3, epsilon=2.0)
        with pytest.raises(sdp.DataError, match=r"declare domain=Categories\(k=3"):
            sdp.run(protocol, self.NAMES)

    def test_a_domain_of_another_size_is_refused(self):
        protocol = sdp.protocols.krr.make_local(k=4, epsilon=2.0)
        with pytest.raises(sdp.MismatchError):
            sdp.run(protocol, self.NAMES, domain=self.PETS)


def test_the_name_of_a_protocol_is_no_protocol():
    with pytest.raises(sdp.ParameterError, match="protocol='krr' must be a protocol"):
        sdp.run("krr", [0, 1])
