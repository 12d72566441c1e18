"""The words of checks that read texts, labels and targets, and of runs that are compared."""

from __future__ import annotations

from collections.abc import Mapping

import attnlab.studies.wording as study_wording
from attnlab.checks.wording.template import Sentences, Template, Values

SHIFTED: Mapping[int, str] = {
    0: "the input itself",
    1: "the next token",
    2: "the token after the next",
    -1: "the token before",
}
ENCODE_AGAIN = "Look at how rows are encoded; remove the cached rows, which are then made again."
TARGET_FIXES: Mapping[str, str] = {
    "hidden": "Take the targets from the text before tokens are hidden, at the same places.",
    "next": "Let target i be token i + 1 of the same text, shifted once, and ignore its end and padding.",
    "labels": "Give the labels as they are: the loss shifts them where the model predicts the next token.",
}
VISIBLE = "The model reads what it should predict: its loss says nothing about what it has learned."
AHEAD = "{seen:,} of {targets:,} targets can be seen by the position that predicts them"
AT_THEIR_PLACE = (
    "{number:.0%} of {targets:,} targets stand at their own place in the input; the task keeps {kept:.0%}"
)
IN_SOURCE = "the source holds {number:.0%} of the target; the task keeps {kept:.0%}"
QUERIES = (
    "of {n:,} queries {equal:,} are equal to a passage or another query, {inside:,} stand in their own "
    "passage"
)
ROWS = "{n:,} rows, {again:,} of them repeat a text; {conflicts:,} have a text with two labels"
OVERLAPS: Mapping[str, str] = {
    "same": "{split} has texts of {other}",
    "near": "{split} has texts that differ from those of {other} by a few words",
    "runs": "{split} has long stretches of {other}",
    "passages": "{split} asks of the passages of {other}",
    "tokenizer": "the tokenizer was trained on text of {split}",
}
SCORE: Mapping[str, str] = {
    "train": "a training score",
    "dev": "a score of the text that models were chosen by",
}
COMPARE_ALIKE = (
    "Train and evaluate them from one config that differs only in the part being studied; across tokenizers, "
    "compare bits per byte."
)


def answer_phrase(answer: Values) -> str:
    """An answer and its question; no answer is one that a row points at where there is none."""
    place = f" ({answer['place']})" if answer["place"] else ""
    text = f"“{answer['answer']}”" if answer["answer"] is not None else "an answer where there is none"
    return f"{text} of “{answer['question']}”{place}"


def splits_of_answers(values: Values) -> str:
    phrases = []
    for one in values["splits"]:
        parts = ["{split}: {answers:,} answers of {questions:,} questions are at their place".format_map(one)]
        lost = ((one["unheld"], "whole in no window"), (one["too_long"], "longer than {longest} tokens"))
        for some, what in lost:
            if some["count"]:
                where = what.format_map(values)
                parts.append(f"{some['count']:,} {where}, such as {answer_phrase(some['example'])}")
        phrases.append(", ".join(parts))
    return "; ".join(phrases)


def taught_wrong(values: Values) -> Sentences:
    shown = f", such as {pair_phrase(values['example'])}" if values["example"] is not None else ""
    return Sentences(
        f"{values['wrong']:,} of {values['targets']:,} targets are wrong; {values['likely_share']:.0%} are "
        f"{SHIFTED[values['likely']]}{shown}",
        "The model is trained to predict something else than the next or hidden token: its loss is "
        "meaningless.",
        TARGET_FIXES[values["fix_for"]],
    )


def pair_phrase(pair: Values) -> str:
    return f'"{pair["read"]}" → "{pair["target"]}"'


def right_targets(values: Values) -> str:
    what = "the hidden token" if values["hidden"] else "the next token of its text"
    return (
        f"{values['targets']:,} targets, each {what}, such as {pair_phrase(values['example'])}; "
        f"{values['number']:.0%} equal their input"
    )


def cuts_phrase(cuts: Values) -> str:
    """What was cut off of a split."""
    parts = [
        "{cut:,} of {texts:,} texts cut ({text_share:.1%}), {lost:,} of {tokens:,} tokens "
        "({token_share:.1%})".format_map(cuts)
    ]
    if cuts["inexact"]:
        parts.append(f"{cuts['inexact']:,} answers begin or end inside a token")
    if cuts["split"]:
        parts.append(f"{cuts['split']:,} of {cuts['answers']:,} answers whole in no window")
    return ", ".join(parts)


def splits_cut(values: Values) -> str:
    splits = "; ".join(f"{split}: {cuts_phrase(cuts)}" for split, cuts in values["splits"].items())
    return f"{splits} at data.length {values['length']}"


def splits_unknown(values: Values) -> str:
    splits = ", ".join(f"{share:.1%} of {split}" for split, share in values["splits"].items())
    return f"unknown tokens: {splits}, in the first {values['rows']:,} rows of each"


