"""The colours of arms, the same in every plot: told apart without red and green, on paper and on black.

Light ones are dark enough to be read as lines on white (3:1 at least), dark ones bright enough on black.
Past the last colour they begin again, with another dash.
"""

from __future__ import annotations

from dataclasses import dataclass

BASELINE = ("#33363d", "#d7d9de")
COLOURS = (  # on light, on dark; after Okabe and Ito, and Tol
    ("#0072b2", "#5bb4ec"),
    ("#c2570c", "#f0944d"),
    ("#00806a", "#3cc9a7"),
    ("#a8408a", "#e08cc8"),
    ("#8a6d00", "#dcbf4a"),
    ("#5b4fc4", "#a49cf5"),
    ("#3d7d9c", "#8fd0e0"),
    ("#9c2f45", "#f07f92"),
)
UNSOUND = ("#8b8d94", "#7d8088")
DASHES = ("solid", "dash", "dot", "dashdot")


@dataclass(frozen=True)
class Ink:
    """How an arm is drawn: a CSS variable, its band's variable, and a dash."""

    colour: str
    band: str
    dash: str


def ink(place: int, *, sound: bool = True) -> Ink:
    """Of the baseline (place 0) and of the arms after it; what is not sound is grey and dotted."""
    if not sound:
        return Ink("var(--unsound-line)", "var(--unsound-line-band)", "dot")
    if place == 0:
        return Ink("var(--arm-0)", "var(--arm-0-band)", "solid")
    number, dash = (place - 1) % len(COLOURS) + 1, DASHES[(place - 1) // len(COLOURS) % len(DASHES)]
    return Ink(f"var(--arm-{number})", f"var(--arm-{number}-band)", dash)


def variables(dark: bool) -> dict[str, str]:
    """CSS variables of every ink, for one scheme."""
    named = {f"arm-{i}": pair[dark] for i, pair in enumerate((BASELINE, *COLOURS))}
    named["unsound-line"] = UNSOUND[dark]
    return named | {f"{name}-band": rgba(colour, 0.22 if dark else 0.16) for name, colour in named.items()}


def rgba(colour: str, opacity: float) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {opacity})"
