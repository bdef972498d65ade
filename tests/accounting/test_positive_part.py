"""The expected positive part of a sum: by listing, by Fourier, and by 40 digits."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest

from shuffledp import Reals, make
from shuffledp.accounting import positive_part as module
from shuffledp.accounting.amplify import profile
from shuffledp.accounting.blanket import Blanket
from shuffledp.accounting.positive_part import mean_positive_part
from shuffledp.numerics.rounding import UNIT
from shuffledp.protocols.gaussian import GaussianNoise


def by_digits(masses, gains, n, largest):
    """(1/n) E[(G_1 + G_2 + ...)_+] for two values, each coming up at most `largest` times."""
    with mpmath.workdps(40):
        first, second = (mpmath.mpf(mass) for mass in masses)
        rest = mpmath.log(1 - first - second)
        logs = [mpmath.loggamma(i + 1) for i in range(largest + 1)]
        falling = [mpmath.mpf(0)]  # ln of n (n - 1) ... (n - i + 1)
        for i in range(2 * largest):
            falling.append(falling[-1] + mpmath.log(n - i))
        total, rates = mpmath.mpf(0), (mpmath.log(first), mpmath.log(second))
        for i in range(largest + 1):
            for j in range(largest + 1):
                value = i * mpmath.mpf(gains[0]) + j * mpmath.mpf(gains[1])
                if value <= 0:
                    continue
                log = falling[i + j] - logs[i] - logs[j] + (n - i - j) * rest
                log += i * rates[0] + j * rates[1]
                total += value * mpmath.exp(log)
        return float(total / n)


@pytest.mark.parametrize("n", [10**4, 10**6, 9 * 10**8])
@pytest.mark.parametrize("gains", [(1.0, -1.7), (1.0, -math.pi), (1.0, -1.0)])
def test_few_events_among_many_users(n, gains):
    masses = np.array([12 / n, 14 / n])
    exact = by_digits(masses, gains, n, 80)
    found = mean_positive_part(masses, np.array(gains), n)
    assert exact * (1 - 1e-12) <= found <= exact * 1.005


@pytest.mark.parametrize("n", [1, 5, 3_000, 10**6, 10**12])
def test_many_rows_are_as_good_as_one(n):
    """Rows with few and with many frequencies, in any order, and some that need no evaluation."""
    masses, random = np.array([0.2, 0.1, 0.3]), np.random.default_rng(6)
    near = np.linspace(0, 8, 15) / math.sqrt(n)
    # Some rates are found in a step or two, and others take their time.
    shifts = random.permutation(np.concatenate([near, [0.9, 0.3, 0.1, -1.0]]))
    gains = np.array([1.0, 0.5, -0.9]) + 0.02 / 0.6 - shifts[:, None]
    gains[3] = [0.4, 0.0, 0.1]
    many = module.mean_positive_parts(masses, gains, n)
    each = [mean_positive_part(masses, row, n) for row in gains]
    assert many.tolist() == pytest.approx(each, rel=1e-9)
    assert len(set(each)) > (10 if n > 5 else 4)


def test_the_bound_by_digits_tells_a_wrong_mass():
    n = 10**6
    exact = by_digits(np.array([12.3 / n, 14 / n]), (1.0, -1.7), n, 80)
    assert mean_positive_part(np.array([12 / n, 14 / n]), np.array([1.0, -1.7]), n) < exact


@pytest.mark.parametrize("n", [40, 150])
@pytest.mark.parametrize("shift", [0.05, 0.2, 0.5])
def test_listing_and_fourier_agree(n, shift):
    masses, gains = np.array([0.3, 0.3]), np.array([1.0, -1.0 - shift])
    (listed,) = module._sum_list(masses, gains[None], n)
    tilt = module._Tilt.solve(masses[None], gains[None], n, 1)
    (fourier,) = module._scale(tilt, module._bound_by_fourier(tilt)[0], 1)
    assert listed * (1 - 1e-9) <= fourier <= listed * 1.01


def test_a_stronger_blur_only_raises(monkeypatch):
    masses, gains = np.array([0.3, 0.2]), np.array([1.0, -1.8])
    tilt = module._Tilt.solve(masses[None], gains[None], 2_000, 1)
    found = []
    for added in (1e-7, 1e-5, 1e-3, 1e-1):
        monkeypatch.setattr(module, "_ADDED_VARIANCE", added)
        found.append(float(module._bound_by_fourier(tilt)[0][0]))
    assert found == sorted(found)
    assert found[-1] > 1.1 * found[0]


@pytest.mark.parametrize("gains", [(1.0, -1.2), (3.0, -2.0)])
def test_frequencies_that_are_left_out_are_added(monkeypatch, gains):
    """Here they are many, and damped to a twentieth only."""
    masses, gains, n = np.array([0.2, 0.3]), np.array(gains), 20_000
    near = mean_positive_part(masses, gains, n)
    monkeypatch.setattr(module, "_FADED", 3.0)
    monkeypatch.setattr(module, "_HIGHEST", math.sqrt(6.0))
    assert near * (1 - 1e-3) <= mean_positive_part(masses, gains, n)


def by_contour(masses, gains, n):
    """(1/n) E[(G_1 + ... + G_n)_+] by Bromwich's integral, for n so large that lattices do not matter."""

    def moment(s, power):
        return mpmath.fsum(
            w * g**power * mpmath.exp(s * g) for w, g in zip(masses, gains, strict=True)
        )

    def mgf(s):
        return 1 + mpmath.fsum(w * mpmath.expm1(s * g) for w, g in zip(masses, gains, strict=True))

    low, high = mpmath.mpf(0), 1 / max(gains)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if moment(middle, 1) < 0 else (low, middle)
    sd = mpmath.sqrt(n * moment(high, 2) / mgf(high))
    step = mpmath.mpf(14) / sd / 120

    def term(k):
        s = mpmath.mpc(high, k * step)
        return (mpmath.exp(n * mpmath.log(mgf(s) / mgf(high))) / s**2).real

    total = (term(0) + 2 * mpmath.fsum(map(term, range(1, 120)))) * step / (2 * mpmath.pi)
    return total * mgf(high) ** n / n


