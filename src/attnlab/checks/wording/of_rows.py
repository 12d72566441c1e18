"""The words of checks that lead numbers back to the rows of a person's files."""

from __future__ import annotations

from collections.abc import Mapping

from attnlab.checks.wording.template import Sentences, Template, Values
from attnlab.config.wording import count_of

NOT_OF_THE_ROWS = "The number is not that of the rows that it is said to be of."
ONCE = "Score every row of the split once, keep what was said of each, and take metrics from that."


def agree(values: Values) -> Sentences:
    metrics, examples = count_of(values["metrics"], "metric"), count_of(values["n"], "example")
    found = f"{metrics} of {examples} computed a second time"
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


def same_rows(values: Values) -> Sentences:
    counts = ", ".join(f"{split} {count:,}" for split, count in values["counts"].items())
    return Sentences(f"{values['compared']} rows are those of their lines; rows by file: {counts}")


def giving_away(values: Values) -> Sentences:
    words = ", ".join(
        f"“{word}” is in {share:.0%} of the texts with “{label}” ({pure:.0%} of the texts with it)"
        for word, label, share, pure in values["words"]
    )
    return Sentences(
        f"{words}; of {values['texts']:,} training texts",
        "A single word or sign decides the label: a model that reads it alone is right here, and may be "
        "wrong elsewhere.",
        "Remove it from the texts if it is not part of the task: a heading, an address, the label itself.",
    )


CHOSEN = {"step": "the best step", "threshold": "the threshold", "rate": "the learning rate"}


def chosen_phrase(values: Values) -> str:
    return " and ".join(CHOSEN[what] for what in values["chosen"])


UNREAD = {
    "published": "what {whose} was trained on is not known here",
    "gone": "the text that {whose} was trained on cannot be read any more",
    "changed": "the text that {whose} was trained on has changed since",
    "large": "the text that {whose} was trained on is too large to be compared (limit 32 MB)",
}


def not_compared(values: Values) -> str:
    """Which rows could not be compared, and why; nothing where all could."""
    reasons = [
        UNREAD[one["why"]].format(whose=f"the start {one['name']}" if one["name"] else "the model")
        for one in values["unread"]
    ]
    return f"rows were not compared: {'; '.join(reasons)}" if reasons else ""


def with_unread(found: str) -> Template:
    """These words, and what could not be compared."""

    def words(values: Values) -> Sentences:
        rest = not_compared(values)
        return Sentences(found.format(**values) + (f"; {rest}" if rest else ""))

    return words


def scored_dev(values: Values) -> Sentences:
    by, rest = chosen_phrase(values), not_compared(values)
    found = f"rows of dev, by which {by} was chosen: a little too good" if by else "rows of dev"
    return Sentences(f"{found}; {rest}" if rest else found)


def chosen_on(values: Values) -> Sentences:
    by = chosen_phrase(values) or "what is kept of a run"
    return Sentences(
        f"{values['dev']:.0%} of the {values['n']:,} scored rows are rows of dev",
        f"By these rows {by} was chosen: their scores are a little too good.",
        "Score rows that nothing was chosen by.",
    )


