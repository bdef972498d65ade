"""The package as a whole: what it exports, what it ships, what importing it costs."""

import inspect
import re
import subprocess
import sys
import typing
from importlib.resources import files
from operator import attrgetter

import pytest

import shuffledp as sdp
from repository import ROOT, tracked_files
from shuffledp.core.protocol import HONEST

HEAVY = (
    *("scipy", "matplotlib", "typer", "rich", "pyspark", "duckdb", "pyarrow", "mpmath"),
    *("starlette", "uvicorn", "httpx", "uvloop", "httptools"),
)
FILES = tracked_files()
SITES = {"arxiv.org", "creativecommons.org", "doi.org", "www.apache.org", "www.w3.org"}
SITES |= {"schemas.openxmlformats.org"}
SOURCES = {"analytics.wikimedia.org", "desfontain.es"}
"""The only sites that a file may link to: literature, licences, name spaces of SVG and of spreadsheets; then sources of figures."""
EXAMPLES = {"127.0.0.1", "localhost", "10.0.0.1", "192.0.2.7", "example.org"}
"""Hosts in examples: this machine, a private network, what is set aside for documentation; and whatever ends in .example."""


def test_public_names_are_sorted_and_exist():
    assert sdp.__all__ == sorted(sdp.__all__)
    assert len(set(sdp.__all__)) == len(sdp.__all__)
    for name in sdp.__all__:
        assert hasattr(sdp, name), name


def test_dir_shows_the_public_names_and_nothing_else():
    assert dir(sdp) == sdp.__all__


ROOMS = [name for name in sdp.__all__ if inspect.ismodule(getattr(sdp, name))]
ROOMS += [f"live.{name}" for name in ("pages", "serve", "wire")]


def find_room(name):
    return attrgetter(name)(sdp)


@pytest.mark.parametrize("module", ROOMS)
def test_names_of_public_modules_are_listed_once_and_exist(module):
    names = find_room(module).__all__
    assert len(names) == len(set(names))
    for name in names:
        assert hasattr(find_room(module), name), name


def public_functions():
    places = [sdp, *map(find_room, ROOMS)]
    found = [getattr(place, name) for place in places for name in place.__all__]
    makers = [spec.make for spec in sdp.protocols.PROTOCOLS if spec.make is not None]
    return [*filter(inspect.isfunction, found), *makers]


def test_honest_has_one_default():
    defaults = [inspect.signature(each).parameters.get("honest") for each in public_functions()]
    given = [each.default for each in defaults if each is not None]
    assert len(given) > 20
    # `sdp.ask` tells whether it was given: not every model has honest users
    assert {each for each in given if each is not None} - {inspect.Parameter.empty} == {HONEST}
    assert sdp.Crowd(n=10).honest == HONEST == 0.9


def our_types(hint):
    """The classes of this package in an annotation, however deep."""
    if isinstance(hint, type) and hint.__module__.startswith("shuffledp."):
        yield hint
    for part in typing.get_args(hint):
        yield from our_types(part)


def hints_of(thing):
    try:
        return typing.get_type_hints(thing)
    except NameError:  # a type of pandas or Matplotlib, which may not be installed
        return {}


def returned(function):
    return our_types(hints_of(function).get("return"))


def shown_by(kind):
    """What the public fields, properties and methods of a class are or return."""
    for name, hint in hints_of(kind).items():
        if not name.startswith("_"):
            yield from our_types(hint)
    for name, member in inspect.getmembers(kind):
        function = member.fget if isinstance(member, property) else member
        ours = inspect.isfunction(function) or inspect.ismethod(function)
        if ours and not name.startswith("_"):
            yield from returned(function)


def test_every_type_that_a_public_name_leads_to_is_public():
    """In `sdp` itself or in the `__all__` of one of its rooms."""
    names = [getattr(sdp, name) for name in sdp.__all__]
    rooms = list(map(find_room, ROOMS))
    public = [*names, *(getattr(room, name) for room in rooms for name in room.__all__)]
    waiting = [each for each in public if isinstance(each, type)]
    waiting += [kind for each in public if inspect.isfunction(each) for kind in returned(each)]
    met = set()
    while waiting:
        kind = waiting.pop()
        if kind not in met:
            met.add(kind)
            waiting += shown_by(kind)
    assert len(met) > 40
    assert {f"{kind.__module__}.{kind.__qualname__}" for kind in met if kind not in public} == set()


def test_version_is_stated_once_and_well_formed():
    assert re.fullmatch(r"\d+\.\d+\.\d+", sdp.__version__)
    assert f"## {sdp.__version__}" in (ROOT / "CHANGELOG.md").read_text()
    assert f"version: {sdp.__version__}" in (ROOT / "CITATION.cff").read_text()


def test_types_are_shipped():
    assert files("shuffledp").joinpath("py.typed").is_file()


def test_import_is_light():
    """And what was not imported yet is there as soon as it is named."""
    code = "import sys, shuffledp; print(*{name.partition('.')[0] for name in sys.modules}); "
    code += (
        "shuffledp.engine.watch, shuffledp.live.pages, shuffledp.live.serve, shuffledp.live.wire"
    )
    loaded = set(_python(code).split())
    assert "shuffledp" in loaded
    assert not loaded & set(HEAVY)


def test_import_draws_no_randomness_from_global_generators():
    code = (
        "import random, numpy; before = random.getstate(), numpy.random.get_state()[1].tolist(); "
        "import shuffledp; shuffledp.run(shuffledp.protocols.krr.make_local(k=2, epsilon=1.0), [0, 1]); "
        "print(before == (random.getstate(), numpy.random.get_state()[1].tolist()))"
    )
    assert _python(code).strip() == "True"


def test_no_python_file_is_much_longer_than_700_lines():
    lengths = {path: len(path.read_text().splitlines()) for path in FILES if path.suffix == ".py"}
    assert lengths, "no Python files were found"
    assert {path: lines for path, lines in lengths.items() if lines > 750} == {}


def test_no_file_is_larger_than_a_megabyte():
    assert [path for path in FILES if path.stat().st_size > 1_000_000] == []


def test_links_go_to_known_sites_and_package_indexes_are_not_named():
    option = "index" + "-url"
    for path in FILES:
        text = path.read_text(errors="ignore")
        found = set(re.findall(r"""https?://(?:[^\s/@"'`]*@)?([\w.-]*\w)""", text))
        # A word without a dot, in a test of addresses that are refused, is no site.
        sites = {site for site in found if "." in site and not site.endswith(".example")}
        known = SITES | SOURCES | EXAMPLES
        assert sites <= known, f"{path.relative_to(ROOT)}: {sites - known}"
        assert option not in text, path


def test_constraints_are_plain_pins():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    names = [re.fullmatch(r"([\w.-]+)==[\w.]+", line) for line in lines]
    assert all(names), [line for line, match in zip(lines, names, strict=True) if not match]
    assert len(names) > 10


def _python(code):
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return result.stdout
