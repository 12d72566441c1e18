"""Parts of a sentence in a terminal: tones in the palette's colours, numbers, bars and sparklines."""

from __future__ import annotations

import math

from rich.text import Text

from attnlab.config.visible_text import visible
from attnlab.documents import nodes as n
from attnlab.documents.nodes import SIGNS, Inline, Number, Tone, muted, parts_of
from attnlab.documents.numbers import beside, short, value_text
from attnlab.documents.palette import COLOURS, JUDGEMENT, SURFACES, on_any_ground, shade_on

MUTED, LINK, BAR_COLOUR = map(on_any_ground, (SURFACES["muted"], SURFACES["link"], JUDGEMENT["bar"]))
STYLES = {
    Tone.STRONG: "bold",
    Tone.ITALIC: "italic",
    Tone.MUTED: MUTED,
    Tone.NAME: LINK,
    Tone.CHOSEN: f"bold {LINK}",
    Tone.GOOD: on_any_ground(JUDGEMENT["good"]),
    Tone.WARNING: on_any_ground(JUDGEMENT["caution"]),
    Tone.WRONG: f"bold {on_any_ground(JUDGEMENT['wrong'])}",
    Tone.STRUCK: f"strike {MUTED}",
}
VERDICTS = {"better": STYLES[Tone.GOOD], "worse": on_any_ground(JUDGEMENT["bad"])}
VERDICTS |= dict.fromkeys(("invalid", "failed"), STYLES[Tone.WRONG])
LABELS = tuple(map(on_any_ground, COLOURS))
TOKENS = tuple(f"{SURFACES['ink'][0]} on {shade_on(share, dark=False)}" for share in (0.14, 0.32))
SPECIAL = f"bold {LABELS[3]}"
STEPS = "▁▂▃▄▅▆▇█"
BAR, SPARK = 24, 10
"""Columns of a bar and of a sparkline."""


def inline(part: Inline, *, places: int | None = None, cell: bool = False) -> Text:
    """Parts of a sentence; in a cell, what belongs to a number stands below it."""
    text = Text()
    for piece in parts_of(part):
        _append(text, piece, places, cell)
    return text


def _append(text: Text, part: n.Part, places: int | None, cell: bool) -> None:
    match part:
        case str():
            text.append(visible(part))
        case None | int() | float():
            text.append(short(part))
        case Number():
            _append_number(text, part, places, cell)
        case n.Name():
            tags = "".join(f" ({word})" for word, _ in part.tags)
            text.append(visible(part.text) + tags, "" if part.sound else STYLES[Tone.WRONG])
        case n.Code():
            text.append(visible(part.text), LINK)
        case n.Emphasis():
            inner = inline(part.part, places=places, cell=cell)
            inner.stylize(STYLES[part.tone])
            text.append_text(inner)
        case n.Below():
            text.append("\n" if cell else " (").append_text(inline(muted(part.part)))
            text.append("" if cell else ")")
        case n.Bar():
            drawn = bar(abs(part.share), round(BAR * part.room))
            text.append(drawn, STYLES[part.tone] if part.tone else BAR_COLOUR)
        case n.Reference():
            text.append_text(inline(part.part))
        case n.Sign():
            text.append(f"{part.mark} {part.word}")
        case n.VerdictPill():
            shown = f"{SIGNS.get(part.kind, '·')} {visible(part.words or part.kind)}"
            text.append(shown, VERDICTS.get(part.kind, ""))
        case n.Sparkline():
            text.append(sparkline(part))


def _append_number(text: Text, number: Number, places: int | None, cell: bool) -> None:
    text.append(value_text(number, places), "" if number.sound else STYLES[Tone.STRUCK])
    if not number.sound:  # a stroke is not seen in a file
        text.append(" ✗", STYLES[Tone.WRONG])
    if interval := ", ".join(beside(number, places)):
        text.append(f"\n{interval}" if cell else f" ({interval})", MUTED)


def bar(share: float, width: int = BAR) -> str:
    """A bar of eighths of a character; what is not nothing is seen."""
    if not math.isfinite(share):
        return ""
    eighths = max(round(min(1.0, share) * width * 8), 1 if share > 0 else 0)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def sparkline(part: n.Sparkline) -> str:
    """A step of eight for each place of the budget; a gap where nothing was measured."""
    places = part.places(SPARK)
    low, high = part.span
    range_ = (high - low) or 1.0
    steps = (
        " " if value is None else STEPS[round((value - low) / range_ * (len(STEPS) - 1))] for value in places
    )
    return "".join(steps) + ("✗" if part.broken else "")
