"""``python -m training <stage>``: the way from texts to ``assets/nano``, one stage at a time.

Stages in order: texts, speech, codec, decoder, speaker, encode, pack, lm, emotion, export, report.
Each finds what is done and goes on; stop one with Ctrl-C at any time. ``--smoke`` runs all of them
in seconds on synthetic tones, to show that the recipe is whole.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

# Expert inputs change shape every step; the default cache forgets how to multiply them. oneDNN
# reads this once, when torch is imported.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "20000")

from training.work import DEFAULT_WORK, Work

NANO = Path(__file__).parents[1] / "assets" / "nano"
STAGES = (
    "texts", "speech", "codec", "decoder", "speaker", "import", "encode", "pack", "lm", "evaluate",
    "references", "listen", "emotion", "export", "previews", "report",
)  # fmt: skip


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m training",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("stage", nargs="?", choices=STAGES)
    parser.add_argument("--smoke", action="store_true", help="run every stage in seconds")
    parser.add_argument("--work", type=Path, default=DEFAULT_WORK, help="work folder")
    parser.add_argument("--base", type=Path, default=NANO, help="checkpoint folder to build on")
    parser.add_argument("--from-scratch", action="store_true", help="draw first weights anew")
    parser.add_argument("--name", help="name of this run's state and journal")
    parser.add_argument("--texts", type=int, default=40_000, help="how many texts")
    parser.add_argument("--hours", type=float, default=20.0, help="hours of speech")
    parser.add_argument("--part", default="0/1", help="render part i of n, as i/n")
    parser.add_argument("--minutes", type=float, default=60.0, help="own time of this stage")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--threads", type=int, default=1, help="torch threads on a CPU")
    parser.add_argument("--shards", type=Path, help="folder of shards (default: WORK/shards)")
    parser.add_argument("--shard-names", default="*", help="which shards to learn, as a glob")
    parser.add_argument("--batch-rows", type=int, help="rows per step (3,400 on a CPU)")
    parser.add_argument("--learning-rate", type=float, help="peak of the language model's")
    parser.add_argument("--corpus", type=Path, help="folder of an earlier corpus to import")
    parser.add_argument("--max-mib", type=float, default=24.0, help="size of packed shards")
    parser.add_argument("--to", type=Path, help="where export puts the checkpoint")
    parser.add_argument("--take-lm", type=Path, help="lm state to export")
    parser.add_argument("--take-decoder", type=Path, help="decoder state to export")
    parser.add_argument("--take-speaker", type=Path, help="speaker state to export")
    parser.add_argument("--voices", action="store_true", help="export default voices anew")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Run one stage, or the smoke test -> the exit status."""
    options = arguments(argv)
    import torch

    torch.set_num_threads(options.threads)
    if options.smoke:
        from training.smoke import smoke

        return smoke()
    if options.stage is None:
        arguments(["--help"])
    from training import stages

    getattr(stages, f"run_{options.stage}")(options, Work.at(options.work))
    return 0


if __name__ == "__main__":
    sys.exit(main())
