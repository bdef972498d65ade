"""The fields GF(2^r): irreducible polynomials, field arithmetic, pairwise independence; every solution of a system."""

import numpy as np
import pytest

from shuffledp import ParameterError
from shuffledp.numerics import galois
from shuffledp.numerics.galois import (
    POLYNOMIALS,
    cubics,
    double,
    line,
    multiples,
    multiply,
    parity,
    solutions,
)
from support import all_tapes


def slow_multiply(a, b, r, polynomial):
    """Schoolbook: multiply the polynomials, then reduce."""
    product = 0
    for i in range(b.bit_length()):
        if b >> i & 1:
            product ^= a << i
    while product.bit_length() > r:
        product ^= polynomial << (product.bit_length() - 1 - r)
    return product


def polynomial_gcd(a, b):
    while b:
        while a.bit_length() >= b.bit_length():
            a ^= b << (a.bit_length() - b.bit_length())
        a, b = b, a
    return a


def is_irreducible(polynomial):
    """Rabin's test: z^(2^r) = z, and gcd(z^(2^(r/l)) - z, f) = 1 for every prime l of r."""
    r = polynomial.bit_length() - 1
    powers = [2]  # z^(2^i) modulo the polynomial
    for _ in range(r):
        powers.append(slow_multiply(powers[-1], powers[-1], r, polynomial))
    primes = [d for d in range(2, r + 1) if r % d == 0 and all(d % e for e in range(2, d))]
    coprime = all(polynomial_gcd(polynomial, powers[r // d] ^ 2) == 1 for d in primes)
    return powers[r] == 2 and coprime


@pytest.mark.parametrize("r", POLYNOMIALS)
def test_irreducible(r):
    assert POLYNOMIALS[r].bit_length() == r + 1
    assert is_irreducible(POLYNOMIALS[r])


@pytest.mark.parametrize("r", [r for r in POLYNOMIALS if r <= 16])
def test_smallest(r):
    assert not any(map(is_irreducible, range(1 << r, POLYNOMIALS[r])))


def test_rabins_test_agrees_with_trial_division():
    for polynomial in range(4, 256):
        degree = polynomial.bit_length() - 1
        divisors = range(2, 1 << (degree // 2 + 1))
        prime = all(polynomial_gcd(polynomial, d) == 1 for d in divisors)
        assert is_irreducible(polynomial) == prime, bin(polynomial)


@pytest.mark.parametrize("r", [2, 3, 4, 5, 8])
def test_multiply_every_pair(r):
    a, x = all_tapes(r, 2).T
    product = multiply(a, x.astype(np.int64), 1 << r, r)
    assert product.dtype == a.dtype
    expected = [
        slow_multiply(s, t, r, POLYNOMIALS[r]) for s, t in zip(a.tolist(), x.tolist(), strict=True)
    ]
    assert product.tolist() == expected


@pytest.mark.parametrize(("r", "dtype"), [(11, "u2"), (16, "u2"), (32, "u4")])
def test_multiply_large_words(r, dtype):
    rng = np.random.default_rng(5)
    a = rng.integers(0, 1 << r, 200).astype(dtype)
    x = rng.integers(0, 1 << r, 200)
    x[0] = a[0] = (1 << r) - 1
    expected = [
        slow_multiply(s, t, r, POLYNOMIALS[r]) for s, t in zip(a.tolist(), x.tolist(), strict=True)
    ]
    assert multiply(a, x, 1 << r, r).tolist() == expected


@pytest.mark.parametrize("r", [2, 3, 5])
def test_exact_pairwise_independence(r):
    """For all x != y, (a x + b, a y + b) takes each pair of values for exactly one (a, b)."""
    a, b = all_tapes(r, 2).T
    size = 1 << r
    table = line(b, multiples(a, size, r), size)  # [x, function]
    for x in range(size):
        for y in range(x):
            pairs = table[x].astype(int) * size + table[y]
            assert sorted(pairs.tolist()) == list(range(size * size))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13, 16])
def test_line_is_multiply_and_add(size):
    a, b = all_tapes(4, 2).T
    table = line(b, multiples(a, size, 4), size)
    assert table.shape == (size, len(a))
    for x in range(size):
        np.testing.assert_array_equal(table[x], multiply(a, np.full(len(a), x), 16, 4) ^ b)


def test_portions_of_products_do_not_matter(monkeypatch):
    a, x = np.arange(1, 101, dtype=np.uint16), np.arange(100) % 37
    whole = multiply(a, x, 37, 9)
    monkeypatch.setattr(galois, "_AT_ONCE", 7)
    assert np.array_equal(multiply(a, x, 37, 9), whole)


def test_inputs_are_not_changed():
    a = np.arange(16, dtype=np.uint8)
    line(a, multiples(a, 16, 4), 16)
    multiply(a, np.arange(16), 16, 4)
    assert a.tolist() == list(range(16))


def test_unknown_degree():
    with pytest.raises(ParameterError, match="r=25"):
        double(np.array([1], dtype=np.uint32), 25)


def counted(columns, target, below):
    found = [part for part in solutions(columns, target, below) if len(part)]
    return np.bincount(np.concatenate([[], *found]).astype(int), minlength=1 << len(columns))


def tried(columns, target, below):
    counts = np.zeros(1 << len(columns), dtype=int)
    for x in range(len(counts)):
        image = np.zeros_like(target)
        for i, column in enumerate(columns):
            image ^= column * (x >> i & 1)
        counts[x] = np.count_nonzero((image ^ target) < below)
    return counts


@pytest.mark.parametrize(
    ("unknowns", "bits", "below"),
    [(1, 1, 1), (5, 3, 1), (5, 4, 3), (3, 6, 5), (6, 2, 3), (4, 4, 16), (7, 32, 1 << 27)],
)
def test_all_solutions_are_found(unknowns, bits, below):
    rng = np.random.default_rng(1)
    columns = [rng.integers(0, 1 << bits, 500).astype(np.uint32) for _ in range(unknowns)]
    columns[0][:50] = 0  # systems that are not of full rank
    target = rng.integers(0, 1 << bits, 500).astype(np.uint32)
    target[:20] = 0
    np.testing.assert_array_equal(counted(columns, target, below), tried(columns, target, below))


def test_portions_do_not_matter(monkeypatch):
    rng = np.random.default_rng(2)
    columns = [rng.integers(0, 16, 300).astype(np.uint8) for _ in range(6)]
    target = rng.integers(0, 16, 300).astype(np.uint8)
    whole = counted(columns, target, 3)
    monkeypatch.setattr(galois, "_SYSTEMS", 7)
    monkeypatch.setattr(galois, "_LISTED", 16)
    np.testing.assert_array_equal(counted(columns, target, 3), whole)


def test_no_systems():
    assert list(solutions([np.zeros(0, dtype=np.uint8)], np.zeros(0, dtype=np.uint8), 1)) == []


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_parity(dtype):
    words = np.random.default_rng(3).integers(0, np.iinfo(dtype).max, 200, dtype=dtype)
    assert parity(words).tolist() == [word.bit_count() % 2 for word in words.tolist()]


@pytest.mark.parametrize(("r", "size"), [(2, 4), (5, 20), (13, 5000), (32, 40_000)])
def test_cubics_by_their_bits(r, size):
    """Two rounds of codes, and tables of one to three lookups: as Horner's rule by schoolbook says."""
    rng = np.random.default_rng(r)
    functions = tuple(tuple(rng.integers(1 << r, size=4).tolist()) for _ in range(3))
    x = np.arange(size)
    found = cubics(functions, x, size, r)
    for t, function in enumerate(functions):
        for code in {0, 1, size - 1, *rng.integers(size, size=20).tolist()}:
            value = 0
            for coefficient in function:
                value = slow_multiply(value, int(code), r, POLYNOMIALS[r]) ^ coefficient
            assert found[t, code] == value
