"""A package of its own, found through its entry point: in plans, runs, learning, and by its own contract tests."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import shuffledp as sdp
from repository import ROOT
from support import first

SOURCE = ROOT / "tests" / "plugin"
PAGE = (ROOT / "docs/howto/add-a-protocol.md").read_text()


def install(site: Path, source: Path = SOURCE) -> Path:
    """What `pip install` leaves behind: the module, and what its project file says of it."""
    site.mkdir(parents=True, exist_ok=True)
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    for module in source.glob("*.py"):
        shutil.copy(module, site)
    info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return site


def python(site, *arguments, **options):
    path = os.pathsep.join([str(site), str(Path(sdp.__file__).parents[1])])
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        cwd=site,
        check=False,
        **options,
    )


def answer(site, *arguments):
    found = python(site, *arguments)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return install(tmp_path_factory.mktemp("site"))


class TestInstalled:
    def test_it_is_planned_with(self, site):
        words = (
            "plan",
            "histogram",
            "--n",
            "10000",
            "--k",
            "4",
            "--epsilon",
            "1",
            "--delta",
            "1e-6",
        )
        plan = json.loads(answer(site, "-m", "shuffledp", *words, "--json"))
        assert [row["model"] for row in plan["rows"] if row["protocol"] == "shy"] == [
            "shuffle",
            "local",
        ]

    def test_it_runs_on_a_file_by_its_name(self, site, tmp_path):
        people = tmp_path / "people.csv"
        people.write_text("way\n" + "bus\ntrain\nbus\n" * 1000)
        words = ("run", "histogram", people, "--column", "way", "--categories", "bus,train")
        words += ("--epsilon", "3", "--delta", "1e-6", "--protocol", "shy", "--json")
        found = json.loads(answer(site, "-m", "shuffledp", *words))
        assert found["protocol"] == "shy"
        bus, train = (each["value"] for each in found["estimate"])
        assert bus > train

    def test_it_learns_a_distribution_and_is_made_by_name(self, site):
        code = (
            "import shuffledp as sdp\n"
            "common = dict(model='local', epsilon=4.0, protocol='shy', k=2)\n"
            "print(sdp.learn([0, 0, 1] * 2000, **common).distribution.round(1).tolist())\n"
            "print(sdp.make('shy', k=3, epsilon=1.0).name)\n"
            "print(sdp.protocols.list_registered()[-1].title)\n"
        )
        assert answer(site, "-c", code).splitlines() == [
            "[0.7, 0.3]",
            "shy",
            "shy randomized response",
        ]

    def test_nothing_is_looked_up_for_our_own(self, site):
        code = (
            "import sys, shuffledp as sdp; sdp.make('krr', k=3, epsilon=1.0)\n"
            "print('shuffledp_shy' in sys.modules)"
        )
        assert answer(site, "-c", code).strip() == "False"


def contract(site, *options):
    return python(
        site, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *options, "test_shy.py"
    )


class TestContractOfThePackage:
    def test_it_passes(self, site):
        found = contract(site)
        assert found.returncode == 0, found.stdout
        assert " passed" in found.stdout

    @pytest.mark.parametrize(
        ("right", "wrong", "test"),
        first(
            [
                ("{(self.k,): Fraction(1, 4)}", "{(self.k,): Fraction(3, 4)}", "declared_law"),
                ("Fraction(self.share, 1 <<", "Fraction(self.share + 1, 1 <<", "declared_law"),
                ("exp_lower(self.epsilon0) + self.k", "exp_lower(self.epsilon0) + 9", "epsilon0"),
                ("Cost.fixed(bits=self.k.bit_length())", "Cost.fixed(bits=2, messages=0)", "cost"),
                (
                    "oracle=device)",
                    "oracle=Shy(k=k, epsilon0=3.0, word_bits=word_bits))",
                    "unbiased",
                ),
            ],
            2,
        ),
        ids=["law", "share", "ratio", "cost", "bias"],
    )
    def test_a_mutant_does_not(self, tmp_path, right, wrong, test):
        mutant = install(tmp_path / "site")
        module = mutant / "shuffledp_shy.py"
        text = module.read_text()
        assert text.count(right) == 1
        module.write_text(text.replace(right, wrong))
        found = contract(mutant, "-k", test)
        assert found.returncode == 1, found.stdout
        assert "1 failed" in found.stdout


class TestBrokenPackages:
    def refusal(self, site):
        found = python(site, "-c", "import shuffledp as sdp; sdp.protocols.list_registered()")
        assert found.returncode == 1
        return found.stderr.splitlines()[-1]

    def change(self, tmp_path, file, right, wrong):
        site = install(tmp_path / "site")
        (path,) = site.rglob(file)
        text = path.read_text()
        assert right in text
        path.write_text(text.replace(right, wrong))
        return site

    def test_a_name_that_we_have(self, tmp_path):
        site = self.change(tmp_path, "shuffledp_shy.py", 'name="shy"', 'name="krr"')
        (entries,) = site.rglob("entry_points.txt")
        entries.write_text(entries.read_text().replace("shy =", "krr ="))
        assert self.refusal(site) == (
            "shuffledp.core.errors.PluginError: the package shuffledp-shy offers a protocol named "
            "'krr', which shuffledp has already: uninstall one of them"
        )

    def test_two_packages_with_one_name(self, tmp_path):
        site = install(tmp_path / "site")
        other = tmp_path / "other"
        shutil.copytree(SOURCE, other)
        project = other / "pyproject.toml"
        project.write_text(project.read_text().replace("shuffledp-shy", "shuffledp-timid"))
        install(site, other)
        assert "which the package shuffledp-shy has already" in self.refusal(site)

    def test_a_module_that_does_not_load(self, tmp_path):
        site = self.change(tmp_path, "shuffledp_shy.py", "import numpy as np", "import no_such")
        assert self.refusal(site) == (
            "shuffledp.core.errors.PluginError: the package shuffledp-shy offers the protocol 'shy' as "
            "shuffledp_shy:SPEC, which cannot be loaded: ModuleNotFoundError: No module named 'no_such'"
        )

    @pytest.mark.parametrize("target", ["shuffledp_shy:Shy", "shuffledp_shy"])
    def test_something_else_than_a_spec(self, tmp_path, target):
        site = self.change(tmp_path, "entry_points.txt", "shuffledp_shy:SPEC", target)
        assert self.refusal(site).endswith(f"{target}, which is not a Spec of that name")

    def test_another_name_than_the_protocol_has(self, tmp_path):
        site = self.change(tmp_path, "entry_points.txt", "shy =", "bold =")
        assert "offers the protocol 'bold'" in self.refusal(site)


@pytest.mark.parametrize("file", sorted(path.name for path in SOURCE.iterdir() if path.is_file()))
def test_the_page_shows_this_package(file):
    """docs/howto/add-a-protocol.md has every line of these files, in order."""
    blocks = "\n".join(part.partition("\n")[2] for part in PAGE.split("```")[1::2]).splitlines()
    lines = [line for line in (SOURCE / file).read_text().splitlines() if line]
    rest = iter(blocks)
    missing = [line for line in lines if line not in rest]
    assert missing == []
