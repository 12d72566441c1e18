"""Every colour of a page, on light and on dark, and what it means: surfaces, judgements, arms, weights.

Told apart without red and green. Light inks are dark enough to be read as lines on white (3:1 at least, text
4.5:1), dark ones bright enough on black. Pages have them as CSS variables, so that one drawing serves both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

Pair = tuple[str, str]
"""A colour on light, and on dark."""

SURFACES: dict[str, Pair] = {
    "page": ("#fcfbf9", "#141519"),
    "raised": ("#ffffff", "#1d1f24"),
    "sunken": ("#f4f2ee", "#1a1b20"),
    "ink": ("#1d1e22", "#e9e9ec"),
    "muted": ("#5c5f67", "#a3a6ae"),
    "rule": ("#e6e3dd", "#2a2c33"),
    "rule-strong": ("#c3bfb7", "#4a4d56"),
    "axis": ("#8d8a83", "#747883"),  # the zero line, borders of fields
    "link": ("#0b5c94", "#82c3f2"),  # and the focus
}
JUDGEMENT: dict[str, Pair] = {  # text, and the soft ground below it
    "good": ("#0b5c94", "#82c3f2"),
    "good-soft": ("#e2eef7", "#16293a"),
    "bad": ("#94430a", "#f2a86d"),
    "bad-soft": ("#f9ebdf", "#38240f"),
    "wrong": ("#a3123d", "#ff9bb0"),
    "wrong-soft": ("#fbe6eb", "#3c1620"),
    "caution": ("#7a5a00", "#e5c55c"),
    "caution-soft": ("#faf1d5", "#322908"),
    "plain-soft": ("#edebe6", "#272930"),
    "bar": ("#6f8fa8", "#6d92b0"),  # a quantity without a judgement
}
BASELINE: Pair = ("#33363d", "#d7d9de")
COLOURS: tuple[Pair, ...] = (  # of arms; after Okabe and Ito, and Tol
    ("#0072b2", "#5bb4ec"),
    ("#c2570c", "#f0944d"),
    ("#00806a", "#3cc9a7"),
    ("#a8408a", "#e08cc8"),
    ("#8a6d00", "#dcbf4a"),
    ("#5b4fc4", "#a49cf5"),
    ("#3d7d9c", "#8fd0e0"),
    ("#9c2f45", "#f07f92"),
)
INVALID: Pair = ("#8b8d94", "#7d8088")
DASHES = ("solid", "dash", "longdash", "dashdot")
"""Past the last colour they begin again, with another dash; dots are for what is invalid."""

STOPS = (0.0, 0.35, 1.0)
"""Shares of the largest weight at which the ramp has its colours; it is linear between them."""
WEIGHTS: tuple[Pair, ...] = (("#f4f2ee", "#1d1f24"), ("#7fb2d6", "#2f6f9f"), ("#08305c", "#d9f0ff"))
SIGNED: dict[str, Pair] = {"below": COLOURS[1], "above": COLOURS[0]}
"""Of numbers on both sides of zero, from the ground of the ramp."""


@dataclass(frozen=True)
class Ink:
    """How an arm is drawn: a CSS variable, its band's variable, and a dash."""

    colour: str
    band: str
    dash: str


