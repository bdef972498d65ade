"""`shuffledp doctor` says what works, and never fails with a traceback."""

import json
import os
import sys

import pytest

import shuffledp as sdp


def findings(result):
    return {each["name"]: each for each in json.loads(result.stdout)["findings"]}


def test_a_healthy_machine(shuffledp):
    result = shuffledp("doctor", "--json")
    assert result.exit_code == 0, result.output
    found = findings(result)
    assert json.loads(result.stdout)["well"] is True
    for name in ("Python", "numpy", "entropy", "AES-256-CTR", "a first answer", "extra data"):
        assert found[name]["works"], found[name]
    assert sdp.__version__ in found["shuffledp"]["found"]
    assert "GB of words a second" in found["AES-256-CTR"]["found"]
    assert {"Java", "browser", "node", "extra spark", "extra serve", "extra plot"} <= found.keys()


def test_what_is_missing_comes_with_advice(shuffledp, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("HOME", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    result = shuffledp("doctor")
    assert result.exit_code == 0, "an extra is not needed"
    assert "install the extra shuffledp[data]" in " ".join(result.stdout.split())
    assert "duckdb is not installed" in result.stdout
    found = findings(shuffledp("doctor", "--json"))
    assert not any(found[name]["works"] for name in ("extra data", "Java", "browser", "node"))


def test_quietly_it_lists_only_what_does_not_work(shuffledp, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    lines = shuffledp("doctor", "--quiet").stdout.splitlines()
    assert any("extra data" in line for line in lines)
    assert not any(line.startswith("ok") for line in lines)


@pytest.mark.parametrize("error", [OSError("no entropy"), ValueError(), RuntimeError("a\nb")])
def test_a_broken_machine_is_a_finding(shuffledp, monkeypatch, error):
    def fail(_):
        raise error

    monkeypatch.setattr(os, "urandom", fail)
    result = shuffledp("doctor")
    assert result.exit_code == 1
    assert "BROKEN entropy" in result.stdout
    assert "Traceback" not in result.output


def test_equal_bytes_are_no_entropy(shuffledp, monkeypatch):
    monkeypatch.setattr(os, "urandom", bytes)
    result = shuffledp("doctor", "--json")
    assert result.exit_code == 1
    assert not findings(result)["entropy"]["works"]


@pytest.mark.parametrize(
    ("line", "works"), [('openjdk version "17.0.2"', True), ('java version "1.8.0_302"', False)]
)
def test_an_old_java_is_too_old(shuffledp, monkeypatch, tmp_path, line, works):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{line}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert findings(shuffledp("doctor", "--json"))["Java"]["works"] is works
