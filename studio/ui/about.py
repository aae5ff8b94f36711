"""The words of the About tab: what the studio cannot do, and what it asks of people."""

from __future__ import annotations

from studio.settings import Settings

LIMITS = "Limits"
RESPONSIBLE = "Responsible use"
RESPONSIBLE_USE = (
    "Clone a voice only with the consent of whoever it belongs to. To store one you state that you"
    " have it; the statement is kept with the voice and goes with it.",
    "Do not deceive anybody about who is speaking: no fraud, no false evidence, no calls in another"
    " person's name.",
    "What is made here is marked: an inaudible watermark in the sound and words in the file say"
    " that a machine spoke. The tab Check looks for both. Keep the marks, and say it yourself where"
    " people would want to know.",
    "A watermark can be damaged by heavy editing: that none is found proves nothing.",
    "Your voices and takes are seen by you alone. Delete removes them from the disk, and with a"
    " voice all that was stored of it.",
    "Nothing you type or record leaves the machine that runs this studio.",
)


def limits(settings: Settings, model: str, num_slots: int) -> tuple[str, ...]:
    """What the studio cannot do, or not more of."""
    return (
        f"A text may have {settings.max_input_chars:,} characters. A long one is spoken in parts"
        " that carry the voice on; parts that went wrong are noticed and made again.",
        f"{num_slots} speak at once and up to {settings.max_waiting} wait; the status line tells"
        " your place.",
        "Of a recording the first 30 seconds are used. It needs one second of speech at least, and"
        " may have 20 MB.",
        f"The open model is {model}. The small model that comes with the studio speaks English, and"
        " sounds like a small model.",
        "Numbers, dates and signs are read in the language you choose. Mixed languages in one"
        " sentence, rare names and formulas can still go wrong: see “As it is spoken”, and teach"
        " words under Pronunciations.",
        "The same seed and settings give the same sound on the same machine and version.",
    )
