"""The words of checks that judge what a model scored, predicted and wrote."""

from __future__ import annotations

from collections.abc import Mapping

from attnlab.checks.wording.template import Sentences, Template, Values

SCORED_AS: Mapping[str, str] = {
    "not_better": "The model is not better than always predicting the most frequent label",
    "indistinguishable": "The model cannot be distinguished from always predicting the most frequent label",
    "not_better_than_mean": "The model is not better than always predicting the mean",
    "most_frequent_tag": "The model is not better than giving every word the most frequent tag",
    "never_answering": "The model is not better than never answering",
}
"""What a person is told first where the check `majority` failed in this way."""
NOT_LEARNED = (
    "Not trained long enough: loss {loss:.3f} is not below {unigram:.3f}, what the word frequencies of the "
    "training text give"
)
"""The same of the check `learned`."""
CURE = (
    "Usual causes are too high a learning rate (`attnlab adapt … --rates usual` tries several) and too few "
    "steps (training.budget.epochs)."
)
ACCURACY = (
    "accuracy {accuracy:.1%} ({low:.1%} to {high:.1%}) of {n:,}; always predicting “{label}” gives "
    "{share:.1%}"
)
LABELS_BY_WORDS = (
    "from words alone {accuracy:.1%} of {n:,} training rows are right, half by half; the most frequent class "
    "gives {share:.1%}"
)
WORDS_FIX = (
    "Train longer or at another learning rate, begin from a pretrained model (attnlab adapt), or use the "
    "linear model."
)
LEARNED_FIX = (
    "Train longer (training.budget) or at another learning rate; where the training loss is far lower, give "
    "more text."
)
LABELS_FIX = (
    "Check that the input reaches the model and that the loss falls; judge on more examples, or by a measure "
    "that weighs classes equally."
)
R2 = "R² {number:.3f} ({low:.3f} to {high:.3f}) of {n:,}; that of the mean is 0"
NUMBERS_FIX = (
    "Check that the input reaches the model and that the loss falls; train longer, or judge on more examples."
)
TAGS = (
    "tag accuracy {accuracy:.1%} ({low:.1%} to {high:.1%}) of {words:,} words in {texts:,} texts; the most "
    "frequent tag gives {share:.1%}"
)
ENTITIES = (
    "{predicted:,} entities are predicted where {there:,} are; {invalid:,} tags continue what was not begun"
)
TAGS_FIX = "Train longer or at another learning rate; check that each word has its own tag."
SPANS = (
    "span F1 {f1:.1%} of {n:,} questions; never answering gives {silent:.1%} (difference {number:+.1%}, "
    "{low:+.1%} to {high:+.1%})"
)
ANSWERED = "{number:.0%} of {n:,} questions are answered; {answerable:.0%} have an answer"
ANSWERS_FIX = "Train on more questions, longer, or at another learning rate; see `attnlab evaluate RUN`."
TAU = "F1 {f1:.4f}; with τ chosen on the same questions it would be {tuned:.4f} ({number:+.4f})"
HONESTY = (
    "parallel loss {parallel:.3f}, token by token {token_by_token:.3f} nats: a difference of "
    "{difference:.4f} ({low:.4f} to {high:.4f}) over {texts} texts, at most {largest:.2g} at one of "
    "{targets} targets"
)
NOT_CROSS_ENTROPY = (
    "A reported loss is not the cross-entropy of its targets: it cannot be compared with any other.",
    "Report plain sums of −log p divided once by the number of targets, in eval mode and the declared "
    "precision; keep smoothing and z-loss for the gradient; restart positions in each text.",
)
LOSS_CAUSES: Mapping[str, tuple[str, str]] = {
    "dropout": ("without dropout they agree", "Evaluate in eval mode: call model.eval() before scoring."),
    "smoothing": (
        "label smoothing of {share:.3g} explains the difference",
        "Keep smoothing for the gradient; report the plain cross-entropy.",
    ),
    "z_loss": (
        "{share:.3g}·log²Z (z-loss) explains the difference",
        "Keep z-loss for the gradient; report the plain cross-entropy.",
    ),
    "mean_of_means": (
        "it is the mean of the batches' means",
        "Sum the losses of all batches and divide once by the number of targets.",
    ),
    "mean_of_texts": (
        "it is the mean of the texts' means",
        "Sum the losses of all texts and divide once by the number of targets.",
    ),
    "exponentials": (
        "it is a mean of exponentials",
        "Take the exponential of the mean loss, not the mean of exponentials.",
    ),
    "bits": ("it is in bits, not in nats", "Report nats, or name the unit."),
    "divisor": (
        "the sum is divided by another count than that of the targets",
        "Divide by the number of targets: not by rows, places, batches or texts, nor by one more or less.",
    ),
    "precision": (
        "without autocast they agree",
        "Compute the loss in the precision that training.precision declares.",
    ),
    "positions": (
        "with positions that restart in each text they agree",
        "Restart positions in each packed text.",
    ),
    "documents": (
        "when packed texts do not see each other they agree",
        "Give the batch's documents to the model, so that packed texts are kept apart.",
    ),
}
"""What explains a loss that is not the recomputed one, and what to do."""
REPORTED: Mapping[str, str] = {
    "target": "the loss of a target in its batch",
    "target_count": "the number of targets in the loss of a target in its batch",
    "targets": "the evaluation's number of targets",
    "loss": "the evaluation's loss",
    "sum": "the evaluation's loss, the sum of its parts",
    "perplexity": "the logarithm of the evaluation's perplexity",
    "text_nats": "the nats of text {text}",
    "text_targets": "the targets of text {text}",
    "texts": "the loss over all texts",
    "texts_perplexity": "the logarithm of the perplexity over all texts",
    "step": "the loss of a training step",
    "reported_perplexity": "the logarithm of the reported perplexity",
    "reported_loss": "the reported loss",
    "alone": "nats per target of text {text}",
    "token_alone": "the nats of token {text}, after what stands before it alone,",
    "probabilities": "the probability of a class of text {text}",
    "chances": "the probability of a label of text {text}",
    "predicted_number": "the number predicted for text {text}",
    "margin": "the margin of the answer to question {text} over none",
    "char_start": "the first character of the answer to question {text}",
    "char_end": "the end of the answer to question {text}",
}
"""The number that is reported, by the way that it was reported."""
SUM_ONCE = "Sum nats and targets over all batches, and divide once."
COUNTED = "{targets:,.0f} targets, as the rows have"
SAMPLED = (
    "{n} samples: {repeated:.0%} of 4-grams repeated (real {usual_repeated:.0%}), {variety:.0%} of tokens "
    "distinct ({usual_variety:.0%}), {stopped:.0%} stopped ({usual_stopped:.0%} end within {length} tokens)"
)
SAMPLES_FIX = (
    "Train longer, or sample with a higher temperature; if that changes nothing, look at the data: does it "
    "repeat, do texts end with the stop token?"
)
SPEED = "{tokens_per_second:,.0f} tokens/s over {steps} steps, {number:.0%} of peak"


