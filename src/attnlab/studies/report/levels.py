"""What is reached without training on the task, as figures compare with it: a named dashed line.

A run's record lists its baselines (`extra["baselines"]`), each with the metric that it is of: the majority of
labels and word counts today. One that is added there, such as the loss of word frequencies, is drawn wherever
its metric is.
"""

from __future__ import annotations

from attnlab.documents.nodes import Level, Number
from attnlab.documents.numbers import known, value_text
from attnlab.metrics.measures import is_share
from attnlab.studies.report.study_results import StudyResults


def levels(study: StudyResults, metric: str) -> list[Level]:
    """The baselines of a metric, one line for each value that arms have of it."""
    form = "percent" if is_share(metric) else "plain"
    values = dict.fromkeys(
        (str(one["name"]), float(one["value"]))
        for _, run in study.runs()
        for one in run.extra.get("baselines", ())
        if one.get("metric", "accuracy") == metric and known(one["value"])
    )
    return [
        Level(f"{name} {value_text(Number(value, form=form))}", value)  # type: ignore[arg-type]
        for name, value in values
    ]
