"""What the teachers are to say: dictionary examples and definitions, words, numbers, dialogue.

- Prose comes from WordNet 3.0 (Debian's wordnet-base); templates fill in numbers, names and dates
  that are always spelled out, because the model reads bytes and gets normalised text.
- The sentences that judge the result (``bench/nano_sentences.txt``) are left out by their words.
- Same seed, same list. Source of the mix: letter-to-sound errors on rare words, long sentences and
  single words were what the first corpus lacked.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable
from pathlib import Path

from training.templates import Templates
from training.work import Work, replacing

WORDNET = Path("/usr/share/wordnet")
JUDGED = Path(__file__).parents[1] / "bench" / "nano_sentences.txt"
PLAIN = re.compile(r"[A-Za-z',\-;:?! .]+")
MAX_WORDS = 26
SEED = 11
# Shares of the list by kind.
MIX = {
    "example": 0.20,
    "long": 0.12,
    "definition": 0.16,
    "word": 0.06,
    "words": 0.09,
    "template": 0.25,
    "pair": 0.08,
    "passage": 0.04,
}
MAX_PAIR_CHARS = 130
MAX_PASSAGE_CHARS = 420  # about 28 s
# WordNet's files for animals and plants: Latin names that nobody types.
LATIN_FILES = ("05", "20")


def make_texts(work: Work, num_texts: int, already_spoken: Iterable[str] = ()) -> Path:
    """Write ``texts.jsonl`` (one ``{"text", "kind"}`` per line) unless it exists -> its path."""
    path = work.root / "texts.jsonl"
    if path.exists():
        return path
    excluded = {words_of(text) for text in already_spoken}
    excluded |= {words_of(line) for line in JUDGED.read_text(encoding="utf-8").splitlines()}
    chosen = choose_texts(num_texts, excluded, random.Random(SEED))
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        for text, kind in chosen:
            file.write(json.dumps({"text": text, "kind": kind}, ensure_ascii=False) + "\n")
    return path


def choose_texts(num_texts: int, excluded: set[str], rng: random.Random) -> list[tuple[str, str]]:
    """``num_texts`` texts with their kinds, shuffled, none with the words of ``excluded``."""
    examples, definitions, lemmas = read_wordnet(WORDNET)
    templates = Templates(rng, names=[lemma for lemma in lemmas if lemma[0].isupper()])
    short = [text for text in examples if 3 <= len(text.split()) <= 14]
    long = [text for text in examples if 15 <= len(text.split()) <= MAX_WORDS]
    long += [text for text in definitions if len(text.split()) >= 15]
    for pool in (short, long, definitions, lemmas):
        rng.shuffle(pool)
    pools = {
        "example": iter(short),
        "long": iter(long),
        "definition": iter(definitions),
        "word": map(_sentence, iter(lemmas)),
    }

    def draw(kind: str) -> str | None:
        if kind in pools:
            return next(pools[kind], None)
        if kind == "words":
            return _sentence(", ".join(rng.sample(lemmas, rng.randint(2, 6))))
        if kind == "template":
            return templates.sentence()
        limit = MAX_PAIR_CHARS if kind == "pair" else MAX_PASSAGE_CHARS
        return _join(rng, [short, long, definitions], templates, limit)

    chosen: list[tuple[str, str]] = []
    for kind, share in MIX.items():
        wanted = round(num_texts * share)
        while wanted > 0 and (text := draw(kind)) is not None:
            if words_of(text) not in excluded:
                excluded.add(words_of(text))
                chosen.append((text, kind))
                wanted -= 1
    rng.shuffle(chosen)
    return chosen


def _join(rng: random.Random, pools: list[list[str]], templates: Templates, max_chars: int) -> str:
    """Sentences one after the other, up to ``max_chars`` characters."""
    text = rng.choice(pools[0])
    while True:
        pool = rng.choice([*pools, []])
        following = rng.choice(pool) if pool else templates.sentence()
        if len(text) + 1 + len(following) > max_chars:
            return text
        text += " " + following


def read_wordnet(folder: Path) -> tuple[list[str], list[str], list[str]]:
    """WordNet's data files -> example sentences, definitions as sentences, single words."""
    examples: set[str] = set()
    definitions: set[str] = set()
    lemmas: set[str] = set()
    for path in sorted(folder.glob("data.*")):
        for line in path.read_text(encoding="latin1").splitlines():
            data, _, gloss = line.partition(" | ")
            if not gloss:
                continue
            fields = data.split(" ")
            examples.update(map(_sentence, re.findall(r'"([^"]+)"', gloss)))
            if fields[1] in LATIN_FILES:
                continue
            words = [
                word.split("(")[0].replace("_", " ")
                for word in fields[4 : 4 + 2 * int(fields[3], 16) : 2]
            ]
            lemmas.update(word for word in words if re.fullmatch(r"[A-Za-z]{3,14}", word))
            meaning = re.sub(r"\([^)]*\)", "", gloss.split('"')[0].split(";")[0]).strip()
            if words and 3 <= len(meaning.split()) <= MAX_WORDS - 2:
                definitions.add(_sentence(f"{words[0]}: {meaning}"))
    return (
        sorted(text for text in examples if _is_speakable(text)),
        sorted(text for text in definitions if _is_speakable(text)),
        sorted(lemmas),
    )


def _sentence(text: str) -> str:
    text = " ".join(text.split()).strip(" ;:,")
    if not text:
        return ""
    return text[0].upper() + text[1:] + ("" if text[-1] in ".?!" else ".")


def _is_speakable(text: str) -> bool:
    """Plain letters, a length worth saying, and no abbreviation that ends in an inner period."""
    return bool(PLAIN.fullmatch(text)) and 3 <= len(text.split()) <= MAX_WORDS and ". " not in text


def words_of(text: str) -> str:
    """The words alone, to compare texts: lower case, letters and digits."""
    return " ".join(re.findall(r"[a-z0-9]+", text.lower()))