OF_ROWS: Mapping[tuple[str, str], Template] = {
    ("best_step", "no_history"): Sentences("no evaluation stands in the history"),
    ("best_step", "best"): Sentences(
        "step {step:,} is kept of {evaluations} evaluations, by dev {metric}: {value:.4g}"
    ),
    ("best_step", "not_best"): Sentences(
        "step {own_step:,} is called the best, with a {metric} of {own_value:.4g}; by the history it is step "
        "{step:,} with {value:.4g}",
        "The checkpoint that is opened is not the one that dev chooses.",
        "Open the checkpoint of that step by its folder, if it was kept; look at what chose it.",
    ),
    ("scored_rows", "no_dev"): Sentences("there is no dev split"),
    ("scored_rows", "scratch"): Sentences("the run begins from random weights; see `contamination`"),
    ("scored_rows", "unknown_rows"): lambda values: Sentences(not_compared(values)),
    ("scored_rows", "apart"): with_unread(
        "of {n:,} scored rows {train:.0%} are rows of train, {dev:.0%} rows of dev"
    ),
    ("scored_rows", "dev_by_name"): scored_dev,
    ("scored_rows", "train_by_name"): Sentences("rows of train, which the model was trained on"),
    ("scored_rows", "trained_on"): Sentences(
        "{train:.0%} of the {n:,} scored rows are rows that the model was trained on",
        "Their scores say what was learned by heart, not how it does on others.",
        "Score rows that are not in the training file.",
    ),
    ("scored_rows", "trained_before"): Sentences(
        "{start_share:.0%} of the {n:,} scored rows are rows that {start} was trained on, from which the run "
        "begins",
        "Their scores say what was learned by heart, not how it does on others.",
        "Split the rows as that run did (data.split_seed), or score rows that it did not have.",
    ),
    ("scored_rows", "read_before"): Sentences(
        "{start_share:.0%} of the {n:,} scored rows are text that {start} was trained on, without labels",
        "On texts that the model has never read it may do a little worse.",
        "Score texts that were not in the start's training text.",
    ),
    ("scored_rows", "chosen_on"): chosen_on,
    ("source_rows", "not_files"): Sentences(
        "the text is not from files, or they are too large or not in a plain form to be read a second time"
    ),
    ("source_rows", "same"): same_rows,
    ("source_rows", "count"): Sentences(
        "{split} has {held:,} examples, and its lines come to {lines:,}",
        "Rows are lost, or counted more than once, between the file and the batches.",
        "Look at what is left out: empty rows, rows at the ends, rows of another split.",
    ),
    ("source_rows", "padding"): Sentences(
        "{number:.1%} of the targets of {split} are padding",
        "The model is trained, or judged, on predicting padding: the loss is too low.",
        "Mark places of padding as no target.",
    ),
    ("source_rows", "other_text"): Sentences(
        "a row of {split} reads “{held}”, and {place} has “{written}”",
        "Texts are not those of their lines.",
        "Read the file again; keep the order of its rows, and the number of each.",
    ),
    ("source_rows", "other_label"): Sentences(
        "a row of {split} has the label “{held}”, and {place} has “{written}”",
        "Labels have moved against their texts.",
        "Keep each label with its text through every shuffle, filter and join.",
    ),
    ("giveaway", "names"): Sentences("{classes} classes, each with a name of its own"),
    ("giveaway", "none"): Sentences(
        "no word of {texts:,} training texts decides a label alone; {classes} classes, each with a name of "
        "its own"
    ),
    ("giveaway", "alike"): lambda values: Sentences(
        "the classes " + " and ".join(f"“{name}”" for name in values["names"]) + " differ by case, spaces or "
        "Unicode form alone",
        "One class under two names is two: neither is learned, nor scored, as a whole.",
        "Write them alike in the file, if they are meant to be one.",
    ),
    ("giveaway", "word"): giving_away,
    ("recomputed_metrics", "not_scored"): Sentences("nothing was scored"),
    ("recomputed_metrics", "agree"): agree,
    ("recomputed_metrics", "as_in_history"): Sentences(
        "{metrics} numbers are those that the run wrote down at step {step:,}"
    ),
    ("recomputed_metrics", "not_as_in_history"): Sentences(
        "{metric} is {reported:.4g} now, and the run wrote down {written:.4g} at step {step:,}",
        "The checkpoint, the data or the way of scoring is not that of the run.",
        "Compare the versions in run.json; evaluate another checkpoint of the run by its folder.",
    ),
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


def known_rows(kind: str, values: Values) -> str:
    """What was found of scored rows that were trained on or chosen by, with what it means."""
    template = OF_ROWS["scored_rows", kind]
    words = template.filled(values) if isinstance(template, Sentences) else template(values)
    return f"{words.found}. {words.meaning}"
