"""`KRR.encode` is arithmetic modulo 2^64: types and huge draws must not show."""

import numpy as np
import pytest

from shuffledp.protocols.krr import KRR


def expected(krr, inputs, words):
    drawn = [int(word) // krr.share for word in words]
    return [d if d < krr.k else int(x) for d, x in zip(drawn, inputs, strict=True)]


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u4", "i8", "u8", ">i4"])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_every_type_of_input_and_word(dtype, bits):
    krr = KRR(k=5, epsilon0=1.0, word_bits=bits)
    inputs = np.arange(300).astype(dtype) % np.array(5, dtype=dtype)
    words = np.linspace(0, 2**bits - 1, 300).astype(object)
    words = np.array([min(int(word), 2**bits - 1) for word in words], dtype=f"u{bits // 8}")
    sent = krr.encode(inputs, words[:, None]).payload
    assert sent.dtype == np.int64
    assert sent.tolist() == expected(krr, inputs, words)


def test_draws_beyond_the_signed_range_keep_the_truth():
    krr = KRR(k=3, epsilon0=45.0)
    assert krr.share == 1
    words = np.array([0, 1, 2, 3, 2**63 - 1, 2**63, 2**64 - 1], dtype=np.uint64)
    inputs = np.array([2, 2, 0, 1, 2, 1, 2])
    sent = krr.encode(inputs, words[:, None]).payload
    assert sent.tolist() == [0, 1, 2, 1, 2, 1, 2]
