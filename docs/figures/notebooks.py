"""Notebooks as pages: each is run when the site is built, and shown with what its cells show.

A hook of MkDocs, and what the tests of the notebooks run them with.
"""

import ast
import contextlib
import html
import io
import json
import re
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["execute", "read_cells", "render"]

_NOTE = "*This notebook was run when this page was built. Its noise is drawn anew each time. The file: `docs/{}`.*"


def read_cells(path: Path) -> list[tuple[str, str]]:
    """Return the kind and the text of each cell."""
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [(cell["cell_type"], "".join(cell["source"])) for cell in found]


def execute(source: str, namespace: dict[str, Any]) -> str | None:
    """Run a cell as a notebook does: the value of a last expression is shown.

    >>> execute("x = 1\\nx + 1", {})
    '2'
    """
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), namespace)  # noqa: S102
    if not isinstance(last, ast.Expr):
        return None
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)  # noqa: S307
    if value is None:
        return None
    show = getattr(value, "_repr_html_", None)
    return repr(value) if show is None else str(show())


def render(path: Path, name: str) -> tuple[str, list[str]]:
    """Return the notebook as Markdown, and what its cells show, as HTML: the place of the i-th is `<div id="shown-i">`."""
    written, shown = [], []
    module = ModuleType("notebook")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for kind, source in read_cells(path):
            if kind == "markdown":
                written.append(source)
                if len(written) == 1:
                    written.append(_NOTE.format(name))
                continue
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                value = execute(source, module.__dict__)
            written += [f"```python\n{source}\n```", f'<div id="shown-{len(shown)}"></div>']
            drawn = value or ""
            if value and not value.lstrip().startswith("<"):
                drawn = f"<pre>{html.escape(value)}</pre>"
            said = html.escape(printed.getvalue())
            shown.append((f"<pre>{said}</pre>" if said else "") + drawn)
    return "\n\n".join(written) + "\n", shown


_shown: dict[str, list[str]] = {}


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Turn each notebook into a page."""
    from mkdocs.structure.files import File

    class Notebook(File):
        """A notebook is a page."""

        def is_documentation_page(self) -> bool:
            return True

    root = Path(config["docs_dir"])
    for each in list(files):
        if each.src_uri.endswith(".ipynb"):
            written, _shown[each.src_uri] = render(root / each.src_uri, each.src_uri)
            files.remove(each)
            files.append(Notebook.generated(config, each.src_uri, content=written))
    return files


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """Put what the cells show into their places."""
    shown = _shown.get(page.file.src_uri)
    if shown is None:
        return content
    return re.sub(
        r'<div id="shown-(\d+)"></div>',
        lambda found: (
            f'<div class="shown">{shown[int(found[1])]}</div>' if shown[int(found[1])] else ""
        ),
        content,
    )
