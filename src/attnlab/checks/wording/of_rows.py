"""The words of checks that lead numbers back to the rows of a person's files."""

from __future__ import annotations

from collections.abc import Mapping

from attnlab.checks.wording.template import Sentences, Template, Values

NOT_OF_THE_ROWS = "The number is not that of the rows that it is said to be of."
ONCE = "Score every row of the split once, keep what was said of each, and take metrics from that."


def agree(values: Values) -> Sentences:
    metrics = "metric" if values["metrics"] == 1 else "metrics"
    found = f"{values['metrics']} {metrics} of {values['n']:,} examples computed a second time"
    found += ", with the labels of the file" if values["from_file"] else ""
    found += ", intervals by drawing the examples again" if values["intervals"] else ""
    own = ", ".join(values["unconfirmed"])
    return Sentences(f"{found}; not confirmed: {own}" if own else found)


def wrong_interval(values: Values) -> Sentences:
    def ends(name: str) -> str:
        return "[{:.4g}, {:.4g}]".format(*values[name]) if values[name] else "no interval"

    return Sentences(
        f"the interval of {values['metric']} is {ends('claimed')}, and the examples give {ends('expected')}",
        "The interval is off by more than a tenth: it claims to know more, or less, than the examples tell.",
        "Leave out each example in turn, all of a passage at once, and use Student's t.",
    )


OF_ROWS: Mapping[tuple[str, str], Template] = {
    ("recomputed_metrics", "not_scored"): Sentences("nothing was scored"),
    ("recomputed_metrics", "agree"): agree,
    ("recomputed_metrics", "unread"): Sentences(
        "{rows:,} of {n:,} rows have no number",
        "Rows that were not read cannot count: no metric over them is one.",
        ONCE,
    ),
    ("recomputed_metrics", "miscounted"): Sentences(
        "{n:,} rows were scored where {rows:,} should have been; {missing:,} are missing",
        NOT_OF_THE_ROWS,
        ONCE,
    ),
    ("recomputed_metrics", "targets"): Sentences(
        "{targets:,.0f} targets are reported, and {counted:,} are there", NOT_OF_THE_ROWS, ONCE
    ),
    ("recomputed_metrics", "more_rows"): Sentences(
        "rows up to number {n:,} were scored, and the file has {rows:,}", NOT_OF_THE_ROWS, ONCE
    ),
    ("recomputed_metrics", "other_labels"): Sentences(
        "{rows:,} of {n:,} rows were scored with another label than their line has, first {place}: {held} "
        "where the file has {written}",
        "Another split was scored, or labels have moved against their rows.",
        "Read the file again, and keep each label with its text.",
    ),
    ("recomputed_metrics", "other_losses"): Sentences(
        "the loss of {rows:,} of {n:,} rows is not −log of the probability of their label: {nats:.4g}, by "
        "the probability {recomputed:.4g}",
        "Loss and predictions are not of one forward: one of them is of other rows, or is scaled twice.",
        "Take both from the same scores.",
    ),
    ("recomputed_metrics", "ranks"): Sentences(
        "{rows:,} of {n:,} ranks are not those that the vectors give",
        "Passages are ranked by something else than the scores, or among others.",
        "Count the passages that score at least as high as the own one, each once.",
    ),
    ("recomputed_metrics", "misreported"): Sentences(
        "{metric} is reported as {reported:.6g}, and is {recomputed:.6g} by its definition",
        "The number is another one than its name says.",
        "Compute it from all examples at once, not as a mean of batches' means, and by the average that its "
        "name says.",
    ),
    ("recomputed_metrics", "impossible"): Sentences(
        "{metric} is reported as {reported:.6g}, and has no value by its definition ({recomputed})",
        "What was said of the examples does not give this number.",
        ONCE,
    ),
    ("recomputed_metrics", "interval"): wrong_interval,
}
