"""The lowest versions that pyproject.toml allows, as constraints: `name==version` lines."""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def floors(text: str) -> dict[str, str]:
    """The lowest version of each dependency of the package and of its extras, but for `dev`."""
    project = tomllib.loads(text)["project"]
    extras = project["optional-dependencies"]
    wanted = [
        *project["dependencies"],
        *(each for name in extras if name != "dev" for each in extras[name]),
    ]
    found = {}
    for requirement in wanted:
        if requirement.startswith(f"{project['name']}["):
            continue
        match = re.match(r"([\w.-]+)(?:\[\w+\])?>=([\w.]+)", requirement)
        if match is None:
            raise SystemExit(f"{requirement} states no lowest version")
        found[match[1]] = match[2]
    return found


if __name__ == "__main__":
    for name, version in floors(PROJECT.read_text(encoding="utf-8")).items():
        sys.stdout.write(f"{name}=={version}\n")
