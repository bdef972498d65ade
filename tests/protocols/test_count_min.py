"""Count-min sketch: exact moments over all public functions, guarantee, coverage over seeds, error."""

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, binomtest, chi2

import shuffledp as sdp
from shuffledp.core.analyzer import NormalError, Tally
from shuffledp.numerics.intervals import BinomialSum
from shuffledp.protocols import count_min
from shuffledp.protocols.count_min import CountMin, CountMinAnalyzer
from support import ALPHA, every, first


def made(n, k, epsilon, delta, **more):
    return count_min.make(
        n=n, k=k, epsilon=epsilon, delta=delta, **{"honest": 1.0, "seed": 0, **more}
    )


def tiny(width, function):
    return CountMin(
        k=4, width=width, r=2, functions=(function,), surely=0, threshold=3, word_bits=2
    )


def tally_law(sketch, data):
    law = Counter()
    for sent in product(*(sketch.pmf(x).items() for x in data)):
        messages = [message for one, _ in sent for message in one]
        counts = np.bincount(messages, minlength=sketch.width)
        law[tuple(counts.tolist())] += float(math.prod(mass for _, mass in sent))
    return law


def tell_apart(width, functions):
    """Sketches with the share of the functions that have their cells: many functions have the same ones."""
    sketches = [tiny(width, function) for function in functions]
    tables = {tuple(each.cells(np.arange(4))[0].tolist()): each for each in sketches}
    times = Counter(tuple(each.cells(np.arange(4))[0].tolist()) for each in sketches)
    return [(sketch, times[table] / len(sketches)) for table, sketch in tables.items()]


def moments(width, functions, data):
    """Exact mean, variance and mean sum of squares, over one row's functions and all noise."""
    mean, second, squares = 0.0, 0.0, 0.0
    for sketch, share in tell_apart(width, functions):
        analyzer = CountMinAnalyzer(randomizer=sketch)
        for counts, chance in tally_law(sketch, data).items():
            tally, mass = Tally(counts=np.array(counts), users=len(data)), share * chance
            value = analyzer.estimate(tally).value
            mean, second = mean + mass * value, second + mass * value**2
            squares += mass * analyzer.sum_of_squares(tally)
    return mean, second - mean**2, squares


CUBIC = list(product(range(4), repeat=4))
AFFINE = [(0, 0, b, c) for b, c in product(range(4), repeat=2)]


@pytest.mark.parametrize(
    ("width", "data"),
    first([(4, (0, 0)), (4, (1, 3)), (2, (0, 0)), (2, (1, 3)), (2, (0, 1)), (4, (0, 1))], 3),
)
class TestOverAllFunctions:
    def test_unbiased_with_the_declared_variance(self, width, data):
        inputs = np.bincount(data, minlength=4)
        mean, variance, squares = moments(width, CUBIC, data)
        declared = CountMinAnalyzer(randomizer=tiny(width, (0, 0, 0, 0))).variance(inputs)
        np.testing.assert_allclose(mean, inputs, atol=1e-12)
        np.testing.assert_allclose(variance, declared, rtol=1e-12)
        assert squares == pytest.approx(float((inputs**2).sum()), rel=1e-12)


def test_straight_lines_would_not_do():
    """Pairwise independence keeps the mean, but collisions then come together."""
    mean, variance, _ = moments(4, AFFINE, (0, 1, 2))
    declared = CountMinAnalyzer(randomizer=tiny(4, (0, 0, 0, 0))).variance(np.array([1, 1, 1, 0]))
    np.testing.assert_allclose(mean, [1, 1, 1, 0], atol=1e-12)
    assert variance[3] > declared[3] * 1.2


def test_any_four_cells_are_independent():
    tables = {tuple(tiny(4, function).cells(np.arange(4))[0].tolist()) for function in CUBIC}
    assert len(tables) == 4**4


def test_public_seeds_are_secure_words_unless_given():
    one, other = (count_min.make(n=1000, k=100, epsilon=1.0, delta=1e-4) for _ in range(2))
    assert one.parameters["seed"] != other.parameters["seed"]
    assert one.randomizer.functions != other.randomizer.functions
    assert sdp.make(one.name, **one.parameters) == one


def test_functions_come_from_the_seed():
    one, again, other = (made(10**4, 100, 1.0, 1e-6, seed=s).randomizer for s in (1, 1, 2))
    assert one == again
    assert one.functions != other.functions
    assert len(set(one.functions)) == one.rows