def overlap_of_pair(pair: Values) -> str:
    """What one split shares with another, in numbers, with an example of what is told."""
    equal = "{same:,} of {texts:,} texts are equal".format_map(pair)
    if pair["same"]:
        example = f'; "{pair["example"]}"' if pair["example"] else ""
        equal += f" ({pair['same_share']:.1%} of the characters{example})"
    parts, near = [equal], pair["near"]
    if near is None:
        parts.append("too short or too similar to search for near duplicates")
    else:
        alike = f"{near['near']:,} of {near['texts']:,} others are near duplicates ({near['share']:.1%}"
        if near["usual"] is not None:
            alike += f", as are {near['usual']:.1%} of train's own"
        if near["example"]:
            alike += '; "{}" and "{}"'.format(*near["example"])
        parts.append(alike + ")")
    runs = "{runs:,} of {all_runs:,} runs of 13 words".format_map(pair)
    parts.append(runs + (f" ({pair['runs'] / pair['all_runs']:.1%})" if pair["all_runs"] else ""))
    if pair["all_passages"]:
        parts.append("{passages:,} of {all_passages:,} passages".format_map(pair))
    return f"{pair['split']} in {pair['other']}: {', '.join(parts)}"


def read_in_part(part: Values) -> str:
    """A split that is too large to be read or searched whole."""
    first = "" if part["ended"] else "first "
    if part["texts"] < part["of"]:
        return (
            f"near duplicates and runs of words are of {part['texts']:,} of the {first}{part['of']:,} "
            f"texts of {part['split']}, chosen by their hashes"
        )
    return f"only the first {part['of']:,} texts of {part['split']} were read"


def overlaps(values: Values) -> str:
    tokenized = [
        f"the tokenizer was trained on {one['source']}, which has {one['inside']:.0%} of the runs of 5 words "
        f"of {one['split']} (train {one['usual']:.0%})"
        for one in values["tokenizer"]
    ]
    pairs, parts = map(overlap_of_pair, values["pairs"]), map(read_in_part, values["in_part"])
    return "; ".join([*pairs, *tokenized, *parts])


def shared_text(values: Values) -> Sentences:
    reasons = [OVERLAPS[reason["kind"]].format_map(reason) for reason in values["reasons"]]
    return Sentences(
        overlaps(values),
        f"{'; '.join(reasons)}: scores are better than on new text.",
        "Remove the shared texts from train, or split by document or passage, not by line; train the "
        "tokenizer on train alone.",
    )


def same_text(values: Values) -> Sentences:
    worst = values["worst"]
    return Sentences(
        overlaps(values),
        f"The splits hold the same text: what is called {worst['split']} is {SCORE[worst['other']]}.",
        "Take dev and test from texts that are not in train; in attnlab, data.dev_share does.",
    )


def sides(values: Values) -> Sentences:
    return Sentences(
        f"another {values['aspect']}: {' | '.join(', '.join(side) for side in values['sides'])}",
        f"They are not directly comparable: {study_wording.phrase_of(values['reason'])}.",
        COMPARE_ALIKE,
    )


def costs(values: Values) -> str:
    phrases = []
    for run in values["runs"]:
        units = (("parameters", "parameters"), ("flops", "FLOPs"), ("seconds", "s"))
        known = [f"{run[name]:,.0f} {unit}" for name, unit in units if run[name] is not None]
        phrases.append(f"{run['name']}: {', '.join(known) or 'not known'}")
    return "; ".join(phrases)


