"""The built site as its readers get it: no broken link, pages and a search index of a size for phones, dark pictures.

Runs in every build, and ends it with the list of what is wrong.
"""

import html
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

LARGEST_PAGE, LARGEST_INDEX = 1_200_000, 1_000_000
_LINK = re.compile(r'<(\w+)[^>]*?\s(href|src)="([^"]*)"')
_NAMED = re.compile(r'\s(?:id|name)="([^"]*)"')
_LOADED = {"img", "link", "script", "source", "iframe", "use"}
_DARK = re.compile(r"\s*@media ?\(prefers-color-scheme: ?dark\) ?\{(?:[^{}]*\{[^{}]*\})*\s*\}")
_CODE = re.compile(r"<pre>.*?</pre>", re.DOTALL)
_LISTING = re.compile(r"<pre>(?:(?!</pre>).){600,}?</pre>", re.DOTALL)  # nobody searches long ones
_FIRST = 100  # characters


def on_post_build(config: Mapping[str, Any], **_: Any) -> None:
    """Look at what was built."""
    site = Path(config["site_dir"])
    for picture in site.rglob("*.svg"):
        text = picture.read_text(encoding="utf-8")
        picture.write_text(_DARK.sub("", text), encoding="utf-8")  # style/extra.css darkens them
    index = site / "search" / "search_index.json"
    index.write_text(shorten_index(index.read_text(encoding="utf-8")), encoding="utf-8")
    wrong = [*find_broken_links(site), *find_large_files(site)]
    if wrong:
        raise ValueError("the site is not right:\n" + "\n".join(wrong))


def on_page_content(content: str, **_: Any) -> str:
    """Say below a picture what it shows, and let it be opened: on a phone its letters are small.

    >>> on_page_content('<p><img alt="Less noise" src="a.svg" /></p>')
    '<figure><a href="a.svg"><img alt="Less noise" src="a.svg" /></a><figcaption>Less noise</figcaption></figure>'
    """
    return re.sub(
        r'<p>(<img alt="([^"]+)" src="([^"]+\.svg)" ?/?>)</p>',
        r'<figure><a href="\3">\1</a><figcaption>\2</figcaption></figure>',
        content,
    )


def shorten_index(text: str) -> str:
    """What can be searched: the whole text of pages; of the reference, modules, classes and functions by first words.

    >>> run = {"location": "a.html#shuffledp.run", "title": "run", "text": "<pre><code>run()</code></pre> <p>Run.</p>"}
    >>> member = {"location": "a.html#shuffledp.Law.delta", "title": "delta", "text": ""}
    >>> [each["text"] for each in json.loads(shorten_index(json.dumps({"docs": [run, member]})))["docs"]]
    ['Run.']
    """
    index, kept = json.loads(text), []
    for entry in index["docs"]:
        _, mark, name = entry["location"].partition("#shuffledp.")
        if mark and re.search(r"\b_?[A-Z]\w*\.", name):
            continue
        if mark:
            first = _CODE.sub("", entry["text"]).partition("</p>")[0]
            entry["text"] = re.sub(r"<[^>]+>", "", first).strip()[:_FIRST]
        entry["text"] = _LISTING.sub("", entry["text"])
        kept.append(entry)
    return json.dumps({**index, "docs": kept}, ensure_ascii=False, separators=(",", ":"))


def find_broken_links(site: Path) -> Iterator[str]:
    """Every link to a page or a place of one that is not there, and whatever is loaded from other hosts."""
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(site.rglob("*.html"))}
    named = {
        path: {html.unescape(name) for name in _NAMED.findall(text)} for path, text in pages.items()
    }
    for path, text in pages.items():
        where = path.relative_to(site)
        for tag, _, written in _LINK.findall(text):
            link = urlsplit(html.unescape(written))
            if link.scheme or link.netloc:
                if tag in _LOADED and link.scheme != "data":
                    yield f"{where}: {tag} loads {written}"
                continue
            if where.name == "404.html":  # is shown at any address: its links begin at the root
                continue
            target = (path.parent / unquote(link.path)).resolve() if link.path else path
            target = target / "index.html" if target.is_dir() else target
            place = unquote(link.fragment)
            if not target.exists():
                yield f"{where}: {written} is not there"
            elif place and target in named and place not in named[target] and tag == "a":
                yield f"{where}: {written} names no place of the page"


def find_large_files(site: Path) -> Iterator[str]:
    """Pages and a search index that a phone would wait for."""
    for path, most in [
        *((page, LARGEST_PAGE) for page in sorted(site.rglob("*.html"))),
        (site / "search" / "search_index.json", LARGEST_INDEX),
    ]:
        size = path.stat().st_size
        if size > most:
            yield f"{path.relative_to(site)}: {size:,} bytes, more than {most:,}"
