"""A task fixes its domain from options, the same ones for every way of asking."""

from dataclasses import dataclass
from pathlib import Path

import pytest

import shuffledp as sdp
from shuffledp.core.domain import Bits, Categories, Integers, Reals
from shuffledp.core.task import Option
from shuffledp.tasks import TASKS, Count, Histogram, Mean, Questions, Sum, Uniformity, register


@dataclass(frozen=True)
class Column:
    """What a task may see of a column."""

    fractional: bool = False
    text: bool = False
    boolean: bool = False
    found: tuple[str, ...] = ("ant", "bee")
    name: str = "pet"

    def categories(self):
        return self.found


def test_a_survey_is_no_single_question():
    with pytest.raises(sdp.UnsupportedError, match="is declared by its questions"):
        Questions.declare({})


class TestOption:
    @pytest.mark.parametrize(
        ("kind", "value", "read"),
        [
            (bool, "TRUE", True),
            (bool, False, False),
            (int, "12", 12),
            (int, 12, 12),
            (float, "3", 3),
            (float, "1e3", 1000.0),
            (float, -0.5, -0.5),
            (str, "a b", "a b"),
            (tuple, "a,b", ("a", "b")),
            (tuple, ["a", "b,c"], ("a", "b,c")),
            (Path, "names.txt", Path("names.txt")),
        ],
    )
    def test_is_read_from_text_or_as_it_is(self, kind, value, read):
        found = Option(name="x", kind=kind, help="").read(value)
        assert found == read
        assert type(found) is type(read)

    @pytest.mark.parametrize(
        ("kind", "value", "wanted"),
        [
            (bool, "perhaps", "true or false"),
            (bool, 1, "true or false"),
            (int, "1.5", "an integer"),
            (float, "much", "a number"),
            (str, 3, "text"),
            (tuple, [1, 2], "a list of names"),
            (tuple, 3, "a list of names"),
            (Path, 3, "the path of a file"),
        ],
    )
    def test_refuses_by_name(self, kind, value, wanted):
        with pytest.raises(
            sdp.ParameterError, match=f"^x={value!r} must be {wanted}".replace("[", r"\[")
        ):
            Option(name="x", kind=kind, help="").read(value)

    @pytest.mark.parametrize("task", TASKS.values())
    def test_all_have_a_help_text_and_a_kind_that_can_be_read(self, task):
        assert task.title
        for option in task.options:
            assert option.help.endswith(".")
            with pytest.raises(sdp.ParameterError, match=f"^{option.name}="):
                option.read(object())

    def test_a_name_means_the_same_in_every_task(self):
        options = {option for task in TASKS.values() for option in task.options}
        assert len(options) == len({option.name for option in options})


class TestDomain:
    @pytest.mark.parametrize(
        ("task", "options", "column", "domain"),
        [
            (Count, {}, Column(), Bits()),
            (Count, {"lower": None, "categories_from_data": False}, Column(), Bits()),
            (Sum, {}, None, Integers(lower=0, upper=1)),
            (Sum, {"upper": 9}, None, Integers(lower=0, upper=9)),
            (Sum, {"lower": 0.0, "upper": 9.0}, Column(), Integers(lower=0, upper=9)),
            (Mean, {"lower": "-3", "upper": "4"}, Column(), Integers(lower=-3, upper=4)),
            (
                Mean,
                {"lower": 0, "upper": 9},
                Column(fractional=True),
                Reals(lower=0, upper=9, steps=4),
            ),
            (Mean, {}, Column(boolean=True), Integers(lower=0, upper=1)),
            (Sum, {}, Column(boolean=True), Integers(lower=0, upper=1)),
            (Mean, {"lower": 0, "upper": 0.5}, Column(), Reals(lower=0, upper=0.5, steps=4)),
            (Mean, {"lower": 0, "upper": 9, "steps": 3}, None, Reals(lower=0, upper=9, steps=3)),
            (Histogram, {"k": 5}, None, Categories(k=5)),
            (Histogram, {"lower": 2, "upper": 4.0}, None, Integers(lower=2, upper=4)),
            (Histogram, {"categories": "a,b"}, Column(), Categories(k=2, names=("a", "b"))),
            (
                Histogram,
                {"categories": ' a, "b, c" '},
                Column(),
                Categories(k=2, names=("a", "b, c")),
            ),
            (Uniformity, {"k": 5, "alpha": 0.1}, None, Categories(k=5)),
        ],
    )
    def test_follows_from_the_options(self, task, options, column, domain):
        found = task.declare(options, column)
        assert found.task.domain == domain
        assert found.not_private == ()

    def test_other_fields_too(self):
        assert Uniformity.declare({"k": 5, "alpha": 0.1}).task.alpha == 0.1

    def test_the_default_grid_is_chosen_for_n_and_epsilon_and_told(self):
        open_ = Mean.declare({"lower": 0, "upper": 2.5}, Column()).task
        (note,) = open_.fit(10_000, 1.0).remarks()
        assert "256 steps of 0.00976562" in note
        assert open_.fit(10**6, 1.0).domain.steps == 4096
        assert open_.fit(10**6, 1.0).fit(10_000, 1.0) == open_.fit(10_000, 1.0)
        fixed = Mean.declare({"lower": 0, "upper": 2.5, "steps": 50}, Column()).task
        assert fixed.fit(10_000, 1.0) == fixed
        assert fixed.remarks() == ()

    def test_from_a_file(self, tmp_path):
        path = tmp_path / "names.txt"
        path.write_text("\ufeffcat \n\tred panda\n \n\n", encoding="utf-8")
        domain = Histogram.declare({"categories_file": str(path)}).task.domain
        assert domain == Categories(k=2, names=("cat", "red panda"))

    def test_from_the_data_is_not_private(self):
        found = Histogram.declare({"categories_from_data": True}, Column())
        assert found.task.domain.names == ("ant", "bee")
        assert "read from the data" in found.not_private[0]
        with pytest.raises(sdp.DataError, match="'pet' has only one value"):
            Histogram.declare({"categories_from_data": True}, Column(found=("ant",)))

    @pytest.mark.parametrize(
        ("task", "options", "message"),
        [
            (Count, {"lower": 0, "steps": 2}, "a count takes no lower and no steps"),
            (Mean, {"categories": "a,b"}, "a mean takes no categories"),
            (Mean, {"colour": "red"}, "a mean takes no colour"),
            (Mean, {"lower": 0}, "a mean needs both `lower` and `upper`, from public knowledge"),
            (Histogram, {"lower": 0}, "lower and upper belong together"),
            (Histogram, {"k": 3, "categories": "a,b"}, "give one of categories and k, not both"),
            (Histogram, {"k": 3, "lower": 0, "upper": 2}, "give k, or lower and upper, not both"),
            (Histogram, {"lower": 0.5, "upper": 2}, "give whole numbers"),
            (Histogram, {}, "needs its categories from public knowledge"),
        ],
    )
    def test_contradictions_name_the_options(self, task, options, message):
        with pytest.raises(sdp.UnsupportedError, match=message):
            task.declare(options, Column())


class TestRegistry:
    def test_a_name_is_taken_once(self):
        assert register(Count) is Count

        @dataclass(frozen=True, slots=True, kw_only=True)
        class Other(Count):
            pass

        with pytest.raises(sdp.MismatchError, match="'count' is taken by Count"):
            register(Other)
        assert TASKS["count"] is Count
