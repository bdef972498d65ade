"""What the benchmark of commands types is what the pages say, on the files that they show."""

import sys
from pathlib import Path

import pytest

import shuffledp as sdp

ROOT = Path(__file__).parents[2]


@pytest.fixture
def commands(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.delitem(sys.modules, "commands", raising=False)  # tests have one, too
    import commands

    yield commands
    sys.modules.pop("commands", None)


def test_each_page_has_the_survey_that_it_shows(commands, tmp_path):
    for page in commands.list_pages():
        commands.write_surveys(page, tmp_path)
        if page.stem == "surveys":
            break
    survey = sdp.Survey.load(tmp_path / "survey.toml")
    assert [each.name for each in survey.questions] == ["way", "minutes", "home_by_way"]
    people = sdp.samples.survey(1000).write_csv(tmp_path / "people.csv")
    answer = sdp.ask(people, survey, rng=sdp.SeededWords(1))
    assert answer.n == 1000


def test_the_grid_has_every_task_and_size(commands, monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(commands, "time_command", lambda words, _: asked.append(words))
    commands.time_grid(tmp_path)
    assert len({tuple(words) for words in asked}) == 102
