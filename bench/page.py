"""How long after a press of Speak the page is heard: ``python -m bench.page [--write]``.

From the click's own time stamp to the first frame of the audio thread that is not silence, in
Chromium beside the studio on the same machine; a new text each time, one press after the other.
What the sound device adds is given apart, as the browser tells it. With ``--write`` the result goes
to ``results/`` and a loaded machine is refused.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

import torch
from playwright.sync_api import Page, sync_playwright

from bench.machine import describe, loaded_reason
from bench.screens import CHROMIUM, FLAGS, open_studio, studio
from bench.speed import SENTENCES

RESULTS = Path(__file__).parent / "results"


def heard(page: Page, text: str) -> tuple[float, float]:
    """Press Speak -> ms to the first frame with sound, and ms of the device after it."""
    page.fill("#text textarea", text)
    page.evaluate("studio.player.firstFrame_ms = null")
    page.click("#speak")
    page.wait_for_function("studio.player.firstFrame_ms !== null")
    first_ms, heard_ms = page.evaluate("[studio.player.firstFrame_ms, studio.player.heardAfter_ms]")
    page.wait_for_selector('#status [data-state="done"]')
    page.wait_for_function("!studio.player.state.isPlaying")
    page.wait_for_selector("#speak")
    return first_ms, heard_ms - first_ms


def main() -> int:
    """Measure, print, and perhaps write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--presses", type=int, default=24)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.write and (reason := loaded_reason()):
        print(reason)
        return 1
    machine = describe(torch.device("cpu"))
    with studio() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        page = open_studio(browser.new_page(), address)
        heard(page, "This one only warms up.")
        texts = [SENTENCES[n % len(SENTENCES)] for n in range(options.presses)]
        times = [heard(page, text) for text in texts]
        machine["chromium"] = browser.version
        browser.close()
    first_ms = sorted(first for first, _ in times)
    result = {
        "what": "bench.page: click to the first sounding frame of the audio thread",
        "model": "nano",
        "machine": machine,
        "presses": len(first_ms),
        "median_ms": round(statistics.median(first_ms)),
        "p90_ms": round(first_ms[int(0.9 * (len(first_ms) - 1))]),
        "max_ms": round(first_ms[-1]),
        "device_ms_median": round(statistics.median(device for _, device in times)),
    }
    print(json.dumps(result, indent=1))
    if options.write:
        (RESULTS / "page.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
