"""What was compared: the arms, what they begin from, and what was expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnlab.config.wording import in_words, sentence
from attnlab.documents.nodes import (
    Below,
    Code,
    Definitions,
    Form,
    Inline,
    Name,
    Node,
    Number,
    Sentence,
    Table,
    TableColumn,
    TableRow,
    emphasised,
    listed,
)
from attnlab.documents.numbers import FORMS, anything, estimate_of, known
from attnlab.studies.report.study_results import Arm, StudyResults

COUNTS: dict[str, tuple[str, Form]] = {
    "steps": ("steps", "count"),
    "tokens": ("tokens", "count"),
    "flops": ("FLOPs", "scaled"),
    "learning_rate": ("learning rate", "general"),
}
"""What the runs of an arm really took, whatever was planned: means over its seeds."""


def changes(study: StudyResults) -> list[Node]:
    """What each arm changes, and what all have in common."""
    facts = study.facts
    common = {
        "Baseline": study.baseline,
        "Seeds": f"{len(study.seeds)} ({anything(study.seeds)})" if study.seeds else "",
        "Text": in_words(_used(study, "data", "corpus")),
        "Task": in_words(_used(study, "task")),
        "Budget of each run": study.budget,
        "Changed with --set": ", ".join(f"{k} = {anything(v)}" for k, v in facts.overrides.items()),
        "Matched": f"to the baseline's {facts.match}" if facts.match else "",
        "Each run took": ", ".join(_alike(study)),
    }
    columns = [name for name in COUNTS if len(_took(study, name)) > 1]
    return [
        *_described(study),
        Table(
            ["arm", "changes", *(TableColumn(COUNTS[name][0], right=True) for name in columns)],
            [(arm.shown, _changed(arm), *(_spent(arm, name) for name in columns)) for arm in study.arms],
            caption="Each arm is the base config with these fields changed, and nothing else.",
        ),
        Definitions([(name, value) for name, value in common.items() if value], "facts"),
    ]


def _described(study: StudyResults) -> list[Node]:
    """The set-up as the study's card describes it, where that is what ran."""
    facts = study.facts
    summary = list(filter(None, study.card.get("", "").split("\n")))  # its first line asks the question
    card = [*filter(None, [study.card.get("Set-up")]), *summary[bool(facts.question) :]]
    told: list[Node] = [Sentence(emphasised(sentence(part)), "prose") for part in card]
    if card and facts.overrides:
        described = (Code(f"attnlab show {facts.name}"), " describes the study as it was written; ")
        changed = (Code("--set"), " changed what ran here, which is told below.")
        return [Sentence((*described, *changed), "prose")]
    if card and facts.quick:
        whole = "As it was written, for its whole budget; what ran here is told below."
        return [Sentence(whole, "fine"), *told]
    return told


def _used(study: StudyResults, *where: str) -> list[str]:
    """What the arms were trained on or for, by their configs: a file, or the name of a choice."""
    named = dict[str, None]()
    for arm in study.arms:
        chosen: Any = study.outcome.configs.get(arm.name) or {}
        for part in where:
            chosen = chosen.get(part) or {}
        name = chosen.get("path") or chosen.get("kind") if isinstance(chosen, Mapping) else chosen
        named |= {anything(name): None} if name else {}
    return [*named]


def _changed(arm: Arm) -> Inline:
    own = [Code(f"{key} = {anything(value)}") for key, value in arm.outcome.changes.items()]
    why = Below(f"{arm.word.capitalize()}: {arm.reason}") if arm.reason and arm.sound else ""
    return listed(own, " ") if own else "nothing", why


def _spent(arm: Arm, name: str) -> Number:
    value = getattr(arm.outcome, name)
    return Number(value if known(value) and value else None, form=COUNTS[name][1])


def _took(study: StudyResults, name: str) -> set[float]:
    """The values that arms have of a count."""
    values = (_spent(arm, name).value for arm in study.arms)
    return {value for value in values if value is not None}


def _alike(study: StudyResults) -> list[str]:
    """What every run took the same of, which is said once."""
    took = {name: _took(study, name) for name in COUNTS}
    same = {name: values.pop() for name, values in took.items() if len(values) == 1}
    return [f"{FORMS[form](same[name], 0)} {noun}" for name, (noun, form) in COUNTS.items() if name in same]


def starts(study: StudyResults) -> list[Node]:
    """Models that were there, and runs that the study trained first."""
    rows = [_start(start) for start in study.outcome.starts]
    columns = (
        *(
            "start",
            "task",
            "text",
            TableColumn("tokens seen", right=True),
            TableColumn("dev loss", right=True),
        ),
        *(TableColumn("training time", right=True), "folder"),
    )
    caption = (
        "Trained once, before the arms: all seeds of an arm begin from the same weights, so that no interval "
        "holds the luck of this training."
    )
    return [Table(columns, rows, caption=caption, look="wide")] if rows else []


def _start(start: Mapping[str, Any]) -> TableRow:
    config = start.get("config") or {}
    corpus = (config.get("data") or {}).get("corpus") or {}
    task = (config.get("task") or {}).get("kind", "")
    loss = (start.get("metrics") or {}).get("loss")
    failed = ", ".join(start.get("unsound") or ())
    tags = ((f"invalid: {failed}", "invalid"),) if failed else ()
    tokens, seconds = (
        estimate_of({"value": start.get(name)}, form=form) if task else ""
        for name, form in (("tokens", "count"), ("seconds", "seconds"))
    )
    return TableRow(
        (
            *(Name(start["name"], tags=tags), task or "trained elsewhere"),
            *(anything(corpus.get("path") or corpus.get("kind", "")), tokens),
            *(Number(loss, decimals=3) if known(loss) else "", seconds, Code(start["folder"])),
        )
    )


def hypothesis(study: StudyResults) -> list[Node]:
    """What was expected, before anything was seen."""
    given = [study.facts.hypothesis, study.card.get("Hypothesis", "")]
    texts = {" ".join(text.split()).casefold(): text for text in given if text}  # a card often repeats it
    return [Sentence(emphasised(sentence(text)), "prose") for text in texts.values()]
