"""Which words of a source the arms look at as they write: a map an arm, by rank of its heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attnlab.documents.nodes import Control, Figure, Heat, Name, Node, Number, Sentence, Table, TableColumn
from attnlab.runs.result import AlignmentMap, HeadAlignment
from attnlab.studies.report.sections.attention import MOST_TOKENS
from attnlab.studies.report.study_results import Arm, StudyResults

MOST_HEADS = 4
"""Heads of an arm that are drawn, those first without which the output changes most."""


def alignment(study: StudyResults) -> list[Node]:
    maps = {arm: own for arm in study.arms if (own := study.outcome.alignment.get(arm.name))}
    if not maps:
        return []
    heads = {arm: drawn["heads"][:MOST_HEADS] for arm, drawn in maps.items()}
    ranks = range(max(map(len, heads.values())))
    top = max(max(map(max, head["weights"])) for own in heads.values() for head in own)
    views = {
        str(rank): [_map(maps[arm], own[rank : rank + 1], top) for arm, own in heads.items()]
        for rank in ranks
    }
    figure = Figure(
        views,
        note="A row is a token that the arm writes, a column a token of the source; darker is more weight "
        "(on dark pages, brighter), on one scale for all arms. Rank 1 is the cross-attention head without "
        "which the output changes most. First seed of each arm.",
        anchor="alignment",
        alt=f"Cross-attention of written tokens on the source: {', '.join(arm.label for arm in maps)}",
        controls=[Control("Rank of the head", [str(rank + 1) for rank in ranks])],
        panels=[Name(arm.label, arm.ink, arm.sound) for arm in maps],
        square=True,
    )
    source = next(iter(maps.values()))["sentence"]
    return [Sentence(source, "quoted"), figure, removed(maps)]


def removed(maps: Mapping[Arm, AlignmentMap]) -> Table:
    """What each of the heads is worth: the output without it."""
    rows = [
        (arm.untagged, rank, head["name"], Number(head["effect"], decimals=4))
        for arm, drawn in maps.items()
        for rank, head in enumerate(drawn["heads"][:MOST_HEADS], 1)
    ]
    definitions = dict.fromkeys(drawn["effect"] for drawn in maps.values())
    columns = ("arm", TableColumn("rank", right=True), "head", TableColumn("without it", right=True))
    note = f"Without it: {'; '.join(definitions)}. The weights alone do not show which head matters."
    return Table(columns, rows, title="The output without each head", note=note)


def _map(drawn: AlignmentMap, heads: Sequence[HeadAlignment], top: float) -> Heat:
    """The first tokens of both sides, by one head; nothing where the arm has no such head."""
    weights = [row[:MOST_TOKENS] for head in heads for row in head["weights"][:MOST_TOKENS]]
    return Heat(
        drawn["written"][:MOST_TOKENS],
        [[round(weight, 3) for weight in row] for row in weights],
        top,
        rows="written",
        columns="source",
        keys=drawn["source"][:MOST_TOKENS],
    )