def test_cells_of_a_large_field_against_plain_polynomials():
    sketch = made(10**6, 2**32, 1.0, 1e-6, seed=9).randomizer
    codes = np.array([0, 1, 12345, 2**32 - 1])

    def times(a, b):
        result = 0
        for i in range(32):
            result ^= (a << i) if b >> i & 1 else 0
        for i in range(63, 31, -1):
            result ^= (0x10000008D << (i - 32)) if result >> i & 1 else 0
        return result

    drop = 32 - (sketch.width.bit_length() - 1)
    for t, (a, b, c, d) in enumerate(sketch.functions):
        for i, x in enumerate(codes.tolist()):
            value = times(times(times(a, x) ^ b, x) ^ c, x) ^ d
            assert sketch.cells(codes)[t, i] == t * sketch.width + (value >> drop)


def fair_pair(t):
    """(P, Q) of the first of two cells, t dummies being in them."""
    a = np.arange(t + 2)
    return binom.pmf(a - 1, t, 0.5), binom.pmf(a, t, 0.5)


class TestGuarantee:
    @pytest.mark.parametrize(("n", "epsilon", "rows"), [(200, 2.0, 1), (300, 1.5, 2)])
    def test_covers_the_exact_view_of_all_rows(self, n, epsilon, rows):
        """The joint law of all pairs of cells, outcome by outcome, for given numbers of dummies."""
        protocol = made(n, 64, epsilon, 1e-2, rows=rows, width=8)
        rho = float(protocol.randomizer.row.rho)
        assert protocol.guarantee.delta <= 1e-2
        # Every user sends `surely` dummies, and the last one is a coin.
        surely, share = protocol.randomizer.surely, rho % 1
        t = np.arange(80)
        law = np.convolve(binom.pmf(t, n * surely, 0.25), binom.pmf(t, n, share * 0.25))[: len(t)]
        assert law.sum() > 1 - 1e-6
        one = [fair_pair(int(size)) for size in t]
        flat_p = np.concatenate([w * p for w, (p, _) in zip(law, one, strict=True)])
        flat_q = np.concatenate([w * q for w, (_, q) in zip(law, one, strict=True)])
        joint_p, joint_q = flat_p, flat_q
        for _ in range(rows - 1):
            keep = joint_p > 1e-14
            joint_p = np.multiply.outer(joint_p[keep], flat_p).ravel()
            joint_q = np.multiply.outer(joint_q[keep], flat_q).ravel()
        exact = np.maximum(joint_p - math.exp(epsilon) * joint_q, 0).sum()
        assert exact <= protocol.guarantee.delta
        assert protocol.guarantee.delta <= exact * 1.1

    def test_less_noise_is_not_enough(self):
        device = made(10**5, 1024, 1.0, 1e-6).randomizer
        assert device.surely == 0
        assert device.delta(10**5, 1.0) <= 1e-6
        fewer = replace(device, threshold=device.threshold * 98 // 100)
        assert fewer.delta(10**5, 1.0) > 1e-6
        more_rows = replace(device, functions=(*device.functions, (0, 0, 1, 0)))
        assert more_rows.delta(10**5, 1.0) > 1e-6

    def test_every_epsilon_has_its_delta(self):
        device = made(10**4, 1024, 1.0, 1e-6).randomizer
        deltas = [device.delta(10**4, epsilon) for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0, 20.0)]
        assert deltas == sorted(deltas, reverse=True)
        assert deltas[0] <= 1

    def test_too_few(self):
        with pytest.raises(sdp.UnsupportedError, match="too few"):
            made(10, 1024, 0.1, 1e-6, width=1024)


def errors_over_functions(rows, runs):
    """Squared errors over the declared variance, of two categories; `rows` picks the functions."""
    inputs, some = np.zeros(5000, dtype=np.int64), [7, 4500]
    inputs[:4000] = 25
    protocol = made(10**5, 5000, 2.0, 1e-4, width=256)
    variance, terms = protocol.analyzer.variance(inputs)[some], []
    for seed in range(runs):
        drawn = np.random.default_rng(seed).integers(0, 1 << 32, (4, 4)).tolist()
        sketch = replace(protocol.randomizer, functions=rows(drawn))
        value = (
            CountMinAnalyzer(randomizer=sketch)
            .estimate_of(run_tally(sketch, inputs, seed), some)
            .value
        )
        terms.append((value - inputs[some]) ** 2 / variance)
    return np.array(terms)


def run_tally(sketch, inputs, seed):
    return sketch.deal(inputs, sdp.SeededWords(1000 + seed))


