"""Files of other people: what a newcomer meets, and what the errors advise."""

import pytest

PROMISE = ("--epsilon", "1", "--delta", "1e-6")
HEAD = '"Patient ID";"Raucher?";"Größe, cm";"Stadt";"Besuch am"'


@pytest.fixture
def clinic(tmp_path):
    """A file as a spreadsheet writes it elsewhere: semicolons, decimal commas, dates with dots, a mark."""
    rows = [
        f"{i};{('Ja', 'Nein')[i % 2]};{170 + i % 9},5;{('東京', 'New York, NY')[i % 2]};{1 + i % 28:02d}.03.2024"
        for i in range(600)
    ]
    path = tmp_path / "clinic.csv"
    path.write_text("\n".join([HEAD, *rows]) + "\n", encoding="utf-8-sig")
    return path


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("run", "count"), "choose one of 'Patient ID', 'Raucher?', 'Größe, cm', 'Stadt'"),
        (("run", "count", "--column", "Raucher?"), "(--true-value says which one is yes)"),
        (("run", "mean", "--column", "Größe, cm", "--lower", "100", "--upper", "220"), "(decimals take a point)"),
        (
            ("run", "mean", "--column", "Größe, cm", "--lower", "100", "--upper", "220", "--on-invalid", "drop"),
            "without --on-invalid, the first one is named",
        ),
        (
            ("run", "mean", "--column", "Besuch am", "--lower", "2024-01-01", "--upper", "2024-12-31"),
            "(dates are written 2024-12-31)",
        ),
        (("learn", "--column", "stadt", "--k", "2"), "it has 'Patient ID'"),
    ],
)  # fmt: skip
def test_errors_say_what_to_do(shuffledp, clinic, words, advice):
    place = 2 if words[0] == "run" else 1
    result = shuffledp(*words[:place], clinic, *words[place:], *PROMISE)
    assert result.exit_code == 2
    assert advice in result.stderr


def test_what_is_right_works(shuffledp, clinic):
    yes = ("--column", "Raucher?", "--true-value", "Ja")
    assert shuffledp("run", "count", clinic, *yes, *PROMISE).exit_code == 0
    cities = ("--column", "Stadt", "--categories", '東京,"New York, NY"')
    result = shuffledp("learn", clinic, *cities, *PROMISE)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert [line for line in lines if line.startswith("東京          ")], "columns line up"