def misnamed(why: str) -> tuple[str, str]:
    return f"The scores are not what their names say: {why}.", SUM_ONCE


def renamed(values: Values) -> Sentences:
    pairs = ", ".join(f"“{said}” for “{label}”" for said, label in values["names"])
    return Sentences(
        f"{ACCURACY.format_map(values)}; {values['foreign']:.0%} of the predictions are no label at all "
        f"({pairs})",
        "Labels and predictions are written in different names; with the names matched, "
        f"{values['matched']:.1%} are right.",
        "Write both with the same names (spelling, capitals, numbers or words), and judge again.",
    )


def relabelled(values: Values) -> Sentences:
    pairs = ", ".join(f"“{label}” → “{said}”" for label, said in values["names"])
    return Sentences(
        f"{ACCURACY.format_map(values)}; with labels renamed ({pairs}) {values['matched']:.1%} are right",
        "The model has learned the task, with labels swapped or permuted: it tells the classes apart and "
        "calls them by other names.",
        "Compare the order of the classes in training with that of the predictions (label to index and "
        "back), and the label column of the training rows.",
    )


def classes_phrase(values: Values) -> str:
    shares = ", ".join(f"“{name}” {share:.0%}" for name, share in values["shares"])
    return f"{values['predicted']} of {values['classes']} classes are predicted: {shares}"


def never_predicted(values: Values) -> Sentences:
    never = ", ".join(f"“{name}” ({share:.0%} of the labels)" for name, share in values["never"])
    what = classes_phrase(values)
    return Sentences(
        f"{what}; never {never}" if never else what,
        "The model knows {predicted} classes; {due} are frequent enough to be learned.".format_map(values),
        "Look at the classes that are never predicted: are their labels read, are they weighed?",
    )


