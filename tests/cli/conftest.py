"""A command line in a folder of its own, and people to ask."""

import csv

import pytest
from typer.testing import CliRunner

import shuffledp as sdp
from shuffledp.cli import app


@pytest.fixture
def shuffledp(monkeypatch, tmp_path):
    """Runs a command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="session")
def survey():
    return sdp.samples.survey(3000)


@pytest.fixture
def people(tmp_path, survey):
    """people.csv with a category, an integer, a real number and a yes or no."""
    path = tmp_path / "people.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["way", "minutes", "hours", "home"])
        labels = survey.way.domain.labels
        for code, minutes, home in zip(
            survey.way.codes.tolist(), survey.minutes.tolist(), survey.home.tolist(), strict=True
        ):
            writer.writerow([labels[code], minutes, minutes / 60, str(home).lower()])
    return path
