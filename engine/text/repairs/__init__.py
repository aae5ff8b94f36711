"""Known wrong readings of the grammars, set right by what is written before and undone after."""

from engine.text.repairs import east_asian, english, german, romance


def before(text: str, grammar: str) -> str:
    """``text`` as ``grammar`` has to see it, so that what it says is right."""
    if grammar in ("zh", "ja", "ko"):
        return east_asian.before(text, grammar)
    if grammar in ("fr", "it", "pt", "es"):
        return romance.before(text, grammar)
    return (english if grammar == "en" else german).before(text)


def after(text: str, grammar: str) -> str:
    """The reading of ``grammar`` without what ``before`` needed for it."""
    if grammar in ("zh", "ja", "ko"):
        return east_asian.after(text)
    return romance.after(text, grammar) if grammar in ("fr", "it", "pt", "es") else text