def test_mean_squared_error_over_functions_and_a_mutant():
    def right(terms):
        return chi2.ppf(ALPHA / 2, terms.size) < terms.sum() < chi2.isf(ALPHA / 2, terms.size)

    assert right(errors_over_functions(lambda rows: rows, 100))
    alike = errors_over_functions(lambda rows: rows[:1] * 4, 100)  # all rows collide together
    assert not right(alike)


def heavy(n, k):
    """One category holds all but one person of each other."""
    inputs = np.ones(k, dtype=np.int64)
    inputs[3] += n - k
    return inputs


def zipf(n, k):
    share = 1 / np.arange(1, k + 1)
    return np.random.default_rng(1).multinomial(n, share / share.sum())


def uniform(n, k):
    return np.random.default_rng(1).multinomial(n, np.full(k, 1 / k))


def answers(data, n, k, seeds, **more):
    """Estimates with functions and noise of their own, of all categories."""
    inputs = data(n, k)
    for seed in range(seeds):
        protocol = made(n, k, 1.0, 1e-6, seed=seed, **more)
        yield inputs, protocol.analyzer.estimate(run_tally(protocol.randomizer, inputs, seed))


def normal(estimate, level):
    """What the interval used to be."""
    return NormalError(stderr=estimate.stderr).interval(estimate.value, level)


CASES = [
    (heavy, 2000, 50, {"rows": 6, "width": 32}),
    (heavy, 10**4, 1000, {"rows": 2, "width": 64}),
    (zipf, 10**4, 1000, {}),
    (zipf, 2000, 50, {"width": 16, "rows": 1}),
    (uniform, 10**4, 1000, {}),
    (uniform, 10**6, 20_000, {}),
]


@pytest.mark.parametrize(("data", "n", "k", "more"), every(2, CASES))
def test_intervals_cover_over_functions_and_noise(data, n, k, more):
    """Any fixed category, in runs with functions of their own."""
    runs = 60
    hits = np.zeros(k)
    for inputs, estimate in answers(data, n, k, runs, **more):
        low, high = estimate.interval(0.95)
        hits += (low <= inputs) & (inputs <= high)
    for each in (0, 3, k - 1):
        assert binomtest(int(hits[each]), runs, 0.95, alternative="less").pvalue > ALPHA
    assert hits.mean() / runs >= 0.95


@pytest.mark.slow
def test_normal_intervals_do_not_cover():
    """In a sixth of all cases the heavy category collides in some row."""
    runs, kept = 400, 0
    for inputs, estimate in answers(heavy, 2000, 50, runs, rows=6, width=32):
        low, high = normal(estimate, 0.95)
        kept += int((low[0] <= inputs[0]) & (inputs[0] <= high[0]))
    assert binomtest(kept, runs, 0.95, alternative="less").pvalue < ALPHA


@pytest.mark.parametrize(
    ("data", "n", "k", "at_most"),
    [(heavy, 10**6, 20_000, 0.05), (zipf, 10**6, 20_000, 0.4), (uniform, 10**6, 20_000, 1.5)],
)
def test_hardly_wider_than_normal_and_much_narrower_for_unequal_counts(data, n, k, at_most):
    for _, estimate in answers(data, n, k, 2):
        ours, usual = estimate.interval(0.95), np.clip(normal(estimate, 0.95), 0, n)
        assert (ours.high - ours.low).mean() < at_most * (usual[1] - usual[0]).mean()


@pytest.mark.parametrize("width", first([2, 4]))
@pytest.mark.parametrize("data", [(0, 0), (0, 1), (0, 0, 1)])
def test_the_variance_of_the_sum_of_squares_is_bounded(width, data):
    """Over all functions and noise, against what bounding it rests on."""
    mean, second, inputs = 0.0, 0.0, np.bincount(data, minlength=4)
    for sketch, share in tell_apart(width, CUBIC):
        analyzer = CountMinAnalyzer(randomizer=sketch)
        for counts, chance in tally_law(sketch, data).items():
            tally, mass = Tally(counts=np.array(counts), users=len(data)), share * chance
            measured = analyzer.sum_of_squares(tally)
            mean, second = mean + mass * measured, second + mass * measured**2
            error = analyzer.estimate(tally).error
    squares = float((inputs**2).sum())
    assert mean == pytest.approx(squares)
    n, v = len(data), error.noise.variance
    crossed = 2 * math.sqrt(v * (squares + n * n / width)) + error._square_noise()
    stated = (2 * squares**2 / width + crossed**2) / (1 - 1 / width) ** 2
    assert second - mean**2 <= stated


