"""The files of the repository, for tests about them."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILT = {".git", ".mutants", ".venv", "site", "demo", "build", "dist", "__pycache__"}


def tracked_files(root: Path = ROOT) -> list[Path]:
    """What version control holds; in a plain copy of the sources, everything that is not built."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0:
        return [root / name for name in listed.stdout.split("\0") if (root / name).is_file()]
    return [
        path for path in root.rglob("*") if path.is_file() and not _is_built(path.relative_to(root))
    ]


def _is_built(path: Path) -> bool:
    return any(part in BUILT or part.endswith((".egg-info", "_cache")) for part in path.parts)


def documents() -> list[Path]:
    """Every page a reader may open: the Markdown files of the root and of docs/."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