def nearly_equal_laws(seed, tiny):
    random = np.random.default_rng(seed)
    base = [Fraction(int(b)) for b in random.integers(1, 100, 5)]
    laws = []
    for _ in range(3):
        sizes = [
            b * (1 + Fraction(float(x) * tiny)) for b, x in zip(base, random.random(5), strict=True)
        ]
        laws.append([size / sum(sizes) for size in sizes])
    return laws


def near_misses(tiny, n):
    """How far above the truth, in parts of it, the deltas of some nearly equal laws are."""
    found = []
    for seed in range(6):
        first, second, third = nearly_equal_laws(seed, tiny)
        w = [min(column) for column in zip(first, second, third, strict=True)]
        a, b = ([x / y for x, y in zip(law, w, strict=True)] for law in (first, second))
        blanket = Blanket(
            mass=tuple(map(float, w)), first=tuple(map(float, a)), second=tuple(map(float, b))
        )
        spread = float(sum(c * (x - y) ** 2 for c, x, y in zip(w, a, b, strict=True)))
        epsilon = 8 * math.sqrt(spread / n)
        with mpmath.workdps(50):
            truth = find_truth((tuple(w), tuple(a), tuple(b)), epsilon, n)
            found.append(float(mpmath.mpf(blanket.delta(epsilon, n)) / truth - 1))
    return found


@cache  # the mutant asks again
def find_truth(rows, epsilon, n):
    w, a, b = ([mpmath.mpf(x.numerator) / x.denominator for x in row] for row in rows)
    E = mpmath.exp(mpmath.mpf(epsilon))
    return by_contour(w, [x - E * y for x, y in zip(a, b, strict=True)], n)


@pytest.mark.parametrize(
    ("tiny", "n", "most"), [(1e-2, 10**12, 1e-4), (1e-7, 10**10, 0.5), (1e-7, 10**12, 10.0)]
)
def test_rounded_ratios_of_nearly_equal_laws(tiny, n, most):
    found = near_misses(tiny, n)
    assert min(found) > 0
    # Even a factor of delta is a small part of epsilon, which is below 10^-12 there.
    assert max(found) < most


def test_without_their_rounding_some_of_them_are_too_small(monkeypatch):
    monkeypatch.setattr(Blanket, "bound_rounding", lambda *_: 0.0)
    assert min(near_misses(1e-7, 10**10)) < 0


def test_hardly_any_mass_is_left_for_the_value_0():
    masses, gains, n = np.array([5.9e-12, 1 - 6.9e-12]), np.array([0.375, -1.125]), 11
    (first, second), rest = map(Fraction, masses), 1 - sum(map(Fraction, masses))
    exact = sum(
        math.factorial(n)
        * (first**i / math.factorial(i))
        * (second**j / math.factorial(j))
        * (rest ** (n - i - j) / math.factorial(n - i - j))
        * max(0, i * Fraction(gains[0]) + j * Fraction(gains[1]))
        for i in range(n + 1)
        for j in range(n + 1 - i)
    )
    found = Fraction(mean_positive_part(masses, gains, n)) * n
    assert exact <= found <= exact * Fraction(101, 100)