OF_DATA: Mapping[tuple[str, str], Template] = {
    ("targets", "first_step_empty"): Sentences("the first step has no targets"),
    ("targets", "no_words_or_scores"): Sentences("the model predicts no words, or returns no scores"),
    ("targets", "labels_not_seen"): Sentences("the labels of the first step were not seen"),
    ("targets", "labels_agree"): Sentences("the labels of {texts} texts are those of their rows"),
    ("targets", "labels_differ"): Sentences(
        "{wrong} of {texts} texts have another label in their rows, such as text {example}: {held}, where "
        "the text says {right}",
        "Texts are trained with the labels of other texts.",
        ENCODE_AGAIN,
    ),
    ("targets", "answers_agree"): Sentences(
        "the rows of {questions:,} questions point at their answers, or at none"
    ),
    ("targets", "answers_differ"): lambda values: Sentences(
        f"{values['wrong']:,} answers are not where their rows point, such as "
        f"{answer_phrase(values['example'])}",
        "Other words than the answers are trained.",
        ENCODE_AGAIN,
    ),
    ("targets", "pairs_agree"): Sentences("the second texts of {rows} rows are those of their examples"),
    ("targets", "pairs_differ"): Sentences(
        "{wrong} of {rows} rows have another second text than their example",
        "Texts are trained to find other texts than their own.",
        ENCODE_AGAIN,
    ),
    ("targets", "rival"): lambda values: Sentences(
        f"a model that answers with {SHIFTED[values['shift']]} loses least, by the task's loss",
        "The loss compares each answer with another token than the one to be predicted.",
        "Shift targets in one place only: in the task's prepare, and not again in its loss.",
    ),
    ("targets", "copied"): lambda values: Sentences(
        right_targets(values),
        "Most answers stand in the input: a model that copies it scores well.",
        "Hide more of the chosen tokens (task.mask), or look at the text: does it repeat?",
    ),
    ("targets", "right"): lambda values: Sentences(right_targets(values)),
    ("targets", "first_step_right"): Sentences(
        "the {targets:,} targets of the first step are the right ones"
    ),
    ("targets", "wrong"): taught_wrong,
    ("visible_targets", "ahead"): Sentences(
        AHEAD,
        VISIBLE,
        "Mark as source only tokens before the first target, and use a causal mask for the rest.",
    ),
    ("visible_targets", "not_ahead"): Sentences(AHEAD),
    ("visible_targets", "at_their_place"): Sentences(
        AT_THEIR_PLACE,
        VISIBLE,
        "Replace the chosen tokens in the ids that the model reads, not in a copy.",
    ),
    ("visible_targets", "hidden"): Sentences(AT_THEIR_PLACE),
    ("visible_targets", "in_source"): Sentences(
        IN_SOURCE, VISIBLE, "Give the encoder the text with its holes, not the whole."
    ),
    ("visible_targets", "not_in_source"): Sentences(IN_SOURCE),
    ("answers", "no_answers"): Sentences("the task has no answers in a passage"),
    ("answers", "misplaced"): lambda values: Sentences(
        f"{values['wrong']:,} answers are not where they should be, such as "
        f"{answer_phrase(values['example'])}",
        "Other words than the answers are taught and scored.",
        "Give starts in characters of the passage as it is (not bytes, not of a cleaned text); remove the "
        "cached rows, which are then made again.",
    ),
    ("answers", "in_place"): lambda values: Sentences(splits_of_answers(values)),
    ("answers", "lost"): lambda values: Sentences(
        splits_of_answers(values),
        "No model can give these answers: they count as wrong, and are trained as no answer.",
        "Raise data.length or the overlap of data.encoding, so that a window holds them, or "
        "task.longest_answer.",
    ),
    ("truncation", "little"): lambda values: Sentences(splits_cut(values)),
    ("truncation", "much"): lambda values: Sentences(
        splits_cut(values),
        "What is cut off is neither trained on nor scored: scores are of the rest of each text.",
        f"Raise data.length and model.length (the longest text has {values['longest']:,} tokens), or take "
        "text in smaller units; a language model may split long ones (data.encoding = document(long=split)).",
    ),
    ("unknown_words", "knows_all"): Sentences("the tokenizer has a token for everything"),
    ("unknown_words", "few"): lambda values: Sentences(splits_unknown(values)),
    ("unknown_words", "many"): lambda values: Sentences(
        splits_unknown(values),
        "All these words are one and the same token: the model cannot tell them apart.",
        "Begin from a model whose tokenizer was trained on such text; without a start, raise the vocabulary "
        "of data.tokenizer, or use bpe, which cuts unknown words into known pieces.",
    ),
    ("contamination", "one_split"): Sentences("there is no split but train"),
    ("contamination", "one_set"): Sentences("fewer than two data sets have rows with text or input_ids"),
    ("contamination", "same"): same_text,
    ("contamination", "shared"): shared_text,
    ("contamination", "apart"): lambda values: Sentences(overlaps(values)),
    ("query_duplicates", "no_pairs"): Sentences("the task is not about finding one text by another"),
    ("query_duplicates", "pictures"): Sentences("queries are pictures, which repeat no words of a text"),
    ("query_duplicates", "few"): Sentences(QUERIES),
    ("query_duplicates", "many"): Sentences(
        QUERIES,
        "Such queries are found by their words alone: recall on others will be lower.",
        "Leave them out of the queries, or take them out of the passages.",
    ),
    ("examples", "no_texts"): Sentences("the texts of the predictions are not given"),
    ("examples", "unsteady"): Sentences(
        "{texts:,} texts have two predictions",
        "The same text gets different predictions: dropout is on, or the rest of the batch matters.",
        "Predict in evaluation mode (no dropout), and look at padding and batch statistics.",
    ),
    ("examples", "conflicts"): Sentences(
        f"{ROWS}, such as “{{example}}”",
        "No model can be right on both: at the most {best:.1%} of these rows.",
        "Look which label is right, and whether something that decides it is missing from the text.",
    ),
    ("examples", "repeated"): Sentences(
        ROWS,
        "There are {texts:,} different texts: intervals over {n:,} rows are too narrow.",
        "Leave out repeated rows, and look whether the same texts were trained on.",
    ),
    ("examples", "different"): Sentences(ROWS),
    ("comparability", "not_recorded"): Sentences(
        "a run did not record its {aspect}",
        "Whether it is the same is not known.",
        "Train it with this version, which records it.",
    ),
    ("comparability", "differs"): sides,
    ("comparability", "same"): Sentences("the same {aspect}"),
    ("comparability", "costs"): lambda values: Sentences(costs(values)),
    ("comparability", "costs_unknown"): lambda values: Sentences(
        costs(values),
        "Parameters, FLOPs or time of a run are not known: a gain may be one of size.",
        "Let each run finish: it then records what it took.",
    ),
}
