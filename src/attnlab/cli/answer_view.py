"""How answers and their threshold are shown in a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from attnlab.cli.console import out
from attnlab.cli.label_view import show_findings
from attnlab.config.visible_text import visible
from attnlab.runs.display import escape

BAR = 24


def show_answers(scored: Mapping[str, Any]) -> None:
    """What is told of answers beside the metrics."""
    held = scored["answers"]
    if scored.get("baselines_told"):
        out.print(escape(scored["baselines_told"]), highlight=False)
    told = f"{held['answered']:,} of {held['n']:,} questions answered, {held['answerable']:,} have an answer."
    out.print(told, highlight=False)
    out.print(curve_table(held))
    out.print(threshold_line(held["threshold"]), highlight=False)
    if held["wrong"]:
        out.print(wrong_table(held["wrong"]))
    show_findings(scored["checks"])


def curve_table(held: Mapping[str, Any]) -> Table:
    """F1 by threshold; those that were used are marked."""
    table = Table(title="F1 by threshold τ (an answer is given above it)", title_justify="left")
    for name in ("τ", "answered", "F1", "exact match"):
        table.add_column(name, justify="right")
    table.add_column("")
    for one in held["curve"]:
        shares = f"{one['answered'] / held['n']:.0%}", f"{one['f1']:.4f}", f"{one['exact']:.4f}"
        bar = "█" * round(one["f1"] * BAR) + (" ← used" if one["used"] else "")
        table.add_row(f"{one['threshold']:+.2f}", *shares, bar)
    return table


def threshold_line(used: Mapping[str, Any]) -> str:
    """Where the threshold comes from, and what tuning it on these questions would have pretended."""
    if used["how"] == "fixed":
        source = f"τ = {used['least']:+.3f}, as kept with the model or set"
    else:
        source = (
            f"τ from {used['least']:+.3f} to {used['most']:+.3f}, cross-fitted: for each of {used['folds']} "
            "folds of the passages the best one of the others"
        )
    gain = used["pretended_f1"] - used["f1"]
    return (
        f"{source}: F1 {used['f1']:.4f}. Tuned on these same questions, τ = {used['tuned_here']:+.3f} would "
        f"have pretended {used['pretended_f1']:.4f} ({gain:+.4f})."
    )


def wrong_table(wrong: list[dict[str, Any]]) -> Table:
    table = Table(title="Wrong by the largest margin", title_justify="left")
    table.add_column("margin", justify="right")
    table.add_column("question", overflow="fold", ratio=2)
    table.add_column("answer", overflow="fold", ratio=1)
    table.add_column("right", overflow="fold", ratio=1)
    for one in wrong:
        given, gold = (escape(visible(one[name])) or "[bright_black]none[/]" for name in ("answer", "gold"))
        table.add_row(f"{one['margin']:+.2f}", escape(visible(one["question"])), given, gold)
    return table
