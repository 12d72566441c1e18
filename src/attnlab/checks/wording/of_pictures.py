"""What checks of pictures say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnlab.checks.wording.template import Sentences, Template, Values
from attnlab.config.wording import count_of, in_words

NAMES = {"images": "other images", "texts": "other texts", "both": "both of others"}
FORMS = {
    "resized": "resized to {size} × {size}",
    "converted": "converted to red, green and blue",
    "transparent": "laid on white where they are transparent",
    "animated": "read by their first frame alone",
}


def scores_phrase(values: Values) -> str:
    """The score as it is, and with inputs exchanged."""
    parts = [
        f"{score:.3f} with {NAMES[name]} ({-lost:+.3f}, 95% interval {-high:+.3f} to {-low:+.3f})"
        for name, (score, lost, low, high) in values["exchanged"].items()
    ]
    return f"{values['measure']} {values['own']:.3f} as it is, {', '.join(parts)}; n = {values['n']:,}"


def unused_sentences(values: Values) -> Sentences:
    unused = [name for name in values["unused"] if name != "both"] or ["images", "texts"]
    kinds = in_words([name.removesuffix("s") for name in unused])
    verb = "is" if len(unused) == 1 else "are"
    return Sentences(
        scores_phrase(values),
        f"The {kinds} {verb} not used, as far as these examples show: with those of other examples the "
        "model does as well.",
        "Check that they reach the model (encoding, fusion, pooling), train longer, or leave them out: what "
        "the score is due to is elsewhere.",
    )


def forms_phrase(values: Values) -> str:
    changed = [
        f"{values[name]:,} {phrase.format(**values)}" for name, phrase in FORMS.items() if values[name]
    ]
    whole = count_of(values["pictures"], "picture")
    return f"of {whole} {', '.join(changed)}" if changed else f"{whole}, none changed"


def shared_phrase(shared: Mapping[str, Mapping[str, Any]]) -> str:
    parts = [
        f"{one['same']:,} of {one['pictures']:,} pictures of {name} are in train, and {one['near']:,} look "
        "the same as one"
        for name, one in shared.items()
    ]
    return "; ".join(parts) or "there is no other split"


def shared_sentences(values: Values) -> Sentences:
    return Sentences(
        f"{shared_phrase(values['shared'])}; {forms_phrase(values)}",
        "Scores of pictures that the model was trained on say what was learned by heart.",
        "Take them out of one of the splits, or give pictures of one thing the same group "
        "(data.corpus.group).",
    )


OF_PICTURES: Mapping[tuple[str, str], Template] = {
    ("modalities", "no_images"): Sentences("the model reads no images"),
    ("modalities", "few_examples"): Sentences("there are not two examples to exchange"),
    ("modalities", "unused"): unused_sentences,
    ("modalities", "used"): lambda values: Sentences(scores_phrase(values)),
    ("pictures", "no_images"): Sentences("the model reads no images"),
    ("pictures", "shared"): shared_sentences,
    ("pictures", "apart"): lambda values: Sentences(
        f"{forms_phrase(values)}; {shared_phrase(values['shared'])}"
    ),
}