def honest_meaning(values: Values) -> str:
    """What a difference of parallel and token-by-token loss means, without a full stop."""
    if values["sound"]:
        return "Equal at every token: in these texts no score depends on tokens that come later"
    if values["means_agree"]:
        return (
            "The means agree, but single tokens differ by up to {largest:.2g} nats: scores depend on tokens "
            "that come later".format_map(values)
        )
    way = "low" if values["difference"] > 0 else "high"
    return (
        f"The parallel loss is {abs(values['difference']):.3g} nats per token too {way}: scores depend on "
        "tokens that come later, which are not there when text is generated"
    )


def dishonest(values: Values) -> Sentences:
    return Sentences(
        HONESTY.format_map(values),
        f"{honest_meaning(values)}.",
        'Look at the mask (model.masking = "-inf"), at what is marked as source, and at the check '
        "`dependency`.",
    )


OTHER_PREDICTIONS = ("probabilities", "chances", "predicted_number", "margin", "char_start", "char_end")
OTHER_PREDICTION = (
    "What is predicted for a text in its batch is not what the model says of that text alone.",
    "Look at what padding and the other rows of a batch change, and at the unit or order in which scores are "
    "read.",
)


def misreported(values: Values) -> Sentences:
    where = REPORTED[values["where"]].format_map(values)
    what = "{reported:.6g}, recomputed {recomputed:.6g}".format_map(values)
    cause = LOSS_CAUSES.get(values.get("cause", ""))
    if values["where"] in OTHER_PREDICTIONS:
        return Sentences(f"{where} {what}", *OTHER_PREDICTION)
    if cause is None:
        return Sentences(f"{where} {what}", *NOT_CROSS_ENTROPY)
    explained, fix = (text.format_map(values) for text in cause)
    return Sentences(f"{where} {what}; {explained}", NOT_CROSS_ENTROPY[0], fix)


def miscounted(values: Values) -> Sentences:
    least, most = values["least"], values["most"]
    bounds = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    return Sentences(
        f"{values['targets']:,.0f} targets; the rows have {bounds}", *misnamed("some count twice or never")
    )


def inputs_phrase(values: Values) -> str:
    losses = ", ".join(f"{loss:.3f} {name}" for name, loss in values["losses"].items())
    return f"loss {values['own']:.3f} on real inputs, {losses} ({values['targets']:,} targets)"


def inputs_ignored(values: Values) -> Sentences:
    return Sentences(
        inputs_phrase(values),
        "The model does as well {nearest}: it has learned how often {learned} occur, and not yet what "
        "follows from what it reads.".format_map(values),
        "Train longer; if that changes nothing, look for an input that does not reach the model.",
    )


def learned_phrase(values: Values) -> str:
    """A model's loss compared with those of counting."""
    between = "" if values["low"] is None else ", 95% from {low:+.3f} to {high:+.3f}"
    return (
        "loss {loss:.3f}, word frequencies of the training text (unigram) {unigram:.3f}: {number:+.3f}"
        + between
        + " over {targets:,} targets; pairs of words (bigram) {bigram:.3f}"
    ).format_map(values)


def words_phrase(values: Values) -> str:
    """A model compared with a linear model of words, by the metric that decides."""
    form, metric = ".1%" if values["share"] else ".4g", values["metric"].replace("_", " ")
    scale, unit = (100, " points") if values["share"] else (1, "")
    signed = "+.1f" if values["share"] else "+.4g"
    between = ""
    if values["low"] is not None:
        low, high = (format(scale * values[end], signed) for end in ("low", "high"))
        between = f", 95% from {low} to {high}"
    return (
        f"{metric} {format(values['model'], form)}, a bag of words {format(values['words'], form)}: "
        f"{format(scale * values['number'], signed)}{unit}{between} over {values['n']:,} texts"
    )


