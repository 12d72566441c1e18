"""What is shown of labels, answers and their predictions beside the metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attnlab.documents.nodes import (
    Bar,
    Inline,
    Marked,
    MarkedSpan,
    Node,
    Number,
    Sentence,
    Table,
    TableColumn,
    Tone,
    muted,
    toned,
)
from attnlab.runs.findings import mark

if TYPE_CHECKING:
    from attnlab.tasks.task import Prediction, TextSpan

WIDE = 12
"""Classes of which a confusion matrix still fits a terminal."""


def label_nodes(scored: Mapping[str, Any]) -> Iterator[Node]:
    """What is told of labels."""
    if "majority" in scored:
        most = scored["majority"]
        yield Sentence(f"Always predicting “{most['label']}” is right in {most['share']:.1%}.")
        if len(scored.get("baselines", ())) > 1:
            yield Sentence(scored["baselines_told"])
        yield classes_table(scored["classes"])
        if "confusion" in scored:
            yield confusion_table(**scored["confusion"])
    if scored["mistakes"]:
        yield mistakes_table(scored["mistakes"])
    yield from finding_sentences(scored.get("checks", ()))


def finding_sentences(findings: Iterable[Mapping[str, Any]]) -> Iterator[Sentence]:
    """What checks found of the examples, a line each."""
    for finding in findings:
        if finding["outcome"] != "not applicable":
            advice = " ".join(finding[part] for part in ("meaning", "fix"))
            line = f" {finding['check']}: {finding['found']}. {advice}".rstrip()
            yield Sentence((mark(finding["outcome"]), line))


def classes_table(classes: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        (
            *(scores["name"], scores["examples"], scores["predicted"]),
            *(Number(scores[name], decimals=3) for name in ("precision", "recall", "f1")),
        )
        for scores in classes
    ]
    return Table(("class", "examples", "predicted", "precision", "recall", "F1"), rows, title="Classes")


def confusion_table(names: Sequence[str], counts: Sequence[Sequence[int]]) -> Table:
    """Rows are what was right, columns what was said; of many classes the most frequent mistakes."""
    if len(names) > WIDE:
        pairs = [(counts[a][b], a, b) for a in range(len(names)) for b in range(len(names)) if a != b]
        often = sorted(pairs, reverse=True)[:WIDE]
        listed = [(names[right], names[predicted], count) for count, right, predicted in often if count]
        return Table(("right", "predicted", "times"), listed, title="Most frequent confusions")
    heads = [TableColumn("right ↓ predicted →"), *(TableColumn(name[:10], right=True) for name in names)]
    rows = [
        (names[right], *(_count(count, right == predicted) for predicted, count in enumerate(row)))
        for right, row in enumerate(counts)
    ]
    return Table(heads, rows, title="Confusion")


def _count(count: int, agrees: bool) -> Inline:
    return toned(Tone.GOOD, count) if agrees else count if count else muted("·")


def mistakes_table(mistakes: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        (
            *(answer(mistake[name]) for name in ("label", "prediction")),
            *(Number(mistake["confidence"], decimals=3), mistake["text"]),
        )
        for mistake in mistakes
    ]
    title = "Largest errors" if mistakes[0]["confidence"] is None else "Most confidently wrong"
    return Table(("label", "prediction", "confidence", "text"), rows, title=title)


def answer(value: Any) -> str:
    """A class, several, or a number."""
    if isinstance(value, float):
        return f"{value:,.4g}"
    return (value if isinstance(value, str) else ", ".join(value)) or "none"


# ---------------------------------------------------------------- answers to questions
def answer_nodes(scored: Mapping[str, Any]) -> Iterator[Node]:
    """What is told of answers."""
    answers = scored["answers"]
    if scored.get("baselines_told"):
        yield Sentence(scored["baselines_told"])
    yield Sentence(
        f"{answers['answered']:,} of {answers['n']:,} questions answered, "
        f"{answers['answerable']:,} have an answer."
    )
    yield threshold_table(answers)
    yield Sentence(threshold_sentence(answers["threshold"]))
    if answers["wrong"]:
        yield wrong_table(answers["wrong"])
    yield from finding_sentences(scored["checks"])


def threshold_table(answers: Mapping[str, Any]) -> Table:
    """F1 by threshold; those that were used are marked."""
    rows: list[tuple[Inline, ...]] = [
        (
            Number(point["threshold"], form="signed", decimals=2),
            Number(point["answered"] / answers["n"], form="percent", decimals=0),
            *(Number(point[name], decimals=4) for name in ("f1", "exact")),
            (Bar(point["f1"]), " ← used" if point["used"] else ""),
        )
        for point in answers["curve"]
    ]
    title = "F1 by threshold τ (an answer is given above it)"
    return Table(("τ", "answered", "F1", "exact match", ""), rows, title=title)


def threshold_sentence(used: Mapping[str, Any]) -> str:
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


def wrong_table(wrong: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        (
            *(Number(mistake["margin"], form="signed", decimals=2), mistake["question"]),
            *(mistake[name] or muted("none") for name in ("answer", "gold")),
        )
        for mistake in wrong
    ]
    shares = {"margin": None, "question": 2, "answer": 1, "right": 1}
    columns = [TableColumn(name, share=share) for name, share in shares.items()]
    return Table(columns, rows, title="Wrong by the largest margin")


# ---------------------------------------------------------------- predictions of new texts
def prediction_node(text: str, prediction: Prediction) -> Node:
    """One text with what is predicted of it: its parts marked, or its classes."""
    return (
        prediction_table(text, prediction)
        if prediction.spans is None
        else marked_text(text, prediction.spans)
    )


def marked_text(text: str, spans: Sequence[TextSpan]) -> Marked:
    """A text with its labelled parts."""
    shown, at = list[MarkedSpan](), 0
    for span in spans:
        shown += [MarkedSpan(text[at : span.start]), MarkedSpan(span.text, span.label)]
        at = span.end
    return Marked([*shown, MarkedSpan(text[at:])])


def prediction_table(text: str, prediction: Prediction, top: int = 5) -> Table:
    """One text with its prediction, and the classes that are most probable."""
    if not prediction.scores:
        columns = {name: value for name, value in prediction.columns.items() if value is not None}
        cells = [value if isinstance(value, int) else answer(value) for value in columns.values()]
        return Table(list(columns), [cells], title=text)
    chosen = (prediction.answer,) if isinstance(prediction.answer, str) else prediction.answer
    ranked = sorted(prediction.scores.items(), key=lambda item: -item[1])[:top]
    rows = [
        (
            toned(Tone.CHOSEN, name) if name in chosen else name,  # type: ignore[operator]
            Number(share, decimals=3),
            Bar(share),
        )
        for name, share in ranked
    ]
    return Table(("class", "probability", ""), rows, title=text)
