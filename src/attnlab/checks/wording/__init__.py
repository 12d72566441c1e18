"""What findings say in English: found, meaning and fix, made of a check's name, a kind and values.

Nothing is decided here and nothing here is read back. It imports `config` alone, so that whoever holds a
finding can say it, without torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attnlab.checks.wording.of_data import OF_DATA
from attnlab.checks.wording.of_models import OF_MODELS
from attnlab.checks.wording.of_pictures import OF_PICTURES
from attnlab.checks.wording.of_processes import OF_PROCESSES
from attnlab.checks.wording.of_rows import OF_ROWS, not_compared
from attnlab.checks.wording.of_scores import CURE, NOT_LEARNED, OF_SCORES, SCORED_AS
from attnlab.checks.wording.of_texts import OF_TEXTS
from attnlab.checks.wording.template import Sentences, Template
from attnlab.config.wording import count_of, in_words, listing, with_true_minus

TOLD = "told"
"""The kind of a finding whose values are its own text: that of a person's own check, or of a file written
before findings had kinds."""

RAISED = Sentences(
    "the check could not be made: {error} ({place})",
    "What it asks is not known of this run.",
    "If that is code of your own, let it accept what the check gives it; if it is attnlab's, it is a bug of "
    "the check: please report it with the config.",
)
"""Of any check in which something raised an error."""

NOT_APPLICABLE: Mapping[str, str] = {
    "no_words": "the task predicts no words",
    "not_scored": "dev is not scored in training",
    "no_classes": "the model does not classify",
    "one_label": "all examples have the same label",
    "learned_weights": "the model begins with learned weights",
    "too_early": "not checked before step {first}",
    "no_targets": "the first batch has no targets",
    "too_large": "the model has {parameters:,} parameters, and only up to {most:,} are copied in float64",
    "cannot_be_asked": "{check} cannot be asked here: {error}",
    "no_scores": "the model returns no scores",
    "not_run": "{reason}",
}
"""Why a check does not apply, in words that several of them share."""

TEMPLATES: Mapping[tuple[str, str], Template] = {
    ("", "raised"): RAISED,
    **OF_MODELS,
    **OF_DATA,
    **OF_SCORES,
    **OF_ROWS,
    **OF_TEXTS,
    **OF_PROCESSES,
    **OF_PICTURES,
}

MISSING = (KeyError, ValueError, TypeError, IndexError, AttributeError)
"""What a sentence raises whose values are not those that it needs, as in a file that was edited."""


def sentences(
    check: str,
    kind: str,
    values: Mapping[str, Any],
    *,
    number: float | None = None,
    layers: tuple[int, int] | None = None,
    so_far: bool = False,
) -> Sentences:
    """What was found, what it means and what to do, in words.

    `layers` are those that were asked, of how many; `so_far` says that more training may still mend it.
    """
    words = _plain(check, kind, with_true_minus({**values, "check": check, "number": number}))
    found, meaning = words.found, words.meaning
    if "asked_mask" in values:
        source = "decoder, random source; " if values.get("asked_source") else ""
        found += f" ({source}mask {values['asked_mask']}, random token ids)"
    if layers is not None:
        found += f" (in {layers[0]} of {layers[1]:,} layers)"
    return Sentences(found, f"So far: {meaning}" if so_far else meaning, words.fix)


def _plain(check: str, kind: str, values: Mapping[str, Any]) -> Sentences:
    if "found" in values:
        return Sentences(*(str(values.get(name, "")) for name in ("found", "meaning", "fix")))
    template = TEMPLATES.get((check, kind), TEMPLATES.get(("", kind)))
    shared = Sentences(NOT_APPLICABLE[kind]) if template is None and kind in NOT_APPLICABLE else template
    try:
        if shared is not None:
            return shared.filled(values) if isinstance(shared, Sentences) else shared(values)
    except MISSING:
        pass
    own = {name: value for name, value in values.items() if name not in ("check", "number")}
    return Sentences(": ".join(filter(None, [kind, listing(own)])))


def collapse_sentence(kind: str, found: str, fix: str, *, one_class: bool) -> str:
    """That predictions came to what the most frequent label gives, with what to try."""
    if kind == "never_answering":
        return f"{SCORED_AS[kind]}: {found}. {fix}"
    collapsed = "The model has collapsed to one class. " if one_class else ""
    return f"{collapsed}{SCORED_AS[kind]}: {found}. {CURE}"


def words_better_sentence(found: str, fix: str) -> str:
    """That words alone are a better model, with what to try."""
    return f"Worse than a bag of words: {found}. {fix}"


def not_learned_sentence(values: Mapping[str, Any], found: str, fix: str) -> str:
    """That a language model knows no more than counts do, with what to try."""
    try:
        return f"{NOT_LEARNED.format_map(values)}. {fix}"
    except MISSING:
        return f"{found}. {fix}"


def not_compared_sentence(values: Mapping[str, Any]) -> str:
    """Which rows could not be compared, and why; nothing where all could."""
    phrase = not_compared(values) if values.get("unread") else ""
    return f"{phrase[:1].upper()}{phrase[1:]}." if phrase else ""


def finding_sentence(check: str, words: Sentences, *, failed: bool) -> str:
    """A finding that is not sound, in one line."""
    verb = "failed" if failed else "warns"
    return f"The check {check} {verb}: {words.found}. {words.meaning} {words.fix}".strip()


def in_a_row(words: Sentences) -> str:
    """All of a finding, as one cell of a table."""
    return f"{words.found}. {words.meaning} {words.fix}".strip(". ")


def soundness_phrase(sound: bool | None) -> str:
    """What several checks come to; None where nothing was checked."""
    if sound is None:
        return "Nothing was checked"
    return "Sound, as far as was checked" if sound else "Invalid"


MOMENTS = {
    "config": "of the config",
    "before": "before training",
    "during": "during training",
    "evaluation": "at evaluation",
    "after": "after training",
}


def moments_phrase(moments: Sequence[tuple[str, int | None]], seed: int | None = None) -> str:
    """When a check was made: before training; at evaluation, steps 40 and 80. `seed` is that of the run of
    the same arm in which it was made before training, where it was another."""
    phrases = []
    for when in dict.fromkeys(when for when, _ in moments):
        steps = [f"{step:,}" for moment, step in moments if moment == when and step]
        named = f", step{'s' * (len(steps) > 1)} {in_words(steps)}" if steps else ""
        asked = f", in the run of seed {seed}" if seed is not None and when == "before" else ""
        phrases.append(f"{MOMENTS.get(when, when)}{named}{asked}")
    return "; ".join(phrases)


OUTCOMES = {
    "fail": ("fails", "fail"),
    "warn": ("warns", "warn"),
    "pass": ("passes", "pass"),
    "not applicable": ("does not apply", "do not apply"),
}
"""What one check does, and what several do; the worst first."""


def counts_phrase(outcomes: Mapping[Any, int]) -> str:
    """How many checks came to each outcome, the worst first."""
    counts = {str(outcome): count for outcome, count in outcomes.items()}
    known = [(counts[outcome], words) for outcome, words in OUTCOMES.items() if counts.get(outcome)]
    nouns = iter([count_of(count, "check") for count, _ in known[:1]])  # of the first alone
    phrases = [f"{next(nouns, count)} {words[count != 1]}" for count, words in known]
    return ", ".join(phrases) or "no check was made"
