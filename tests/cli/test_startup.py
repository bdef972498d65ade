"""What an ordinary run loads: start-up is most of the time that small inputs take."""

import subprocess
import sys

import pytest

CODE = """
import sys
from shuffledp.cli import app
try:
    app()
except SystemExit as done:
    assert not done.code, done.code
unneeded = {"scipy", "pandas", "pyspark", "matplotlib", "pydantic", "msgspec", "pyarrow.compute"}
unneeded |= {"shuffledp.questions.ratios", "shuffledp.protocols.unary", "shuffledp.accounting.amplify", "shuffledp.show"}
from shuffledp.core.protocol import Look
from shuffledp.protocols import REGISTRY
own = [f"shuffledp.protocols.{name}" for name in REGISTRY]
late = [n for n in own if n in sys.modules and sys.modules[n].SPEC.hints.look is Look.LATE]
print(*unneeded & set(sys.modules), *late[1:])
"""
"""The first late protocol is loaded, for only its SPEC says that it is late; those below it are not."""


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("run", "count", "people.csv", "--column", "home"), "count"),
        (
            ("run", "histogram", "people.csv", "--column", "way", "--categories", "bus,car,walk"),
            "histogram",
        ),
    ],
    ids=["count", "histogram"],
)
def test_an_ordinary_run_loads_what_it_needs(tmp_path, words, name):
    rows = "\n".join(f"{i % 3 == 0:d},{('bus', 'car', 'walk')[i % 3]}" for i in range(1000))
    (tmp_path / "people.csv").write_text(f"home,way\n{rows}\n")
    done = subprocess.run(
        [sys.executable, "-c", CODE, *words, "--epsilon", "1", "--delta", "1e-6"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    *shown, loaded = done.stdout.splitlines()
    assert loaded == ""
    assert any(name in line for line in shown)