def test_values_that_are_all_positive_need_no_evaluation():
    assert mean_positive_part(np.array([0.5]), np.array([3.0]), 10**4) == pytest.approx(1.5)
    assert mean_positive_part(np.array([0.5, 0.5]), np.array([3.0, -1.0]), 1) == pytest.approx(1.5)
    # A value that never comes up is none.
    assert mean_positive_part(np.array([0.0, 0.5]), np.array([3.0, -1.0]), 10) == 0


def test_a_sum_of_mean_0():
    masses, gains, n = np.array([0.25, 0.25]), np.array([1.0, -1.0]), 10**6
    half_mean_size = math.sqrt(n / 2 / (2 * math.pi)) / n
    assert 1 <= mean_positive_part(masses, gains, n) / half_mean_size < 1.005


@pytest.mark.parametrize("mass", [1e-300, 1e-12, 0.3])
@pytest.mark.parametrize("loss", [1.0001, 2.0, 1e8])
@pytest.mark.parametrize("n", [10**6, 10**12])
def test_extreme_laws_neither_overflow_nor_lose_the_bound(mass, loss, n):
    w, g = np.array([mass, 0.5]), np.array([1.0, -loss])
    assert 0 < mean_positive_part(w, g, n) <= mass * (1 + 1e-7)


def exactly(array):
    return [mpmath.mpf(float(x)) for x in array]


def some_laws(count=25):
    """Masses and values of both signs, from ordinary to lopsided; masses need not reach 1."""
    random = np.random.default_rng(5)
    for _ in range(count):
        size = int(random.integers(2, 6))
        masses = random.dirichlet(np.full(size + 1, 0.5))[:size] + 1e-9
        gains = random.normal(size=size) * np.exp(random.normal(size=size))
        gains[:2] = abs(gains[0]) + 0.1, -abs(gains[1]) - 1
        gains -= float(masses @ gains) / masses.sum()  # as after a tilt, most of a sum cancels
        yield masses * 0.999, gains


