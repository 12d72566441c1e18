"""How labels and their predictions are shown in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from attnlab.cli.console import out
from attnlab.config.visible_text import visible
from attnlab.runs.display import escape
from attnlab.runs.findings import COLOURS, MARKS

if TYPE_CHECKING:
    from attnlab.tasks.task import Prediction, TextSpan

SPAN_COLOURS = ("green", "magenta", "cyan", "yellow", "blue", "red")
WIDE = 12
"""Classes of which a confusion matrix still fits a terminal."""
BAR = 24


def show_labels(scored: Mapping[str, Any]) -> None:
    """What is told of labels beside the metrics."""
    if "majority" in scored:
        most = scored["majority"]
        out.print(
            f"Always predicting “{escape(visible(most['label']))}” is right in {most['share']:.1%}.",
            highlight=False,
        )
        if len(scored.get("baselines", ())) > 1:
            out.print(escape(visible(scored["baselines_told"])), highlight=False)
        out.print(classes_table(scored["classes"]))
        if "confusion" in scored:
            out.print(confusion_table(scored["confusion"]))
    if scored["mistakes"]:
        out.print(mistakes_table(scored["mistakes"]))
    show_findings(scored.get("checks", ()))


def show_findings(findings: Iterable[Mapping[str, Any]]) -> None:
    """What checks found of the examples, a line each."""
    for finding in findings:
        if finding["outcome"] != "not applicable":
            told = " ".join(finding[part] for part in ("meaning", "fix")).strip()
            mark = f"[{COLOURS[finding['outcome']]}]{MARKS[finding['outcome']]}[/]"
            line = escape(visible(f"{finding['check']}: {finding['found']}. {told}".strip()))
            out.print(f"{mark} {line}", highlight=False)


def classes_table(classes: list[dict[str, Any]]) -> Table:
    table = Table(title="Classes", title_justify="left")
    table.add_column("class")
    for name in ("examples", "predicted", "precision", "recall", "F1"):
        table.add_column(name, justify="right")
    for one in classes:
        shares = (one[name] for name in ("precision", "recall", "f1"))
        shown = ("–" if share is None else f"{share:.3f}" for share in shares)
        table.add_row(escape(visible(one["name"])), f"{one['examples']:,}", f"{one['predicted']:,}", *shown)
    return table


def confusion_table(confusion: Mapping[str, Any]) -> Table:
    """Rows are what was right, columns what was said; of many classes the most frequent mistakes."""
    names, counts = [visible(name) for name in confusion["names"]], confusion["counts"]
    if len(names) > WIDE:
        return confusions_list(names, counts)
    table = Table(title="Confusion", title_justify="left")
    table.add_column("right ↓ predicted →")
    for name in names:
        table.add_column(escape(name[:10]), justify="right")
    for number, row in enumerate(counts):
        cells = (
            f"[green]{count}[/]" if place == number else str(count) if count else "[bright_black]·[/]"
            for place, count in enumerate(row)
        )
        table.add_row(escape(names[number]), *cells)
    return table


def confusions_list(names: list[str], counts: list[list[int]]) -> Table:
    table = Table("right", "predicted", "times", title="Most frequent confusions", title_justify="left")
    found = [(counts[a][b], a, b) for a in range(len(names)) for b in range(len(names)) if a != b]
    for count, right, said in sorted(found, reverse=True)[:WIDE]:
        if count:
            table.add_row(escape(names[right]), escape(names[said]), str(count))
    return table


def mistakes_table(mistakes: list[dict[str, Any]]) -> Table:
    title = "Largest errors" if mistakes[0]["confidence"] is None else "Most confidently wrong"
    table = Table(title=title, title_justify="left")
    for name in ("label", "prediction"):
        table.add_column(name)
    table.add_column("confidence", justify="right")
    table.add_column("text", overflow="fold")
    for one in mistakes:
        sure = "–" if one["confidence"] is None else f"{one['confidence']:.3f}"
        table.add_row(
            *(escape(answer(one[n])) for n in ("label", "prediction")), sure, escape(visible(one["text"]))
        )
    return table


def answer(value: Any) -> str:
    """A class, several, or a number."""
    if isinstance(value, float):
        return f"{value:,.4g}"
    return visible(value if isinstance(value, str) else ", ".join(value)) or "none"


def marked_text(text: str, spans: Sequence[TextSpan]) -> Text:
    """A text with its labelled parts in brackets, and in colours where there are any."""
    shown, at = Text(), 0
    labels = dict.fromkeys(span.label for span in spans)
    colours = dict(zip(labels, cycle(SPAN_COLOURS), strict=False))
    for span in spans:
        shown.append(visible(text[at : span.start]))
        shown.append(f"[{visible(span.text)}", f"bold {colours[span.label]}")
        shown.append(f" {visible(span.label)}]", colours[span.label])
        at = span.end
    return shown.append(visible(text[at:]))


def prediction_view(text: str, one: Prediction) -> Table | Text:
    """One text with what is predicted of it: its parts marked, or its classes."""
    return prediction_table(text, one) if one.spans is None else marked_text(text, one.spans)


def prediction_table(text: str, one: Prediction, top: int = 5) -> Table:
    """One text with its prediction, and the classes that are most probable."""
    table = Table(title=escape(visible(text)), title_justify="left")
    if not one.scores:
        held = {name: value for name, value in one.columns.items() if value is not None}
        for name in held:
            table.add_column(escape(name))
        cells = (f"{value:,}" if isinstance(value, int) else answer(value) for value in held.values())
        table.add_row(*map(escape, cells))
        return table
    table.add_column("class")
    table.add_column("probability", justify="right")
    table.add_column("")
    chosen = (one.answer,) if isinstance(one.answer, str) else one.answer
    for name, share in sorted(one.scores.items(), key=lambda item: -item[1])[:top]:
        mark = f"[bold green]{escape(visible(name))}[/]" if name in chosen else escape(visible(name))  # type: ignore[operator]
        table.add_row(mark, f"{share:.3f}", "█" * round(share * BAR))
    return table
