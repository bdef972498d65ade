"""What a type checker tells users: a misspelled name or option is an error, not `Any`."""

import inspect
import subprocess
import sys

import pytest

import shuffledp as sdp
from repository import ROOT

CHECKED = """
import shuffledp as sdp

answer = sdp.ask([True], "count", epsilon=1.0, delta=1e-6)
n: int = answer.n
survey = sdp.Survey.load("survey.toml")
both: sdp.SurveyAnswer = sdp.ask("people.csv", survey, level=0.9)
sdp.ask([True], "count", epsilon=1.0, detla=1e-6)
sdp.ask("people.csv", survey, epsilon=1.0)
sdp.typo
sdp.live.typo
sdp.questions.typo
sdp.protocols.typo
sdp.mechanisms.typo
"""


def test_misspelled_names_and_options_are_errors(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(CHECKED)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(path)]
    cache = ["--cache-dir", str(ROOT / ".mypy_cache")]
    done = subprocess.run([*command, *cache], cwd=ROOT, capture_output=True, text=True, check=False)
    said = [line for line in done.stdout.splitlines() if ": error:" in line]
    lines = {int(line.split(":")[1]) for line in said}
    first = CHECKED.splitlines().index('sdp.ask([True], "count", epsilon=1.0, detla=1e-6)') + 1
    assert lines == set(range(first, first + 7)), done.stdout


def test_ask_has_a_parameter_for_each_option_of_each_task():
    parameters = inspect.signature(sdp.ask).parameters
    assert not any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    planned = [task for task in sdp.tasks.TASKS.values() if task.elsewhere is None]
    assert len(planned) >= 10
    missing = {option.name for task in planned for option in task.options} - parameters.keys()
    assert missing == set()


def test_every_parameter_of_ask_is_documented():
    words = set(sdp.ask.__doc__.replace(":", " ").replace(",", " ").split())
    assert inspect.signature(sdp.ask).parameters.keys() <= words


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="typo"):
        _ = sdp.typo