@pytest.mark.parametrize("data", [heavy, zipf, uniform])
def test_the_sum_of_squares_is_rarely_above_its_bound(data):
    for inputs, estimate in answers(data, 10**4, 1000, 20):
        bound = estimate.error.bound_squares(0.01)
        assert float(inputs @ inputs) <= bound <= 1e8


class TestLookups:
    PROTOCOL = made(20_000, 3000, 2.0, 1e-4, seed=4)
    INPUTS = np.bincount(np.arange(20_000) % 700, minlength=3000)

    def test_some_categories_as_all(self):
        tally = run_tally(self.PROTOCOL.randomizer, self.INPUTS, 1)
        analyzer = self.PROTOCOL.analyzer
        everything, some = analyzer.estimate(tally), analyzer.estimate_of(tally, [5, 2999])
        np.testing.assert_array_equal(some.value, everything.value[[5, 2999]])
        np.testing.assert_array_equal(some.stderr, everything.stderr[[5, 2999]])

    def test_minimum_without_noise_is_never_below(self):
        sketch, analyzer = self.PROTOCOL.randomizer, self.PROTOCOL.analyzer
        cells = np.zeros(sketch.rows * sketch.width, dtype=np.int64)
        for row in sketch.cells(np.arange(3000)):
            np.add.at(cells, row, self.INPUTS)
        noise = 20_000 * float(sketch.row.rho) / sketch.width
        lowest = analyzer.minimum(Tally(counts=cells, users=20_000)) + noise
        assert np.all(lowest >= self.INPUTS - 1e-6)
        assert lowest.mean() > self.INPUTS.mean() + 1

    def test_all_of_a_huge_domain_are_refused(self):
        protocol = made(10**5, 2**32, 1.0, 1e-6)
        empty = Tally(counts=np.zeros(4 * protocol.randomizer.width, dtype=np.int64), users=1)
        with pytest.raises(sdp.UnsupportedError, match="estimate_of"):
            protocol.analyzer.estimate(empty)
        with pytest.raises(sdp.UnsupportedError, match="public functions"):
            protocol.analyzer.weights(0)


def test_default_width_asks_for_about_one_dummy_in_a_row():
    for n in (10**4, 10**6, 10**9):
        rho = float(made(n, 2**32, 1.0, 1e-6).randomizer.row.rho)
        assert 0.55 <= rho <= 1.3
    assert made(10**6, 100, 1.0, 1e-6).randomizer.width == 128


@pytest.mark.parametrize(
    ("name", "value"),
    [("width", 3), ("width", 1), ("rows", 0), ("rows", 65), ("k", 1), ("seed", -1)],
)
def test_bad_parameters(name, value):
    with pytest.raises(sdp.ParameterError, match=name):
        made(**{"n": 10**5, "k": 100, "epsilon": 1.0, "delta": 1e-6, name: value})


def test_a_category_of_everybody_has_nobody_else_in_its_cells():
    """Markov's inequality is about the others only: without noise its lower end is n if n are in all cells."""
    noise = BinomialSum(parts=((1, Fraction(1, 10**40)),))
    error = count_min.SketchError(
        stderr=np.ones(2),
        fewest=np.array([500, 400]),
        most=np.array([500, 400]),
        squares=1.0,
        n=500,
        width=64,
        rows=4,
        noise=noise,
    )
    g = 0.01
    low = error._low_by_markov(noise.window(g / 16), g)
    assert low[0] == pytest.approx(500, rel=1e-12)
    # Of 400 some may be others: so many that g of them are as many in each of four rows.
    share = 1 / (64 * g ** (1 / 4) * (15 / 16))
    assert low[1] == pytest.approx(500 - 100 / (1 - share), rel=1e-9)


@pytest.mark.parametrize(("width", "wanted"), [(2, 3.0), (4, math.sqrt(8.5 + 1.5**2))])
def test_the_noise_of_the_sum_of_squares_has_its_three_parts(width, wanted):
    """Four people, a dummy in each cell: pairs 2 (E[D]^2 + n/4) / w, and the means given D, of which two parts add."""
    error = count_min.SketchError(
        stderr=np.ones(1),
        fewest=np.ones(1),
        most=np.ones(1),
        squares=1.0,
        n=4,
        width=width,
        rows=1,
        noise=BinomialSum(parts=((2, Fraction(1, 2)),)),
    )
    assert error._square_noise() == pytest.approx(wanted, rel=1e-12)
