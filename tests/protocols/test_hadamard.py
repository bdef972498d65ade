"""Hadamard response: the paper's numbers in every regime, and the decoder against the matrix."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.linalg import hadamard as sylvester
from scipy.signal import convolve2d

import shuffledp as sdp
from mse import is_the_variance, resolution, squared_errors
from shuffledp.core.analyzer import Interval, Tally
from shuffledp.protocols import hadamard
from shuffledp.protocols.hadamard import HadamardResponse, make_local, walsh_hadamard
from support import first

REGIMES = [(5, 0.3), (31, 1.0), (60, 2.0), (1000, 4.0), (16, 6.0), (3, 9.0)]


@pytest.mark.parametrize(("k", "epsilon"), REGIMES)
def test_variance_of_the_paper(k, epsilon):
    protocol = make_local(k=k, epsilon=epsilon)
    gain, B = math.exp(epsilon) - 1, protocol.randomizer.blocks
    inputs = np.random.default_rng(k).integers(0, 100, k)
    block = np.array([inputs[x % B :: B].sum() for x in range(k)])
    expected = (gain + 2 * B) * (2 * inputs.sum() + block * gain) / gain**2 - inputs
    np.testing.assert_allclose(protocol.analyzer.variance(inputs), expected, rtol=1e-11)


def paper_blocks(k, epsilon):
    return max(1, 2 ** (math.ceil(math.log2(min(math.exp(epsilon), 2 * k))) - 1))


def paper_total_variance(k, epsilon):
    """Sum over the categories for one user of each: blocks are filled one after the other."""
    gain, B = math.exp(epsilon) - 1, paper_blocks(k, epsilon)
    size = 2 ** math.ceil(math.log2(k / B + 1)) - 1
    block = np.array([min(size, k - size * (x // size)) for x in range(k)])
    return ((gain + 2 * B) * (2 * k + block * gain) / gain**2 - 1).sum()


@pytest.mark.parametrize("k", [2, 3, 16, 100, 1000, 1024])
@pytest.mark.parametrize("epsilon", [0.1, 0.69, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0])
def test_never_worse_than_the_choice_of_the_paper(k, epsilon):
    ours = make_local(k=k, epsilon=epsilon).analyzer.variance(np.ones(k, dtype=np.int64)).sum()
    assert ours <= paper_total_variance(k, epsilon) * (1 + 1e-9)


def test_a_third_better_than_the_choice_of_the_paper():
    ours = make_local(k=1024, epsilon=1.0).analyzer.variance(np.ones(1024, dtype=np.int64)).sum()
    assert 0.64 < ours / paper_total_variance(1024, 1.0) < 0.67


@pytest.mark.parametrize(
    ("k", "epsilon", "blocks", "outputs"),
    [
        (1000, 0.1, 1, 1024),
        (1000, 0.69, 1, 1024),
        (1024, 1.0, 1, 2048),
        (1000, 2.0, 4, 1024),
        (1024, 4.0, 32, 2048),
        (16, 6.0, 16, 32),
        (1000, 20.0, 1024, 2048),
        (2, 5.0, 2, 4),
    ],
)
def test_size_in_every_regime(k, epsilon, blocks, outputs):
    response = HadamardResponse(k=k, epsilon0=epsilon)
    assert (response.blocks, response.outputs) == (blocks, outputs)


@pytest.mark.parametrize(("k", "epsilon"), REGIMES)
def test_sets_meet_in_a_half_or_not_at_all(k, epsilon):
    response = HadamardResponse(k=k, epsilon0=epsilon)
    signs = signs_of(response, range(min(k, 40)))
    half = response.block_length // 2
    inside = (signs == 1).astype(int)
    meet = inside @ inside.T
    for x, y in np.ndindex(meet.shape):
        same_block = x % response.blocks == y % response.blocks
        expected = half if x == y else (half // 2 if same_block else 0)
        assert meet[x, y] == expected


def signs_of(response, categories):
    """The definition: rows of a Sylvester-Hadamard matrix, one block next to the other."""
    matrix = sylvester(response.block_length)
    signs = np.zeros((len(categories), response.blocks, response.block_length), dtype=int)
    for i, x in enumerate(categories):
        signs[i, x % response.blocks] = matrix[x // response.blocks + 1]
    return signs.reshape(len(categories), response.outputs)


@pytest.mark.parametrize("k", [3, 200, 1000, 40_000, 70_000])
@pytest.mark.parametrize("epsilon", [0.5, 3.0, 8.0])
def test_encode_at_full_width(k, epsilon):
    # The outputs need 1, 2 and 4 bytes; the small tapes of the contract tests reach only the first.
    response, rng = HadamardResponse(k=k, epsilon0=epsilon), np.random.default_rng(k)
    inputs = rng.integers(0, k, 2000)
    words = sdp.SeededWords(k).words(2000)
    sent = response.encode(inputs, words[:, None]).payload
    for x, word, y in zip(inputs.tolist(), words.tolist(), sent.tolist(), strict=True):
        coin, output = divmod(word, response.outputs)
        if coin >= response.toward:
            assert y == output
        else:
            assert response.sign(x, y) == 1


@pytest.mark.parametrize("shape", [(1, 2), (1, 64), (8, 16), (32, 2)])
def test_fast_transform_is_the_matrix_product(shape):
    counts = np.random.default_rng(2).integers(0, 2**40, shape)
    np.testing.assert_array_equal(walsh_hadamard(counts), counts @ sylvester(shape[1]))


@pytest.mark.parametrize(("k", "epsilon"), REGIMES)
def test_estimate_is_the_correlation_with_the_rows(k, epsilon):
    protocol = make_local(k=k, epsilon=epsilon)
    response = protocol.randomizer
    counts = np.random.default_rng(3).integers(0, 1000, response.outputs)
    estimate = protocol.analyzer.estimate(Tally(counts=counts, users=int(counts.sum())))
    scale = (2 * response.blocks + math.exp(epsilon) - 1) / (math.exp(epsilon) - 1)
    expected = scale * (signs_of(response, range(k)) @ counts)
    np.testing.assert_allclose(estimate.value, expected, rtol=1e-11)


def test_exact_interval_of_one_block_counts_the_messages_in_the_set():
    protocol = make_local(k=5, epsilon=1.0)
    counts = np.array([40, 2, 3, 50, 7, 11, 13, 0])
    estimate = protocol.analyzer.estimate(Tally(counts=counts, users=int(counts.sum())))
    inside = (signs_of(protocol.randomizer, range(5)) == 1).astype(int) @ counts
    np.testing.assert_array_equal(estimate.error.observed, inside)
    low, high = estimate.exact_interval(0.95)
    near_low, near_high = estimate.interval(0.95)
    clipped = np.clip([near_low, near_high], 0, counts.sum())
    np.testing.assert_allclose([low, high], clipped, atol=3)


@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("n", first([2, 10, 60], 2))
def test_intervals_of_several_blocks_cover(n, others):
    """For every count, the others in the same block or in another one, by the exact law of a block."""
    protocol = make_local(k=16, epsilon=3.0)
    response = protocol.randomizer
    assert response.blocks > 1
    for level in (0.9, 0.95):
        found = [
            cover(protocol, n, c, response.blocks if others else 1, level) for c in range(n + 1)
        ]
        assert min(found) >= level - 1e-12


def cover(protocol, n, c, other, level):
    """The probability that the interval of category 0 holds c, if everybody else has the category `other`."""
    response, analyzer = protocol.randomizer, protocol.analyzer
    law = np.ones((1, 1))  # messages in the block, and those with sign +1
    for x, people in ((0, c), (other, n - c)):
        one = np.zeros((2, 2))
        for (y,), mass in response.pmf(x).items():
            inside = y // response.block_length == 0
            one[int(inside), int(response.sign(0, y) == 1)] += float(mass)
        for _ in range(people):
            law = convolve2d(law, one)
    inside, plus = np.meshgrid(*map(np.arange, law.shape), indexing="ij")
    possible = plus <= inside
    inside, plus = inside[possible], plus[possible]
    correlation = 2 * plus - inside
    value = correlation / float(response.lead)
    low, high = analyzer._error(n, correlation, value, inside).interval(value, level)
    return law[possible][(low <= c) & (c <= high)].sum()


def test_intervals_of_several_blocks_are_not_much_wider_than_normal():
    protocol = make_local(k=16, epsilon=3.0)
    counts = np.arange(16) * 100_000
    tally = protocol.randomizer.deal(counts, sdp.SeededWords(4))
    estimate = protocol.analyzer.estimate(tally)
    low, high = estimate.interval(1 - 1e-9)
    assert np.all((low <= counts) & (counts <= high))
    low, high = estimate.interval(0.95)
    np.testing.assert_array_less((high - low)[1:], 1.2 * 2 * 1.96 * estimate.stderr[1:])


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_standard_error_finds_the_exact_one(epsilon):
    protocol = make_local(k=24, epsilon=epsilon)
    codes = np.repeat(np.arange(24), np.arange(24) ** 2 * 20)
    estimate = sdp.run(protocol, codes, sdp.SeededWords(1))
    exact = np.sqrt(protocol.analyzer.variance(np.bincount(codes, minlength=24)))
    np.testing.assert_allclose(estimate.stderr, exact, rtol=0.03)


@pytest.mark.parametrize("epsilon", [20.0, 40.0, 700.0])
def test_variance_survives_a_huge_epsilon(epsilon):
    # A block for each category: the variance is far below the rounding error of its two moments.
    protocol = make_local(k=8, epsilon=epsilon)
    inputs = np.full(8, 1000)
    q = float(protocol.randomizer.pmf(0)[(1,)])
    expected = 8000 * 2 * q + 1000 * 16 * q  # stray messages, and own ones that went astray
    np.testing.assert_allclose(protocol.analyzer.variance(inputs), expected, rtol=1e-6)
    estimate = sdp.run(protocol, np.repeat(np.arange(8), 1000), sdp.SeededWords(1))
    assert np.all(estimate.stderr > 0)


@pytest.mark.parametrize(("k", "epsilon"), [(31, 1.0), (28, 2.0), (16, 4.0)])
class TestMeanSquaredError:
    """One block, four blocks of seven rows, and a block for each category."""

    def test_is_the_variance(self, k, epsilon):
        protocol = make_local(k=k, epsilon=epsilon)
        codes = np.arange(6000) % k
        terms = squared_errors(protocol.randomizer, protocol, codes, runs=1000, seed=1)
        assert is_the_variance(terms)
        assert resolution(terms) < 0.07

    def test_mutant_that_moves_too_rarely_is_noticed(self, k, epsilon):
        protocol = make_local(k=k, epsilon=epsilon)
        mutant = HadamardResponse(k=k, epsilon0=epsilon)
        object.__setattr__(mutant, "low", mutant.low + mutant.toward // 4)
        codes = np.arange(6000) % k
        assert not is_the_variance(squared_errors(mutant, protocol, codes, runs=1000, seed=1))


def test_epsilon_that_the_words_cannot_express():
    with pytest.raises(sdp.ParameterError, match=r"epsilon0=0\.1 must be larger"):
        make_local(k=3, epsilon=0.1, word_bits=6)


def test_words_too_short_for_the_outputs():
    with pytest.raises(sdp.ParameterError, match=r"epsilon0=1\.0 must be larger"):
        make_local(k=1000, epsilon=1.0, word_bits=8)


@dataclass(frozen=True)
class Watched:
    """Instead of a block: notes how much is left out."""

    n: int
    q: float
    left_out: list

    def leave_out(self, tail):
        self.left_out.append(tail)
        return Interval(np.zeros(2), np.full(2, 40.0))


def test_what_both_bounds_miss_adds_up_to_no_more_than_the_level_leaves(monkeypatch):
    """The people of the block, on one side, and the error, on both."""
    missed = []
    monkeypatch.setattr(
        hadamard.BoundedError, "leave_out", lambda _, tail, _value: missed.extend([tail, tail])
    )
    block = Watched(n=100, q=0.2, left_out=missed)
    hadamard.BlocksError(stderr=np.ones(2), block=block, lead=0.4).interval(np.zeros(2), 0.9)
    assert len(missed) == 3
    assert 0.1 * 0.999 < sum(missed) <= 0.1 * (1 + 1e-12)