OF_SCORES: Mapping[tuple[str, str], Template] = {
    ("bag_of_words", "better"): lambda values: Sentences(
        words_phrase(values), "A linear model of words is better than this model.", WORDS_FIX
    ),
    ("bag_of_words", "not_better"): lambda values: Sentences(words_phrase(values)),
    ("bag_of_words", "belong"): Sentences(LABELS_BY_WORDS),
    ("bag_of_words", "at_chance"): Sentences(
        LABELS_BY_WORDS,
        "The labels may not belong to these texts: their words say nothing of them.",
        "Look at a few rows: was the column sorted, or moved by a row? Where labels depend on the order of "
        "words and not on which they are, all is well.",
    ),
    ("bag_of_words", "alike"): Sentences("fewer than half of {rows:,} texts are different"),
    ("bag_of_words", "not_suspected"): Sentences("asked of single texts with one class each"),
    ("bag_of_words", "no_labels"): Sentences("words alone are no baseline of this task"),
    ("learned", "better"): lambda values: Sentences(learned_phrase(values)),
    ("learned", "not_yet"): lambda values: Sentences(f"not better yet: {learned_phrase(values)}"),
    ("learned", "not_better"): lambda values: Sentences(
        learned_phrase(values), "The model has not learned more than how often words occur.", LEARNED_FIX
    ),
    ("learned", "indistinguishable"): lambda values: Sentences(
        learned_phrase(values),
        "It cannot be distinguished from one that knows only how often words occur (see the interval).",
        LEARNED_FIX,
    ),
    ("majority", "better"): Sentences(ACCURACY),
    ("majority", "renamed"): renamed,
    ("majority", "relabelled"): relabelled,
    ("majority", "too_few"): Sentences(
        ACCURACY, "All are right, but they are too few to rule out luck.", "Evaluate on more examples."
    ),
    ("majority", "opposed"): Sentences(
        f"{ACCURACY}; by chance {{chance:.1%}} would be right",
        "Fewer are right than by chance: predictions and labels are systematically opposed.",
        "Check that each prediction is in the row of its own label, and whether a class means the same in "
        "both.",
    ),
    ("majority", "not_better"): Sentences(
        ACCURACY, "The model is not better than always predicting the most frequent label.", LABELS_FIX
    ),
    ("majority", "indistinguishable"): Sentences(
        ACCURACY,
        "It cannot be distinguished from always predicting the most frequent label (see the interval).",
        LABELS_FIX,
    ),
    ("majority", "one_number"): Sentences("all examples have the same number"),
    ("majority", "better_than_mean"): Sentences(R2),
    ("majority", "not_better_than_mean"): Sentences(
        R2, "The model is not better than always predicting the mean, on these examples.", NUMBERS_FIX
    ),
    ("majority", "worse_than_mean"): Sentences(
        R2,
        "The model is worse than always predicting the mean: the numbers may belong to other rows.",
        NUMBERS_FIX,
    ),
    ("majority", "no_answers"): Sentences("no question has an answer"),
    ("majority", "better_than_silence"): Sentences(SPANS),
    ("majority", "never_answering"): Sentences(
        SPANS, "The model is not better than never answering, on these questions.", ANSWERS_FIX
    ),
    ("majority", "better_than_tag"): Sentences(TAGS),
    ("majority", "most_frequent_tag"): Sentences(
        TAGS, "The model is not better than giving every word the most frequent tag.", TAGS_FIX
    ),
    ("collapse", "one_class"): lambda values: Sentences(
        classes_phrase(values),
        "The model predicts the same class for every input.",
        "Look at the learning rate, and whether the input reaches the head.",
    ),
    ("collapse", "never_predicted"): never_predicted,
    ("collapse", "several"): lambda values: Sentences(classes_phrase(values)),
    ("collapse", "all_answerable"): Sentences("all questions have an answer, or none has"),
    ("collapse", "never_answers"): Sentences(
        ANSWERED,
        "The model never answers: its exact match and F1, {score:.2%}, are those of the baseline.",
        ANSWERS_FIX,
    ),
    ("collapse", "always_answers"): Sentences(
        ANSWERED,
        "The model answers every question: its F1, {score:.2%}, is that of the best spans without τ.",
        ANSWERS_FIX,
    ),
    ("collapse", "answers_some"): Sentences(ANSWERED),
    ("collapse", "nothing_to_find"): Sentences("there are no entities to find"),
    ("collapse", "no_entities"): Sentences(
        ENTITIES, "The model finds nothing: every word is outside.", TAGS_FIX
    ),
    ("collapse", "entities"): Sentences(ENTITIES),
    ("threshold", "no_threshold"): Sentences("nothing is answered by a threshold"),
    ("threshold", "one_question"): Sentences(
        "a single question: there are no others to choose a threshold on"
    ),
    ("threshold", "fixed"): Sentences(f"τ was set to {{threshold:g}}: {TAU}"),
    ("threshold", "apart"): Sentences(f"τ of each of {{folds}} folds is the best of the others: {TAU}"),
    ("threshold", "fitted"): Sentences(
        f"the τ of {{wrong}} of {{folds}} folds is not the best of the other folds: {TAU}",
        "The threshold is fitted to the questions that it is scored on: the F1 is too high.",
        'Choose it on questions apart from those reported: task.threshold = "dev", or a fixed one.',
    ),
    ("honesty", "sees_all"): Sentences("every prediction may depend on the whole text"),
    ("honesty", "equal"): Sentences(HONESTY),
    ("honesty", "differs"): dishonest,
    ("recomputed_loss", "misread"): Sentences("{error}", *NOT_CROSS_ENTROPY),
    ("recomputed_loss", "no_targets"): Sentences("the first batches of dev have no targets"),
    ("recomputed_loss", "leaks"): Sentences(
        "scores depend on later tokens (see `dependency`), padding among them: a text alone has no loss"
    ),
    ("recomputed_loss", "misreported"): misreported,
    ("recomputed_loss", "rounded"): Sentences(
        "target by target, losses in {precision} differ by {number:.2g} nats", *NOT_CROSS_ENTROPY
    ),
    ("recomputed_loss", "agree"): Sentences(
        "{targets} targets of {texts} texts agree to {number:.1g} in float64, {rounded:.1g} nats in "
        "{precision}"
    ),
    ("recomputed_loss", "tokens_agree"): Sentences(
        "{tokens} tokens, each after what stands before it alone, agree to {number:.1g}"
    ),
    ("recomputed_loss", "texts_agree"): Sentences("{texts} texts read alone agree to {number:.1g}"),
    ("denominators", "not_scored"): Sentences("nothing was scored"),
    ("denominators", "no_count"): lambda values: Sentences(
        f"{', '.join(values['scores'])} without the number of targets", *misnamed("no n is given")
    ),
    ("denominators", "miscounted"): miscounted,
    ("denominators", "perplexity"): Sentences(
        "perplexity {perplexity:,.4f}, but e^loss is {usual:,.4f}",
        *misnamed("it is another mean, such as one over batches or sentences"),
    ),
    ("denominators", "bits"): Sentences(
        "{reported:.4f} bits per byte, but nats/ln 2/bytes is {bits:.4f}",
        *misnamed("other bytes were counted than those of the targets' text"),
    ),
    ("denominators", "bytes"): Sentences(
        "the predicted tokens of {texts:,} dev texts stand for {read:,} bytes of text, and {held:,} were "
        "counted",
        "Bits per byte are {ratio:.3f} of what they should be.",
        "Count the bytes of the targets' text alone, not of what is cut off or not predicted.",
    ),
    ("denominators", "targets"): Sentences(COUNTED),
    ("denominators", "targets_perplexity"): Sentences(f"{COUNTED}; perplexity is e^loss"),
    ("denominators", "right"): Sentences(
        f"{COUNTED}; perplexity is e^loss; {{held:,}} bytes, as the text of the predicted tokens of "
        "{texts:,} dev texts has"
    ),
    ("samples", "no_samples"): Sentences("no samples were generated"),
    ("samples", "varied"): Sentences(SAMPLED),
    ("samples", "repeat"): Sentences(SAMPLED, "The model repeats itself.", SAMPLES_FIX),
    ("samples", "few_tokens"): Sentences(SAMPLED, "The model has collapsed to a few tokens.", SAMPLES_FIX),
    ("samples", "no_stop"): Sentences(SAMPLED, "The model does not stop where texts do.", SAMPLES_FIX),
    ("samples", "stop_at_once"): Sentences(
        SAMPLED,
        "The model stops at once: {mean:.1f} tokens per text, where real texts have {usual_mean:.0f}.",
        SAMPLES_FIX,
    ),
    ("inputs_matter", "no_batch_targets"): Sentences("the batch has no targets"),
    ("inputs_matter", "not_seen"): Sentences("the model was not seen with ids and labels"),
    ("inputs_matter", "no_loss"): Sentences("the model returns no loss"),
    ("inputs_matter", "ignored"): inputs_ignored,
    ("inputs_matter", "misleading"): lambda values: Sentences(
        inputs_phrase(values),
        "The input matters, and makes the predictions worse: what was learned is not what these labels say.",
        "Look for labels that were swapped or moved against their texts (see `majority`), or a model that "
        "has overfitted.",
    ),
    ("inputs_matter", "used"): lambda values: Sentences(inputs_phrase(values)),
    ("throughput", "no_steps"): Sentences("no step was recorded"),
    ("throughput", "miscounted"): Sentences(
        "{reported:,} tokens are reported for the last {steps} steps, which have {there:,}",
        "Tokens per second, and every budget in tokens, are counted wrongly.",
        "Count tokens that are not padding, once each, batch by batch.",
    ),
    ("throughput", "too_fast"): Sentences(
        SPEED,
        "The machine cannot compute this fast: the time is measured wrongly.",
        "Measure from before a step's first batch to after its update, on a clock that only goes forward.",
    ),
    ("throughput", "plausible"): Sentences(SPEED),
}
