"""What the public pages of ZONOS3-Mini leave open, and so why the release itself cannot be opened.

Source: spec/zonos3.md section 3, whose order and numbers these are.
"""

from __future__ import annotations

MISSING_FACTS: tuple[str, ...] = (
    "the keys of params.json and the tensors' names and shapes",
    "the delta rule's heads, widths, decay and gate",
    "the latent experts' widths, activation and weights",
    "the attention residuals' queries and norms",
    "the attention layers' positions, temperature and gate",
    "the order and filling of the prompt's rows and the end rule",
    "the tokenizer file and its special ids",
    "the codec's quantizers, encoder, FFT sizes and windows",
    "the edges of the controls and the speaker encoder's input",
    "the defaults of sampling and guidance",
    "the format of its GGUF and voice files",
    "how emotion, age and accent are steered",
)


def missing_facts() -> str:
    """All of them as one numbered list inside a sentence."""
    return "; ".join(f"({number}) {fact}" for number, fact in enumerate(MISSING_FACTS, 1))
