"""Every picture of the documentation is drawn by a command, small, and text."""

import shlex

import pytest

import pictures
from repository import ROOT, tracked_files

SUFFIXES = {".svg", ".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf"}
DRAWN = [
    str(path.relative_to(ROOT))
    for path in tracked_files()
    if path.suffix in SUFFIXES and ROOT / "docs" in path.parents
]


def test_every_picture_has_its_command():
    named = [name for files in pictures.COMMANDS.values() for name in files]
    assert sorted([*named, *pictures.BY_HAND]) == sorted(DRAWN)


@pytest.mark.parametrize("name", DRAWN)
def test_pictures_are_text_and_need_nothing_else(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "<svg" in text
    assert "<script" not in text
    assert "<image" not in text


@pytest.mark.parametrize("command", pictures.COMMANDS)
def test_commands_name_files_that_exist(command):
    script = shlex.split(command)[0]
    assert script == "-m" or (ROOT / script).exists()
