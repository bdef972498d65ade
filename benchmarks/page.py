"""The participation page in a browser whose processor is slowed down four times.

    python benchmarks/page.py

Needs Debian's chromium and `pip install playwright`. Prints bytes on the wire, the time until the form can be used
after a cold start, as the page itself sees it and as the processor works for it, and the time that one report takes
(randomize, encrypt twice, keep durably). On a busy machine the processor's time is the one to look at.
"""

import re
import signal
import subprocess
import sys
from gzip import compress

import typer
from playwright.sync_api import sync_playwright

from shuffledp.live import pages

SLOWER = 4
ROUNDS = 5
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]

REPORT = """async (link) => {
  const { Device, MemoryOutbox } = await import("/device/index.js");
  const device = new Device(new MemoryOutbox());
  const collection = await device.open(link);
  const answers = Object.fromEntries(collection.questions.map((each) => [each.name, each.labels[0]]));
  const began = performance.now();
  await device.answer(collection, answers);
  return (performance.now() - began) / collection.slots;
}"""


def main() -> None:
    used = [name for name in pages.list_assets() if "operator" not in name and "result" not in name]
    page = pages.find_asset("/assets/answer.html").content.decode()
    first = [*re.findall(r'(?:href|src)="(/[^"]+)"', page), "/assets/answer.html"]
    for what, names in (("with everything", used), ("before a survey is known", first)):
        packed = sum(len(compress(pages.find_asset(name).content, 9)) for name in names)
        typer.echo(f"page {what}, compressed: {packed / 1000:.1f} kB in {len(names)} files")
    command = [sys.executable, "-u", "-m", "shuffledp", "serve", "--workers", "1"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
    try:
        printed = ""
        while "End with" not in printed:
            printed += server.stdout.readline()
        page = re.search(r"Answer it:\s+(\S+)", printed)[1]
        measure(page, page.replace("/c/", "/collections/"))
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


SEEN = """new MutationObserver((_, watch) => {
  if (document.querySelector("form button[type=submit]")) { window.usable = performance.now(); watch.disconnect(); }
}).observe(document, { childList: true, subtree: true })"""
"""When the form is there, noted in the page."""


def measure(url: str, link: str) -> None:
    usable, worked, report = [], [], []
    with sync_playwright() as driver:
        for _ in range(ROUNDS):
            browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
            page = browser.new_page()
            slow = page.context.new_cdp_session(page)
            slow.send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
            slow.send("Performance.enable", {"timeDomain": "threadTicks"})
            page.add_init_script(SEEN)
            page.goto(url)
            page.wait_for_selector("form button[type=submit]")
            usable.append(page.evaluate("window.usable"))
            known = {
                each["name"]: each["value"]
                for each in slow.send("Performance.getMetrics")["metrics"]
            }
            worked.append(1000 * known["TaskDuration"])
            report.append(page.evaluate(REPORT, link))
            browser.close()
    typer.echo(
        f"usable after a cold start, {SLOWER}x slower: {min(usable):.0f} to {max(usable):.0f} ms"
    )
    typer.echo(
        f"of which the processor worked, slowed down: {min(worked):.0f} to {max(worked):.0f} ms"
    )
    typer.echo(f"one report, per slot, {SLOWER}x slower: {min(report):.0f} to {max(report):.0f} ms")


if __name__ == "__main__":
    main()
