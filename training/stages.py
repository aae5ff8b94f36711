"""One function per stage: the command line's options as calls of the recipe's modules."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import torch

from training.work import Work


def run_texts(options: Namespace, work: Work) -> None:
    """Choose what is to be said, other than what imported shards say already."""
    from training.shards import read_shards
    from training.texts import make_texts

    spoken = (utterance.text for utterance in read_shards(work.folder("shards").glob("*.npz")))
    make_texts(work, options.texts, spoken)


def run_speech(options: Namespace, work: Work) -> None:
    """Render texts with the teachers."""
    from training.speech import make_speech

    part, num_parts = map(int, options.part.split("/"))
    make_speech(work, options.hours, part, num_parts)


def run_codec(options: Namespace, work: Work) -> None:
    """Fit a new quantizer to the speech; language model and decoder must be trained anew then."""
    from training.codec import fit_codec

    fit_codec(work, options.base, options.hours)


def run_decoder(options: Namespace, work: Work) -> None:
    """Train the codec's decoder."""
    from training.decoder import train_decoder

    train_decoder(
        work,
        options.base,
        options.minutes,
        from_weights=not options.from_scratch,
        hours=options.hours,
        name=options.name or "decoder",
    )


def run_speaker(options: Namespace, work: Work) -> None:
    """Train the speaker encoder, or make the existing one robust to rooms and microphones."""
    from training.speaker import train_speaker

    train_speaker(
        work,
        options.base,
        options.minutes,
        options.hours,
        options.name or "speaker",
        options.from_scratch,
    )


def run_import(options: Namespace, work: Work) -> None:
    """Turn an earlier corpus into shards."""
    from training.encode import import_corpus

    import_corpus(work, options.corpus)


def run_encode(options: Namespace, work: Work) -> None:
    """Turn speech into shards."""
    from training.encode import encode_speech

    encode_speech(work, options.base, options.base)


def run_pack(options: Namespace, work: Work) -> None:
    """Draw utterances into shards of a given size in all, to carry to another machine."""
    from training.pack import pack

    pack(_shards(options, work), work.folder("packed"), options.max_mib)


def run_lm(options: Namespace, work: Work) -> None:
    """Train the language model."""
    from training.lm import FROM_SCRATCH, FROM_WEIGHTS, Recipe, train

    settings = dict(FROM_SCRATCH if options.from_scratch else FROM_WEIGHTS)
    if options.learning_rate is not None:
        settings["learning_rate"] = options.learning_rate
    rows = options.batch_rows or (3400 if options.device == "cpu" else 65_536)
    recipe = Recipe(minutes=options.minutes, batch_rows=rows, **settings)
    train(
        work,
        recipe,
        start=None if options.from_scratch else options.base,
        params=options.base,
        shards=_shards(options, work),
        device=torch.device(options.device),
        name=options.name or "lm",
    )


def run_evaluate(options: Namespace, work: Work) -> None:
    """Held-out and training cross entropies of a state (``--take-lm``) or of ``--base``."""
    from training.evaluate import evaluate

    evaluate(work, options.base, options.take_lm, _shards(options, work))


def run_references(options: Namespace, work: Work) -> None:
    """Render the unseen voices that judge cloning."""
    from training.references import make_references

    make_references(work, options.to or work.folder("references"))


def run_listen(options: Namespace, work: Work) -> None:
    """Tell how well a decoder keeps the pitch of true codes."""
    from training.listen import listen

    listen(work, options.base, options.take_decoder)


def run_emotion(options: Namespace, work: Work) -> None:
    """Measure the direction of arousal in the speaker embeddings."""
    from training.emotion import make_directions

    make_directions(_shards(options, work), options.to or work.folder("emotion"))


def run_export(options: Namespace, work: Work) -> None:
    """Write a checkpoint folder that the engine opens."""
    from training.export import export

    export(
        options.base,
        options.to or work.folder("export"),
        lm=options.take_lm,
        decoder=options.take_decoder,
        speaker=options.take_speaker,
        shards=_shards(options, work) if options.voices else [],
    )


def run_previews(options: Namespace, work: Work) -> None:
    """Let every voice of ``--base`` speak one sentence into ``--to``."""
    from training.export import write_previews

    write_previews(options.base, options.to or work.folder("previews"))


def run_report(options: Namespace, work: Work) -> None:
    """Plot the journals."""
    from training.report import write_curves

    write_curves(work, options.to or work.folder("report"))


def _shards(options: Namespace, work: Work) -> list[Path]:
    folder = options.shards or work.folder("shards")
    held = set(folder.glob("heldout*.npz"))
    return sorted(held | set(folder.glob(f"{options.shard_names}.npz")))
