import pytest

from file_support import SUFFIXES, people, write


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """The same people in a file of every format."""
    place = tmp_path_factory.mktemp("people")
    table = people()
    for suffix in SUFFIXES:
        write(table, place / f"people.{suffix}")
    return place
