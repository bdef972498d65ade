"""What the pages of a survey look like, as drawings: `python docs/figures/screens.py`.

Runs `shuffledp serve`, answers and closes its demonstration, opens the pages in Chromium and keeps what is seen as SVG:
the elements of the page with their styles, no pixels. Each page is taken in light and in dark. Needs Chromium and
Playwright.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import shuffledp as sdp

IMAGES = Path(__file__).resolve().parent.parent / "img" / "screens"
SIZES = {"answer": (390, 1060), "desk": (1060, 760), "results": (760, 780)}
_PEOPLE = {"way": (520, 410, 260, 180, 130), "home": (900, 600)}

_TAKE = r"""([width, height]) => {
  const keep = (rules) => [...rules].map((rule) => {
    if (rule.type !== CSSRule.MEDIA_RULE) return rule.cssText;
    return matchMedia(rule.conditionText).matches ? keep(rule.cssRules) : "";
  }).join("\n");
  const css = [...document.styleSheets].map((sheet) => keep(sheet.cssRules)).join("\n").replaceAll(":root", "html");
  for (const each of document.querySelectorAll("input, textarea, option")) {
    if (each.type === "radio" || each.type === "checkbox") each.toggleAttribute("checked", each.checked);
    else if (each.tagName === "OPTION") each.toggleAttribute("selected", each.selected);
    else if (each.tagName === "TEXTAREA") each.textContent = each.value;
    else each.setAttribute("value", each.value);
  }
  for (const each of document.querySelectorAll("script, noscript, input[readonly]")) each.remove();
  for (const each of [...document.body.querySelectorAll("*")].reverse()) {
    if (each.closest("svg, select")) continue;
    if (each.getBoundingClientRect().top + scrollY > height || !each.checkVisibility()) each.remove();
  }
  const body = new XMLSerializer().serializeToString(document.body).replaceAll(/ (href|title)="[^"]*"/g, "");
  const scheme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}">
<foreignObject width="100%" height="100%"><html xmlns="http://www.w3.org/1999/xhtml" lang="en">
<style>${css.replaceAll("&", "&amp;").replaceAll("<", "&lt;")}
html { display: block; height: ${height}px; overflow: hidden; color-scheme: ${scheme}; }</style>
${body}</html></foreignObject></svg>
`;
}"""


@contextmanager
def serve_demonstration() -> Iterator[dict[str, str]]:
    """Yield the addresses that `shuffledp serve` prints; no survey of this machine is touched."""
    with tempfile.TemporaryDirectory() as data:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "shuffledp", "serve", "--workers", "1"],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "XDG_DATA_HOME": data},
        )
        assert process.stdout is not None
        printed = ""
        while "End with" not in printed:
            printed += process.stdout.readline()
        names = {"answer": "Answer it", "results": "See results", "desk": "Your desk"}
        found = {}
        for key, name in names.items():
            place = re.search(rf"{name}:\s+(\S+)", printed)
            assert place is not None, printed
            found[key] = place[1]
        folder = re.search(r"collection close (\S+)", printed)
        assert folder is not None, printed
        yield {**found, "folder": folder[1]}
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def answer_and_close(found: dict[str, str]) -> None:
    """Send the answers of made-up people, and publish the result."""
    link = found["answer"].replace("/c/", "/collections/")
    document, identity = sdp.live.serve.fetch_document(link)
    collection = sdp.live.wire.Collection.read(document, identity)
    codes = {name: np.repeat(range(len(sizes)), sizes) for name, sizes in _PEOPLE.items()}
    sdp.live.serve.send_people(collection, 0, codes, workers=1)
    words = [sys.executable, "-m", "shuffledp", "collection", "close", found["folder"]]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)  # noqa: S603


def take(browser: Any, found: dict[str, str], which: str) -> None:
    """Keep one page, light and dark."""
    width, height = SIZES[which]
    for scheme in ("light", "dark"):
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme
        )
        page = context.new_page()
        page.goto(found[which])
        if which == "answer":
            page.check("input[value=bicycle]")
        else:
            page.wait_for_selector("#preview svg" if which == "desk" else "section.question svg")
        drawn = page.evaluate(_TAKE, [width, height])
        named = re.sub(r"/tmp/[^<]*/surveys", "~/.local/share/shuffledp/surveys", drawn)  # noqa: S108
        assert not re.search(r"/tmp/|127\.0\.0\.1", named), "of one run alone"  # noqa: S108
        (IMAGES / f"{which}-{scheme}.svg").write_text(named, encoding="utf-8")
        context.close()


def main() -> None:
    from playwright.sync_api import sync_playwright

    IMAGES.mkdir(exist_ok=True)
    with serve_demonstration() as found, sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        take(browser, found, "answer")
        take(browser, found, "desk")
        answer_and_close(found)
        take(browser, found, "results")
        browser.close()


if __name__ == "__main__":
    main()