def ink(place: int, *, sound: bool = True) -> Ink:
    """Of the baseline (place 0) and of the arms after it; what is invalid or failed is grey and dotted."""
    if not sound:
        return Ink("var(--invalid-line)", "var(--invalid-line-band)", "dot")
    if place == 0:
        return Ink("var(--arm-0)", "var(--arm-0-band)", "solid")
    number, dash = (place - 1) % len(COLOURS) + 1, DASHES[(place - 1) // len(COLOURS) % len(DASHES)]
    return Ink(f"var(--arm-{number})", f"var(--arm-{number}-band)", dash)


def arm_inks(arms: Iterable[str], *, baseline: str, grey: Collection[str] = ()) -> dict[str, Ink]:
    """The ink of each arm of a study, the same wherever it is drawn: that of the baseline, and those of the
    others by their order. Arms that are `grey`, invalid or failed, use up no colour."""
    names = dict.fromkeys(arms)
    places = {arm: place for place, arm in enumerate(name for name in names if name not in (baseline, *grey))}
    return {arm: ink(places[arm] + 1 if arm in places else 0, sound=arm not in grey) for arm in names}


# ---------------------------------------------------------------- the ramp
def between(share: float) -> tuple[int, float]:
    """The stop below a share of the largest weight, and how far it is on the way to the next, from 0 to 1."""
    share = min(max(share, 0.0), 1.0)
    stop = 0 if share <= STOPS[1] else 1
    return stop, (share - STOPS[stop]) / (STOPS[stop + 1] - STOPS[stop])


def shade(share: float, *, signed: bool = False) -> str:
    """A weight as a colour of a page, from its share of the largest one. A signed one goes from the ground
    to one of two hues, by its sign."""
    if signed:
        side = "below" if share < 0 else "above"
        return _mix("var(--heat-0)", f"var(--{side})", min(abs(share), 1.0))
    stop, part = between(share)
    return _mix(f"var(--heat-{stop})", f"var(--heat-{stop + 1})", part)


def _mix(one: str, other: str, part: float) -> str:
    return f"color-mix(in srgb, {other} {100 * part:.4g}%, {one})"


def shade_on(share: float, *, dark: bool, signed: bool = False) -> str:
    """The same as #rrggbb, where there are no variables: in a terminal."""
    if signed:
        pairs, stop, part = [WEIGHTS[0], SIGNED["below" if share < 0 else "above"]], 0, min(abs(share), 1.0)
    else:
        pairs, (stop, part) = list(WEIGHTS), between(share)
    ends = [_channels(pairs[stop + i][dark]) for i in (0, 1)]
    mixed = [round(low + (high - low) * part) for low, high in zip(*ends, strict=True)]
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def ramp() -> list[tuple[float, str]]:
    """Its stops and their variables, for what draws by itself: plotly, a script, a key's gradient."""
    return [(stop, f"var(--heat-{place})") for place, stop in enumerate(STOPS)]


# ---------------------------------------------------------------- variables
def variables(dark: bool) -> dict[str, str]:
    """Every colour as a CSS variable, for one scheme."""
    arms = {f"arm-{i}": pair for i, pair in enumerate((BASELINE, *COLOURS))} | {"invalid-line": INVALID}
    heat = {f"heat-{i}": pair for i, pair in enumerate(WEIGHTS)}
    named = {name: pair[dark] for name, pair in (SURFACES | JUDGEMENT | heat | SIGNED | arms).items()}
    return named | {f"{name}-band": rgba(named[name], 0.22 if dark else 0.16) for name in arms}


# ---------------------------------------------------------------- terminals
EVEN = 0.18
"""The luminance that contrasts with white as much as with black: 4.5:1 with each."""


def on_any_ground(pair: Pair) -> str:
    """Between a colour's light and its dark kind, to be read on a light and on a dark terminal alike: which
    of the two a person has is not known."""
    low, high = (_channels(colour) for colour in sorted(pair, key=lambda c: luminance(_channels(c))))
    if luminance(low) > EVEN:  # the whole pair is bright: towards black
        low, high = [0, 0, 0], low
    shares = (step / 256 for step in range(257))
    mixes = ([round(a + (b - a) * share) for a, b in zip(low, high, strict=True)] for share in shares)
    best = min(mixes, key=lambda channels: abs(luminance(channels) - EVEN))
    return "#" + "".join(f"{channel:02x}" for channel in best)


def luminance(channels: Sequence[int]) -> float:
    """As WCAG has it, of red, green and blue from 0 to 255."""
    shares = (channel / 255 for channel in channels)
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _channels(colour: str) -> Sequence[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def rgba(colour: str, opacity: float) -> str:
    red, green, blue = _channels(colour)
    return f"rgba({red}, {green}, {blue}, {opacity})"
