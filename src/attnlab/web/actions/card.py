"""The card of a variant, as `attnlab show` has it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from attnlab.config.registry import card, table
from attnlab.config.values import unknown_name
from attnlab.web.actions import Answer
from attnlab.web.worker_request import WorkerRequest

SECTION = re.compile(r"^(Formula|Cost|When it helps|Paper): ", re.MULTILINE)
"""The parts of a card's text, as every class's docstring names them."""


@dataclass(frozen=True)
class CardValues:
    table: str
    name: str


def variant_card(asked: WorkerRequest) -> Answer:
    values = asked.read(CardValues)
    variants = table(values.table)
    if values.name not in variants:
        raise unknown_name(values.table, values.name, variants)
    entry = card(variants, values.name)
    _, *parts = SECTION.split(entry.text)
    sections = {name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}
    return entry.as_json() | {"sections": sections}
