"""Outputs get to their places all together or not at all, and two runs never write one file."""

import os

import pytest

import shuffledp as sdp
from shuffledp.engine import output, stage
from shuffledp.engine.people import People


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("links", [True, False])
def test_outputs_get_to_their_places_and_nothing_is_left(tmp_path, monkeypatch, force, links):
    one, two = tmp_path / "a.json", tmp_path / "b.json"
    if force:
        one.write_text("old")
    if not links:

        def refuse(*_, **__):
            raise OSError(1, "no links here")

        monkeypatch.setattr(output.os, "link", refuse)
    with stage([one, two], force=force) as outputs:
        assert outputs[one].parent != tmp_path
        outputs.write(one, lambda place: place.write_text("new"))
        outputs.write(two, lambda place: place.write_text("other"))
        outputs.write(None, lambda _: pytest.fail("nobody wants it"))
        extra = outputs[two].with_name("c.json")
        extra.write_text("more")
        outputs.add(tmp_path / "c.json", extra)
        assert one.exists() == force
        outputs.publish()
    assert [path.read_text() for path in (one, two, tmp_path / "c.json")] == [
        "new",
        "other",
        "more",
    ]
    assert names(tmp_path) == ["a.json", "b.json", "c.json"]


@pytest.mark.parametrize("links", [True, False])
def test_if_one_cannot_be_moved_the_others_go_back(tmp_path, monkeypatch, links):
    one, two, three = (tmp_path / name for name in ("a", "b", "c"))
    one.write_text("old")
    if not links:

        def refuse(*_, **__):
            raise OSError(1, "no links here")

        monkeypatch.setattr(output.os, "link", refuse)
    with stage([one, two, three], force=True) as outputs:
        for target in (one, two):
            outputs.write(target, lambda place: place.write_text("new"))
        with pytest.raises(FileNotFoundError):  # the third was never written
            outputs.publish()
        assert one.read_text() == "old"
        assert not two.exists()
    assert names(tmp_path) == ["a"]


def test_what_somebody_wrote_meanwhile_is_not_overwritten(tmp_path):
    one, two = tmp_path / "a", tmp_path / "b"
    with stage([one, two]) as outputs:
        for target in (one, two):
            outputs.write(target, lambda place: place.write_text("ours"))
        two.write_text("theirs")
        with pytest.raises(
            sdp.DataError, match="b already exists: somebody wrote it in the meantime"
        ):
            outputs.publish()
    assert names(tmp_path) == ["b"]
    assert two.read_text() == "theirs"
    with pytest.raises(sdp.DataError, match="choose another name"), stage([two]):
        pytest.fail("it is there")
    with pytest.raises(sdp.DataError, match=r"cannot be written: No such file"), stage([tmp_path / "x" / "y"]):  # fmt: skip
        pytest.fail("there is no folder")
    with stage([one]) as outputs, pytest.raises(sdp.DataError, match="a cannot be written: full"):
        outputs.write(one, lambda _: (_ for _ in ()).throw(OSError(28, "full")))


def test_one_file_is_written_by_one_run(tmp_path, monkeypatch):
    target = tmp_path / "a"
    with stage([target]):
        with (
            pytest.raises(sdp.DataError, match="a is being written by another run"),
            stage([target]),
        ):
            pytest.fail("two runs write it")
        assert (tmp_path / ".a.lock").stat().st_mode & 0o777 == 0o600
    assert names(tmp_path) == []
    file = os.open(tmp_path / "x", os.O_CREAT | os.O_RDWR)

    def away(*_):
        raise OSError(95, "no locks here")

    assert output._lock(tmp_path / "x", file, away, 0)  # a network file system without locks
    assert output._lock(tmp_path / "x", file, lambda *_: None, 0)
    (tmp_path / "x").unlink()
    assert not output._lock(tmp_path / "x", file, lambda *_: None, 0)  # its name is gone
    (tmp_path / "x").touch()
    assert not output._lock(tmp_path / "x", file, lambda *_: None, 0)  # or another file's
    os.close(file)


@pytest.mark.parametrize(
    ("person", "given", "said"),
    [
        ((), {}, "must name a column"),
        (("a", ""), {}, "must name a column"),
        (("a", "a"), {}, "person='a,a' names a column twice"),
        ("a", {"of": "rows"}, "of='rows' needs max_rows"),
        ("a", {"of": "rows", "max_rows": 2, "reduce": "sum"}, "reduce is for answers about people"),
        ("a", {"max_rows": 2}, "max_rows is for answers about rows"),
        ("a", {"of": "rows", "max_rows": 0}, "max_rows=0 must be >= 1"),
        ("a", {"of": "rows", "max_rows": 2, "max_categories": 2}, "max_categories already decides"),
        ("a", {"reduce": "sum", "max_categories": 2}, "max_categories already decides"),
        ("a", {"max_categories": 0}, "max_categories=0 must be >= 1"),
        ("a", {"reduce": "last"}, "must be clear: first and last need another column"),
        (People.read("a"), {"reduce": "sum"}, "reduce is already part of person"),
        (None, {"of": "rows"}, "of needs person"),
        (None, {"max_categories": 3}, "max_categories needs person"),
    ],
)
def test_what_is_said_about_people_must_go_together(person, given, said):
    with pytest.raises(sdp.ShuffledpError, match=said):
        People.read(person, **given)


def test_people_that_were_read_are_taken_as_they_are():
    people = People.read("a", of="rows", max_rows=3)
    assert People.read(people) is people
    assert (people.person, people.max_rows, people.max_categories) == (("a",), 3, None)
