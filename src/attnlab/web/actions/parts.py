"""What there is to choose from: every setting of a run, and which parts work together."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from attnlab.config.files import load, ready_configs, to_json
from attnlab.config.registry import TABLES, card, table
from attnlab.config.setting_cards import setting_cards
from attnlab.config.values import unknown_name
from attnlab.model.combinations import survey
from attnlab.web.actions import Answer
from attnlab.web.worker_request import WorkerRequest


@dataclass(frozen=True)
class TableValues:
    table: str


def settings(asked: WorkerRequest) -> Answer:
    """Every setting with its card, and every ready config with its own values."""
    configs = {name: to_json(load(name)) for name in ready_configs()}
    return {"settings": [asdict(entry) for entry in setting_cards()], "configs": configs}


def cards(asked: WorkerRequest) -> Answer:
    """The cards of a table."""
    name = asked.read(TableValues).table
    if name not in TABLES:
        raise unknown_name("Tables", name, TABLES)
    return {"cards": [card(table(name), variant).as_json() for variant in table(name)]}


def combinations(asked: WorkerRequest) -> Answer:
    """How many combinations of parts work, and why the others are refused."""
    return survey()
