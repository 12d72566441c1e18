"""What is predicted: one object a kind, one line here, under the name that its labels have in run.json."""

from __future__ import annotations

from attnlab.targets.classes import ClassTarget, SetTarget
from attnlab.targets.numbers import NumberTarget
from attnlab.targets.pairs import PairTarget
from attnlab.targets.spans import SpanTarget
from attnlab.targets.tags import TagTarget
from attnlab.targets.target import Target
from attnlab.targets.words import WordTarget

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        WordTarget(),
        ClassTarget(),
        SetTarget(),
        NumberTarget(),
        PairTarget(),
        SpanTarget(),
        TagTarget(),
    )
}