class TestRounding:
    """What is added for rounding covers it, quantity by quantity, in 60 digits."""

    @pytest.fixture(autouse=True)
    def digits(self):
        with mpmath.workdps(60):
            yield

    def tilts(self, side):
        for masses, gains in some_laws():
            w = masses / masses.sum() if side < 0 else masses
            for n in (100, 10**12):
                for z in (0.01, 3.0):
                    rate = z / math.sqrt(n * float(w @ gains**2))
                    yield w, gains, module._Tilt.at(rate, w, gains, n, side)
            yield w, gains, module._Tilt.at(1.0, w, gains, 100, side)

    def test_the_mgf_from_above(self):
        for w, g, tilt in self.tilts(1):
            mgf = mpmath.fsum(
                a * mpmath.expm1(mpmath.mpf(tilt.rate) * b)
                for a, b in zip(exactly(w), exactly(g), strict=True)
            )
            found = mpmath.expm1(mpmath.mpf(tilt.log_mgf) + mpmath.mpf(tilt.wrong_log))
            assert mgf <= found <= mgf + 1e-12 * (1 + mgf)

    def test_the_mgf_from_below(self):
        for w, g, tilt in self.tilts(-1):
            total = mpmath.fsum(exactly(w))
            mgf = mpmath.fsum(
                a / total * mpmath.expm1(mpmath.mpf(tilt.rate) * b)
                for a, b in zip(exactly(w), exactly(g), strict=True)
            )
            found = mpmath.expm1(mpmath.mpf(tilt.log_mgf) - mpmath.mpf(tilt.wrong_log))
            assert mgf - 1e-12 * (1 + mgf) <= found <= mgf

    def tilted_law(self, w, g, tilt):
        M = mpmath.exp(mpmath.mpf(tilt.log_mgf))
        rate, g = mpmath.mpf(tilt.rate), exactly(g)
        return [a * mpmath.exp(rate * b) / M for a, b in zip(exactly(w), g, strict=True)], g

    def test_masses_and_moments(self):
        for w, values, tilt in self.tilts(1):
            masses, g = self.tilted_law(w, values, tilt)
            for found, wrong, truth in zip(tilt.mass, tilt.wrong, masses, strict=True):
                assert abs(mpmath.mpf(found) / truth - 1) <= wrong <= 1e-13
            mean = mpmath.fsum(m * x for m, x in zip(masses, g, strict=True))
            second = mpmath.fsum(m * x**2 for m, x in zip(masses, g, strict=True))
            third = mpmath.fsum(m * abs(x) ** 3 for m, x in zip(masses, g, strict=True))
            sd = mpmath.sqrt(tilt.n * (second - mean**2))
            assert abs(mpmath.mpf(tilt.sd) / sd - 1) <= tilt.wrong_sd <= 1e-5
            assert abs(mean) <= tilt.offset <= abs(mean) + 1e-13 * mpmath.sqrt(second)
            least = 0.474801 * (third ** (mpmath.mpf(1) / 3) + abs(mean)) ** 3 * tilt.n / sd**3
            assert least <= tilt.distance <= least * (1 + 1e-4)

    @pytest.mark.parametrize("some", [np.array([0, 1, 30, 400, 4000]), np.arange(4001)])
    def test_the_characteristic_function(self, some):
        """One by one, and by tables of sines."""
        for w, values, tilt in self.tilts(1):
            masses, g = self.tilted_law(w, values, tilt)
            rest = 1 - mpmath.fsum(masses)
            row, step = tilt.take(None), np.array([0.01 / tilt.sd])  # the only one
            real, imaginary, rounding = module._transform(row, step, some)
            omega = step * some
            logs = module.log_power(real[0], imaginary[0], omega * rounding[0], tilt.n)
            for i in [0, 1, 2, 3, 4, 31, 32, 33, 1000, 4000]:
                if i >= len(some):
                    continue
                turns = [mpmath.expjpi(mpmath.mpf(float(omega[i])) * v / mpmath.pi) for v in g]
                phi = rest + mpmath.fsum(m * turn for m, turn in zip(masses, turns, strict=True))
                log, angle, error = (part[i] for part in logs)
                found = mpmath.exp(mpmath.mpc(float(log), float(angle)))
                assert abs(phi**tilt.n - found) <= mpmath.exp(float(log)) * error

    def test_tables_of_sines_leave_room_for_rounding(self):
        """And small frequencies keep their relative accuracy."""
        for _, values, tilt in self.tilts(1):
            row, step = tilt.take(None), np.array([1e-4 / tilt.sd])
            few = module._transform(row, step, np.arange(90))
            many = module._transform(row, step, np.arange(900))
            size = float(np.abs(values) @ tilt.mass)
            assert many[2][0] >= few[2][0] + 96 * module.UNIT * size * (1 - 1e-9)
            for one, other in zip(few[:2], many[:2], strict=True):
                off = np.abs(one[0] - other[0, :90])
                assert (off <= 16 * module.UNIT * size * step * np.arange(90)).all()

    def test_the_normal_excess(self):
        for z in (0, 1e-9, 0.05, 0.7, 1.0, 2.3, 2.999, 3.0, 3.0001, 4.5, 9.0, 38.0, 600.0):
            x = mpmath.mpf(z)
            mills = mpmath.sqrt(mpmath.pi / 2) * mpmath.exp(x**2 / 2)
            truth = 1 - x * mills * mpmath.erfc(x / mpmath.sqrt(2))
            low, high = module._bound_excess(float(z))
            assert low <= truth <= high <= low * (1 + 2e-10)

    def test_masses_that_are_off_by_24_units(self):
        """One user: the worst law that these masses may stand for."""
        for w, g in some_laws():
            most = sum(
                Fraction(a) * (1 + 24 * Fraction(1, 2**53)) * Fraction(b)
                for a, b in zip(w.tolist(), g.tolist(), strict=True)
                if b > 0
            )
            assert mean_positive_part(w, g, 1) >= most

    def test_lists(self):
        for w, g in some_laws(12):
            n = 3
            w, g = w[[g.argmax(), g.argmin()]], g[[g.argmax(), g.argmin()]]
            law = [(Fraction(0), 1 - sum(map(Fraction, w.tolist())))]
            law += [(Fraction(b), Fraction(a)) for a, b in zip(w.tolist(), g.tolist(), strict=True)]
            sums = {Fraction(0): Fraction(1)}
            for _ in range(n):
                grown = {}
                for s, mass in sums.items():
                    for value, share in law:
                        grown[s + value] = grown.get(s + value, 0) + mass * share
                sums = grown
            truth = sum(mass * max(s, 0) for s, mass in sums.items())
            (found,) = module._sum_list(w, g[None], n)
            assert truth <= Fraction(found) <= truth * (1 + Fraction(1, 10**12))


