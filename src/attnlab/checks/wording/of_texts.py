"""What checks of written text say."""

from __future__ import annotations

from collections.abc import Mapping

from attnlab.checks.wording.template import Sentences, Template, Values
from attnlab.config.wording import count_of

DETOKENISE = (
    "Score text as a reader sees it: join subwords, attach punctuation, keep capitals, on both sides; "
    "sacrebleu separates words itself."
)
LINES = "Write one line for each example, empty ones too, in the order of the references."
NAMES = {"texts": "written texts", "references": "references"}
SHARES = {
    "empty": "empty",
    "cut": "cut by the length limit",
    "copied": "copies of their source",
    "loops": "with loops",
    "one_text": "one and the same",
}


def wrote(meaning: str = "", fix: str = "") -> Template:
    """What is known of the texts, the shares that the references have taken off."""

    def sentences(values: Values) -> Sentences:
        known = [(values["shares"][kind], name) for kind, name in SHARES.items() if kind in values["shares"]]
        shares = [f"{share:.0%} {name}" for share, name in known]
        return Sentences(f"of {count_of(values['n'], 'written text')} {', '.join(shares)}", meaning, fix)

    return sentences


def sided(found: str, meaning: str, fix: str = DETOKENISE) -> Template:
    """Of one side: {who} is that side, {whom} the other."""

    def sentences(values: Values) -> Sentences:
        who, whom = NAMES[values["side"]], NAMES["references" if values["side"] == "texts" else "texts"]
        return Sentences(found, meaning, fix).filled({**values, "who": who, "whom": whom})

    return sentences


SEEN = (
    "{share:.1%} of {n:,} references are targets of training rows; {recurring:.1%} of those recur in training"
)
WRITE = "Write each text from its source alone, token by token, and score that."
OF_TEXTS: Mapping[tuple[str, str], Template] = {
    ("decoded_texts", "nothing_written"): Sentences("no texts were written and scored"),
    ("decoded_texts", "none_ended"): Sentences("no text ended within 24 tokens"),
    ("decoded_texts", "own"): Sentences(
        "{n} texts written again without a cache, {below} score below greedy ones"
    ),
    ("decoded_texts", "other_text"): Sentences(
        "text {row} is not that of the tokens that were written",
        "What is scored is not what the model wrote.",
        "Score the decoded tokens, and nothing else.",
    ),
    ("decoded_texts", "teacher_forced"): Sentences(
        "{below} of {n} texts score below greedy ones, by up to {worst:.3g} nats, and are the most likely "
        "tokens after the right ones",
        "The scores are of guesses under teacher forcing, not of texts that the model writes.",
        WRITE,
    ),
    ("decoded_texts", "not_greedy"): Sentences(
        "{below} of {n} texts are less likely than greedy ones, by up to {worst:.3g} nats per token",
        "The texts that are scored are not those that greedy decoding writes.",
        WRITE,
    ),
    ("decoded_texts", "below_greedy"): Sentences(
        "{below} of {n} texts of a beam of {beam} score below greedy ones, by up to {worst:.3g}",
        "By its own score the beam finds worse texts than a search without one: it loses or mixes up beams.",
        "Compare with training.generate_beam = 1; look at the check decoding.",
    ),
    ("seen_references", "no_references"): Sentences("no target texts of train and dev to compare"),
    ("seen_references", "as_in_training"): Sentences(SEEN),
    ("seen_references", "seen"): Sentences(
        SEEN,
        "Texts that are to be written were learned: the score is in part one of recall, whatever the source.",
        "Keep rows of one target in one split (data.corpus.group), or score the others apart.",
    ),
    ("text_pairs", "nothing_written"): Sentences("no texts were written and scored"),
    ("text_pairs", "alike"): Sentences("texts and references have the same form, n = {n:,}"),
    ("text_pairs", "pieces"): sided(
        "{share:.1%} of the {who} have marks of subwords (@@, ▁, ##), {other:.1%} of the {whom}",
        "Subwords are scored as words: BLEU, chrF and ROUGE are not those of the text.",
    ),
    ("text_pairs", "escaped"): sided(
        "{share:.1%} of the {who} have escaped signs such as &apos;, {other:.1%} of the {whom}",
        "Signs that a reader never sees are scored as words.",
        "Undo the escapes of the tokenizer (html.unescape), on both sides.",
    ),
    ("text_pairs", "tokenised"): sided(
        "{share:.0%} of the {who} have full stops or commas parted from words, {other:.0%} of the {whom}",
        "One side is tokenised and the other is not: words with apostrophes, hyphens and numbers do not "
        "match, and no text is exact.",
    ),
    ("text_pairs", "both_tokenised"): Sentences(
        "{share:.0%} of texts and references end in a full stop parted from its word",
        "Both sides are tokenised: BLEU is that of this tokenisation, and is not comparable with any other, "
        "whatever the signature says.",
        DETOKENISE,
    ),
    ("text_pairs", "lower_case"): sided(
        "{share:.1%} of the letters of the {who} are capitals, {other:.1%} of those of the {whom}",
        "One side is in lower case: every word with a capital counts as wrong.",
    ),
    ("text_pairs", "unread_by_rouge"): Sentences(
        "{share:.0%} of the letters of the references are none that ROUGE reads (a–z, 0–9)",
        "ROUGE is of the rest alone, which may be nothing.",
        "Go by chrF, which reads every script, and by BLEU where words are separated by spaces.",
    ),
    ("text_pairs", "identical"): Sentences(
        "all {n:,} lines are equal to their references",
        "A file compared with itself, or with a copy, scores 100.",
        "Look whether the right file was given for the written texts.",
    ),
    ("text_pairs", "shifted"): Sentences(
        "lines share {share:.0%} of their words with the reference {side} their own, and {other:.0%} with it",
        "The files do not begin at the same example: a header, an empty line or a lost one moved the lines.",
        LINES,
    ),
    ("text_pairs", "as_long_as_references"): Sentences(
        "{share:.0%} of the texts have exactly as many words as their reference, and {other:.0%} are right",
        "A model that writes by itself does not know how long the reference is: these look like its guesses "
        "for each word after the right ones (teacher forcing), which score far higher than what it writes.",
        WRITE,
    ),
    ("outputs", "nothing_written"): Sentences("no texts were written and scored"),
    ("outputs", "own_texts"): wrote(),
    ("outputs", "empty"): wrote(
        "Many texts are empty: they count as wrong, and shorten the text that BLEU's penalty is of.",
        "Look at the stop token, the length penalty of the beam, and for empty targets in the training rows.",
    ),
    ("outputs", "cut"): wrote(
        "Many texts were cut: the model had not ended them, and their ends are not scored.",
        "Train on, since a model that never learned to stop writes up to the limit; or raise the limit "
        "(model.length).",
    ),
    ("outputs", "copied"): wrote(
        "The model repeats its source in place of writing a target.",
        "Look for pairs whose target is their source in the training rows, and train on.",
    ),
    ("outputs", "loops"): wrote(
        "The model repeats the same words again and again.",
        "Train on, or write with a beam; look whether training targets repeat.",
    ),
    ("outputs", "one_text"): wrote(
        "The model writes the same text for most sources: it does not read them.",
        "Train on with another learning rate; see the check inputs_matter.",
    ),
}
