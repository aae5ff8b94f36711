"""A grammar's child process without a grammar: what the texts ask for, it does.

It "reads" a text by putting it in capitals. A text may also hang, crash, wait for a file; so may a
start ("slow", "never") and a build (as a plan beside the folder says).
"""

import json
import sys
import time
from pathlib import Path


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)


def build(language: str, folder: Path) -> None:
    # What is to happen stands in a file beside the folder, by language.
    plan = folder.parent / f"{language}.plan"
    for step in plan.read_text().split() if plan.exists() else []:
        if step == "fail":
            (folder / "half.far").write_text("half")
            sys.exit(3)
        if step == "wait":
            wait_for(folder.parent / "go")
        if step == "hang":
            time.sleep(600)
    with (folder.parent / "built.log").open("a") as log:
        log.write(f"{language}\n")
    (folder / f"{language}.far").write_text("whole")


def serve(language: str, folder: Path) -> None:
    with (folder.parent / "started.log").open("a") as log:
        log.write(f"{language}\n")
    if language == "slow":
        wait_for(folder.parent / "go")
    if language == "never":
        time.sleep(600)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        text = json.loads(line)["text"]
        if "HANG" in text:
            time.sleep(600)
        if "CRASH" in text:
            sys.exit(1)
        if "NOISE" in text:
            print("not an answer", flush=True)
        if "FAULT" in text:
            print(json.dumps({"fault": "FstOpError"}), flush=True)
            continue
        if "WAIT" in text:
            wait_for(folder.parent / "go")
        print(json.dumps({"text": text.upper().replace("5", "five")}), flush=True)


if __name__ == "__main__":
    {"build": build, "serve": serve}[sys.argv[1]](sys.argv[2], Path(sys.argv[3]))