@pytest.mark.parametrize("deviation", [1.0, 8.0, 20.0, 36.0])
@pytest.mark.parametrize("n", [10**8, 10**12])
def test_down_to_the_smallest_delta(n, deviation):
    """Three values that share no lattice, by Bromwich's integral: from above, and near."""
    masses, gains = np.array([0.2, 0.15, 0.1]), np.array([1.0, -0.5 * math.sqrt(2), -math.pi / 7])
    gains = gains - float(masses @ gains) / masses.sum()
    gains -= deviation * math.sqrt(float(masses @ gains**2) / n) / masses.sum()
    with mpmath.workdps(50):
        truth = by_contour(exactly(masses), exactly(gains), n)
    assert truth > 1e-300
    assert truth <= mean_positive_part(masses, gains, n) <= truth * (1 + 3e-4 * (1 + deviation**2))
    whole = np.append(masses, 1 - masses.sum()), np.append(gains, 0.0)
    lower = module.mean_positive_part_lower(*whole, n)
    assert (0 if n < 10**10 else 0.9 * truth) <= lower <= truth


def test_rare_large_values_are_not_tilted_too_far():
    """Discrete Gaussian noise has them: with the tilt of a normal sum the bound was 0.22, where 1.4e-8 is one."""
    device = GaussianNoise(domain=Reals(lower=0, upper=1, steps=2), sigma=0.8)
    curve = profile(randomizer=device, n=900, honest=1, bound="blanket")
    assert curve.delta(1.0) < 2e-8


def test_what_is_wrong_with_a_tilt_is_added_to_its_bound():
    tilt = module._Tilt.solve(np.array([[0.3, 0.3]]), np.array([[1.0, -1.2]]), 2_000, 1).take(0)
    main, error = module._bound_by_normal(tilt)
    _, more = module._bound_by_normal(replace(tilt, wrong_sd=tilt.wrong_sd + 0.25))
    assert more >= (error + main * 0.5) * (1 - 1e-9)


@pytest.fixture
def frequencies(monkeypatch):
    """How many have been added up, each for one law."""
    counted, add = [], module._add_frequencies

    def count(tilt, period, blur, places):
        counted.append(len(period) * len(places))
        return add(tilt, period, blur, places)

    monkeypatch.setattr(module, "_add_frequencies", count)
    return counted


@pytest.mark.filterwarnings("error")
def test_no_frequency_is_added_up_in_vain(frequencies, monkeypatch):
    """Hardly anybody lies at a large epsilon: nine tenths of the sums were beaten by the positive parts alone."""
    device = make("rounded_sum", n=1000, epsilon=27.6, delta=1e-6, lower=0, upper=64).randomizer
    curve, epsilons = device.open_curve(900)[0], np.linspace(0.0, 27.0, 25)
    frequencies.clear()
    found = curve.deltas(epsilons)
    few = sum(frequencies)
    frequencies.clear()
    monkeypatch.setattr(module, "_find_widest", lambda w, *_: np.full(len(w), math.inf))
    assert curve.deltas(epsilons).tolist() == found.tolist()
    assert few * 10 < sum(frequencies)


@pytest.mark.parametrize("epsilon", [6.5, 7.7, 8.8, 10.0])
def test_a_sum_that_is_left_out_would_not_have_been_better(epsilon, monkeypatch):
    device = make("rounded_sum", n=1000, epsilon=epsilon, delta=1e-6, lower=0, upper=1).randomizer
    curve, epsilons = device.open_curve(900)[0], np.linspace(0.0, epsilon, 40)
    found = curve.deltas(epsilons)
    monkeypatch.setattr(module, "_find_widest", lambda w, *_: np.full(len(w), math.inf))
    assert found.tolist() == pytest.approx(curve.deltas(epsilons).tolist(), rel=1e-9)


@pytest.mark.filterwarnings("error")
def test_no_frequency_is_added_up_where_the_moments_leave_the_floats(frequencies):
    masses, gains = np.array([1e-10, 0.9]), np.array([1.0, -1e-12])
    assert mean_positive_part(masses, gains, 1000) == pytest.approx(1e-10, rel=1e-12)
    assert frequencies == []


def test_sums_of_many_frequencies_lose_few_units():
    """Added one after the other, what is below half a unit of the first one would be lost each time."""
    columns = 1 << 14
    values = np.full((2, columns), 0.9 * UNIT)
    values[0, 0], values[1, 8191] = 1.0, 3.0
    row, column = np.divmod(np.arange(2 * columns), columns)
    kept = (column % 7 > 0) | (values.ravel() > UNIT)  # frequencies that are dead are not there
    sums = module._sum_rows(values.ravel()[kept], row[kept], column[kept], (2, columns))
    for found, each, some in zip(sums, values, kept.reshape(2, -1), strict=True):
        exact = math.fsum(each[some])
        assert abs(found - exact) <= 48 * UNIT * exact
