"""A config before it is trained here: whether it may be, and how long it would take, by a few real steps."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from attnlab.studies.timing import measure_pace
from attnlab.web.actions import Answer
from attnlab.web.actions.files_read import refuse_outside
from attnlab.web.actions.settings import ConfigValues, config_of_values
from attnlab.web.worker_request import WorkerRequest


def run_to_begin(asked: WorkerRequest) -> Answer:
    """Refuse to begin a run that reads files outside the served folder."""
    refuse_outside(asked, config_of_values(asked.read(ConfigValues)))
    return {}


def pace(asked: WorkerRequest) -> Answer:
    """Seconds from its start to its end, checks and evaluations included, as `attnlab run --plan` measures
    them; nothing of the steps is kept."""
    config = config_of_values(asked.read(ConfigValues))
    refuse_outside(asked, config)
    with TemporaryDirectory(prefix="attnlab-pace-") as folder:
        measured = measure_pace(config, Path(folder) / "run", ())
    return {"seconds": measured.total(config.training.evaluate_every)}
