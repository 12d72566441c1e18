"""The words of checks that ask a model: its scores, gradients, weights and files."""

from __future__ import annotations

from collections.abc import Mapping

from attnlab.checks.wording.template import Sentences, Template, Values
from attnlab.config.wording import count_of, first_few

LEAK_FIXES: Mapping[str, str] = {
    "scores": "Apply the mask to the scores before the softmax, as −inf, on every path; in linear attention, "
    "to the keys before they are summed.",
    "embedding": "Let an embedding depend on its own token and position alone: not on the length of the row, "
    "and not on its other tokens.",
    "other": "The mask is not at fault: this module joins positions outside attention. Take norms, means and "
    "other statistics from each position alone (LayerNorm or RMSNorm over the width), and let convolutions "
    "and shifts look back only.",
    "joined": "This module joins positions. Where it attends, compare its mask with torch.ones(T, T).tril(), "
    "whose diagonal is 0, and apply it to the scores as −inf before the softmax; where it does not, take its "
    "statistics from each position alone, and let convolutions and shifts look back only.",
    "between": "What this module is given depends on it already: positions are joined in the code of "
    "{leak[caller]}, before that call. Where it attends, compare its mask with torch.ones(T, T).tril(), "
    "whose diagonal is 0, and apply it to the scores as −inf before the softmax; then look at shifts, means "
    "and norms over positions.",
    "zeroed": 'Set model.masking = "-inf": zeroing weights after the softmax leaves the future in its sum.',
}
MIXING_FIXES: Mapping[str, str] = {
    "scores": "Attention joins texts: give it (batch, tokens, width), and layers of torch batch_first=True.",
    "other": "The mask is not at fault: this layer joins texts. Normalise each position by itself (LayerNorm "
    "or RMSNorm over the width) instead of over the batch (BatchNorm).",
    "joined": "Look for statistics over the batch, as BatchNorm takes them: normalise each position by "
    "itself (LayerNorm or RMSNorm over the width). Then look for axes that are exchanged: layers of torch "
    "attend along the first one unless batch_first=True.",
}
"""Of texts that see each other, by the part in which that begins."""
DECODING_FIXES: Mapping[str, str] = {
    "one text": "Let each new token see the cached keys and values of all tokens before it.",
    "a second text": "Make a new cache for every text; the model must keep nothing between calls.",
    "prompts of unequal length": "Mask padding in the cached path too, and count positions without it "
    "(prompts are padded on the left, sources on the right).",
    "reordered rows": "Let select() choose the same rows of every tensor that a cache holds: keys, values, "
    "coordinates, and the encoder's keys and values.",
    "a long prompt": "Keep as many keys as the mask and the rule can reach, and no others.",
    "greedy search": "Look at how texts that ended leave the batch: rows and tokens must stay together.",
    "beam search": "Look at how beams are matched with rows of the batch after each step.",
    "a whole text in its own precision": "Compare the fast path of generation (weights in other layouts or "
    "types, buffers that grow) with a plain forward of the same text.",
    "sampling": "Apply temperature before the softmax, then top_k, top_p and min_p, and draw anew for each "
    "row and step.",
}
"""By the use of a cache that goes wrong."""
MISWRITES = (
    "Generated text does not follow the model's own probabilities: samples, beams and translations are wrong."
)
UNEVEN = (
    "Gradients depend on how a step is split into batches: short ones count too much.",
    "Sum the losses and divide by all targets of the step; never average means.",
)
NOT_TRAINED = (
    "What is saved is not what was trained and scored.",
    "Hold everything that is learned in parameters, and build the loaded model from its config.",
)
NOT_LOADED = (
    "The model that is loaded from this checkpoint is not the one that was trained.",
    "Save and load by named_parameters(), and refuse what does not fit.",
)
OTHER_TOKENIZER = (
    "The ids that the model was trained on mean other words in this tokenizer.",
    "Restore the tokenizer.json that the run was trained with.",
)
PARTED = (
    "The model has more parameters than its config says, and each copy learns by itself.",
    "Share the module, not its parameter: assigning parameters one by one unties them.",
)
FIRST_LOSS = (
    "the untrained model's loss is {number:.2f}, expected before training {expected:.2f} ({targets:,} "
    "targets)"
)
SAME_IDS = (
    "Different tokens are read as one.",
    "Look up each id in a row of its own: no clamping, no remainder, and a table as large as the vocabulary.",
)
STEP_FAULTS: Mapping[str, tuple[str, str]] = {
    "not_cleared": (
        "gradients of earlier steps were still there ({tensors} tensors)",
        "Call zero_grad after every update, on every parameter.",
    ),
    "skipped": (
        "no weight changed",
        "Take a step of the optimizer for every step that is counted, under no other condition.",
    ),
    "rate": (
        "the learning rate was {rate:.4g}, not {expected:.4g} as the schedule says",
        "Compute the rate from the steps of the whole run, and restore their count when resuming.",
    ),
    "divisor": (
        "the gradient's norm was {norm:.4g}, not {expected:.4g}",
        "Divide the summed loss by all targets of the step, once.",
    ),
    "loss": (
        "its loss was reported as {loss:.6g}, not {expected:.6g}",
        "Report the mean over all targets of the step, without smoothing and z-loss.",
    ),
    "moments_lost": (
        "the optimizer began anew, with none of its running means",
        "Save and restore the optimizer's state with the weights.",
    ),
    "not_clipped": (
        "the gradient was not clipped",
        "Clip the gradient by its norm (training.clip) before the update.",
    ),
    "clipped_twice": (
        "the gradient was clipped twice",
        "Clip the gradient once, after the last backward of the step.",
    ),
    "betas": (
        "the two betas of the optimizer were swapped",
        "Give the optimizer its betas in the order of training.optimizer.betas.",
    ),
    "count": (
        "the optimizer's count of steps is off by one",
        "Count a step before its bias correction, from 1, and save the count.",
    ),
    "decay_everywhere": (
        "weights that should not decay did (norms, biases or embeddings)",
        "Let only matrices decay that are not looked up.",
    ),
    "decay_missing": (
        "no weight decayed",
        "Apply training.optimizer.weight_decay to every matrix that is not looked up.",
    ),
    "decay_unasked": (
        "weights decayed by another amount than the config says, most in {name}",
        "Apply training.optimizer.weight_decay, once, to every matrix that is not looked up.",
    ),
    "differs": (
        "{name} differs by {number:.2g} of its update",
        "Compare the run's loop and optimizer with torch.optim on one batch.",
    ),
}
"""What a step did that its config does not ask for, and what to do."""
OVERFIT = "{targets} targets: loss {first:.2f} → {best:.2f} in {steps} steps; {wanted:.2f} was to be reached"
WEIGHED = (
    "of the {batches} batches of a step, a target of one with {most:,} weighs {ratio:.3g} times one of a "
    "batch with {least:,}"
)
GRADIENTS: Mapping[str, tuple[str, str]] = {
    "vanished": (
        "Gradients have vanished: the model no longer learns.",
        "Look for a saturated softmax, a dead part, or a loss that does not depend on the weights.",
    ),
    "exploded": (
        "A step's gradient exploded: the model may have been thrown back.",
        "Lower the learning rate, warm up longer, or clip (training.clip = 1.0).",
    ),
    "clipped": (
        "Nearly every step is cut to a fraction: the clip, and not the rate, decides how far it goes.",
        "Raise training.clip to the usual norm, or look why gradients are so large.",
    ),
}


def step_words(values: Values, found: str, fix: str) -> Sentences:
    return Sentences(
        f"step {values['step']:,}, done a second time by a plain route, came out otherwise: "
        + found.format_map(values),
        "The run is not the experiment that its config describes.",
        fix,
    )


def replayed(values: Values) -> Sentences:
    steps = ", ".join(f"{step:,}" for step in values["steps"])
    return Sentences(
        f"done a second time by a plain route, steps {steps} gave the same "
        f"{count_of(values['tensors'], 'tensor')}, to {values['number']:.1g} of an update"
    )


def leak_phrase(leak: Values) -> str:
    """Which output depends on what it may not see."""
    key = "future token {key}" if leak["key"] > leak["query"] else "token {key}, which is masked"
    return f"output {{query}} depends on {key} (relative change {{size:.2g}}{{beginning}})".format(
        **leak, beginning=beginning(leak)
    )


def beginning(leak: Values) -> str:
    """Where a leak begins, where that is known."""
    return f", first in {leak['module']}" if leak["module"] else ""


def leaking(values: Values) -> Sentences:
    return Sentences(
        f"{leak_phrase(values['leak'])}; {values['pairs']} pairs leak ({', '.join(values['paths'])})",
        "The loss is computed with its target, or another text, visible: it says nothing about the text that "
        "the model generates.",
        LEAK_FIXES[values["cause"]].format_map(values) + near_sentence(values),
    )


def near_sentence(values: Values) -> str:
    """How far ahead outputs see, where that is a few tokens: so an index that is off by one looks."""
    ahead, open_cause = values.get("ahead", 0), values["cause"] in ("scores", "joined", "between")
    if not open_cause or not 0 < ahead <= values["length"] // 3:
        return ""
    return (
        f" No output sees more than {count_of(ahead, 'token')} ahead, as with an index that is off by one: "
        "tril(diagonal=1), or j <= i + 1."
    )


def mixing(values: Values) -> Sentences:
    leak = values["leak"]
    return Sentences(
        f"in {leak['path']}, output {leak['query']} depends on another text of the batch (relative change "
        f"{leak['size']:.2g}{beginning(leak)})",
        "Texts of a batch see each other, and later tokens of their own: the loss depends on the batch, and "
        "says nothing about a single text.",
        MIXING_FIXES.get(values.get("cause", ""), MIXING_FIXES["joined"]),
    )


def probed_sound(values: Values) -> Sentences:
    dead = "; {} permitted pairs are dead, such as ({}, {})".format(values["dead"], *values["first_dead"]) * (
        values["dead"] > 0
    )
    return Sentences(
        f"{values['pairs']:,} pairs of {values['length']} positions in {', '.join(values['paths'])}, none "
        f"leaks{dead}"
    )


def of_probe(values: Values) -> Sentences:
    """The sentence that a probe of any module prints."""
    if values["mixing"]:
        return Sentences(f"Leak: {mixing(values).found}.")
    if values["leak"] is not None:
        return Sentences(f"Leak: {leak_phrase(values['leak'])}, in {values['leak']['path']}.")
    if not values["sound"]:
        return Sentences(
            f"Scores differ by {values['gap']:.2g} of the largest when later tokens are removed: they depend "
            "on the length of the row."
        )
    return Sentences(f"Sound: {probed_sound(values).found}.")


def cached_use(values: Values) -> Sentences:
    stops = "cached decoding of {use} stops: {error}"
    moved = "scores for {use} differ by {number:.2g} of the largest from those of each text alone, uncached"
    what = (stops if values["error"] else moved).format_map(values)
    return Sentences(what, MISWRITES, DECODING_FIXES[values["use"]])


def sharp(values: Values) -> Sentences:
    divide = "Divide the scores by √K: model.attention = dot(scale=root); or lower"
    return Sentences(
        "{sharp} of {heads} heads attend to few tokens; normalised entropy: median {median:.2f}, lowest "
        "{number:.2f} ({name})".format_map(values),
        "The softmax is close to saturation: most weight is on few keys, and little gradient reaches the "
        "scores.",
        f"{divide if values['dots'] else 'Lower'} the scale of queries and keys, or the learning rate.",
    )


def heads(values: Values) -> Sentences:
    what = "{heads} heads, normalised entropy: median {median:.2f}, lowest {number:.2f}".format_map(values)
    trained = f"; {values['sharp']} attend to few tokens, as trained heads may" * (values["sharp"] > 0)
    return Sentences(what + trained)


def gradient_phrase(values: Values) -> str:
    """Gradient norms of the last steps; nothing where none is known."""
    norms = values["gradients"]
    if norms is None:
        return ""
    cut = "" if norms["clip"] is None else f", {norms['clipped']:.0%} clipped to {norms['clip']:g}"
    text = "gradient norms of the last {steps} steps: median {median:.3g}, largest {largest:.3g}"
    return text.format_map(norms) + cut


def activation_phrase(values: Values) -> str:
    reached = "activations up to {number:.3g} ({name})".format_map(values)
    return "; ".join(filter(None, [gradient_phrase(values), reached]))


def silent(values: Values) -> Sentences:
    more = f", and {values['silent'] - 1} more" * (values["silent"] > 1)
    return Sentences(
        f"{values['name']} gives nothing but zeros{more}",
        "A part of the model is dead: it passes nothing on, and no gradient revives it.",
        "Lower the learning rate, or take an activation that does not die (gelu for relu).",
    )


def moved(values: Values) -> Sentences:
    frozen = values["frozen"]
    rest = f"{count_of(frozen, 'frozen one')} did not" if frozen else "none is frozen"
    return Sentences(f"{count_of(values['tuned'], 'tuned tensor')} moved, {rest}")


def strayed(values: Values) -> Sentences:
    return Sentences(
        f"{count_of(len(values['names']), 'frozen tensor')} moved: {first_few(values['names'])}",
        "More was tuned than is said: counts and comparisons of what was tuned are wrong.",
        "Give the optimizer only what is to be tuned, and load frozen weights before freezing.",
    )


def still(values: Values) -> Sentences:
    return Sentences(
        f"{len(values['names'])} of {values['tuned']} tuned tensors have not moved: "
        f"{first_few(values['names'])}",
        "No gradient reached them, or the optimizer does not have them.",
        "Freeze what is not to be tuned; otherwise look where its gradient is lost.",
    )


def slow(values: Values) -> Sentences:
    """Tensors with how much less than the median they moved; None is by weight decay alone."""

    def how(move: Values) -> str:
        if move["less"] is None:
            return f"{move['name']} (by weight decay alone, {move['relative']:.1%})"
        return f"{move['name']} ({move['less']:,.0f} times less than the median)"

    moves = sorted(how(move) for move in values["moves"])
    return Sentences(
        f"{len(moves)} of {values['tuned']} tuned tensors hardly moved: {first_few(moves)}",
        "They were hardly trained: their values are still nearly the initial ones.",
        "Look where their gradient is lost, and whether all are in the optimizer with the same learning "
        "rate; freeze what is not to be tuned.",
    )


def untied(values: Values) -> Sentences:
    where = "after loading" if values["loaded"] else "in memory"
    names = ", ".join(values["names"])
    return Sentences(f"{where}, what the config ties is not one tensor: token tables ({names})", *PARTED)


def frozen(values: Values) -> Sentences:
    return Sentences(
        f"{len(values['names'])} parameters are frozen, and there is no adapter: "
        f"{first_few(values['names'])}",
        "They keep their first values: a smaller model is trained than the config says.",
        "Let them be trained (requires_grad), or say by an adapter what is tuned.",
    )


MISFITS: Mapping[str, str] = {
    "missing": "missing",
    "left_over": "left over",
    "shape": "of another shape",
    "values": "of other values",
    "not_finite": "not finite",
    "optimizer": "in the optimizer's state alone",
}


def misfitting(values: Values) -> Sentences:
    parts = [f"{MISFITS[what]}: {first_few(names)}" for what, names in values["names"].items()]
    return Sentences("; ".join(parts), *NOT_LOADED)


def not_in_files(values: Values) -> Sentences:
    names = values["names"]
    return Sentences(
        f"{len(names)} tensors are in no file and were drawn at random: {first_few(names)}", *NOT_LOADED
    )


TOKENIZER_DIFFERENCES: Mapping[str, str] = {
    "identity": "the {name} of {where} is {held}, not {own}",
    "fingerprint": "the fingerprint in run.json is {held}, not {own}",
    "rows": "the model has {rows:,} rows for {ids:,} ids",
    "strange": "{error}",
}


def other_tokenizer(values: Values) -> Sentences:
    parts = [
        TOKENIZER_DIFFERENCES[difference["kind"]].format_map(difference)
        for difference in values["differences"]
    ]
    return Sentences("; ".join(parts), *OTHER_TOKENIZER)


def exported(values: Values) -> Sentences:
    """What an export has in common with its run."""
    texts = f"{values['texts']} dev texts" if values["of_dev"] else "fixed texts (its own cannot be read)"
    same = [
        *(["tokens"] if values["tokens"] else []),
        *([f"{count_of(values['classes'], 'class name')}"] if values["classes"] else []),
        *(["the threshold"] if values["threshold"] is not None else []),
        *([f"{values['tuned']:,} tuned numbers"] if values["tuned"] is not None else []),
    ]
    also = f"; so do {', '.join(same)}" * bool(same)
    gap = f"to {values['number']:.1g} of the largest" if values["number"] else "exactly"
    return Sentences(f"read again by {values['by']}, scores of {texts} agree with the run's {gap}{also}")


def lost_tensors(values: Values) -> Sentences:
    return Sentences(
        f"{count_of(len(values['names']), 'tensor')} were lost or are not known there: "
        f"{first_few(values['names'])}",
        OTHER_MODEL,
        "Look at the family's table of names: a tensor that is not found is drawn at random.",
    )


def other_classes(values: Values) -> Sentences:
    own, theirs = (", ".join(values[side]) for side in ("own", "theirs"))
    return Sentences(
        f"its classes are {theirs}, and those of the run {own}",
        "Predictions get the names of other classes.",
        "Give id2label in config.json in the order of the run's labels.",
    )


def other_threshold(values: Values) -> Sentences:
    own, theirs = ("none" if values[side] is None else f"{values[side]:.4g}" for side in ("own", "theirs"))
    return Sentences(
        f"its threshold of answers is {theirs}, and that of the run {own}",
        "Other questions are left without an answer than those that the run was scored for.",
        "Keep null_score_diff_threshold in config.json: it is −threshold.",
    )


def other_special(values: Values) -> Sentences:
    theirs = "none" if values["theirs"] is None else values["theirs"]
    return Sentences(
        f"the id of its {values['role']} token is {theirs}, and that of the run {values['own']}",
        "Padding, stopping or masking go by another token there.",
        "Name every special token of the run in tokenizer_config.json.",
    )


OTHER_MODEL = "Whoever loads the export gets other answers than the run gave and was scored for."
OF_MODELS: Mapping[tuple[str, str], Template] = {
    ("export", "agree"): exported,
    ("export", "cannot_run"): Sentences(
        "what was written cannot be used there: {error}",
        "Nobody can load it.",
        "Look at the error; where the other project's version is at fault, install another one.",
    ),
    ("export", "tensors_lost"): lost_tensors,
    ("export", "numbers_differ"): Sentences(
        "its tensors hold {theirs:,} numbers, and the run tuned {own:,}",
        OTHER_MODEL,
        "Write every tensor of the adapter, and of the head that was trained beside it.",
    ),
    ("export", "tokens_differ"): Sentences(
        "“{text}” is {theirs} there, and {own} in the run",
        "The export reads other tokens than the run was trained on.",
        "Export the run's own tokenizer.json with its post-processor and special tokens.",
    ),
    ("export", "other_class"): Sentences(
        "AutoTokenizer reads “{text}” as {theirs}, and the run as {own}",
        "transformers has one class of tokenizers for all models of this type, whatever the folder says.",
        "Load the tokenizer with transformers.PreTrainedTokenizerFast, which reads it as the run does.",
    ),
    ("export", "special_differs"): other_special,
    ("export", "names_differ"): other_classes,
    ("export", "threshold_differs"): other_threshold,
    ("export", "scores_differ"): Sentences(
        "scores of {texts} texts differ by up to {number:.2g} of the largest from those of the run",
        OTHER_MODEL,
        "Look at what is changed on the way: a merged adapter's scale, the order of the head's rows, the "
        "unit of numbers, scales that are folded into tables.",
    ),
    ("export", "other_answer"): Sentences(
        "{error}",
        "The weights or settings were changed after they were saved.",
        "Export the run again, or restore the files.",
    ),
    ("probe", "probe"): of_probe,
    ("dependency", "cannot_run"): Sentences(
        "the model cannot be run: {error}",
        "Rows that occur in training or generation make it fail: padded, packed, of one token, or long.",
        "Fix the error above; rows of every length up to model.length must be accepted.",
    ),
    ("dependency", "leak"): leaking,
    ("dependency", "mixing"): mixing,
    ("dependency", "length"): Sentences(
        "a score changes by {number:.1g} of the largest when later tokens are removed",
        "The parallel scores, from which the loss is computed, are not those used in generation.",
        "Look for what depends on the length of the row: positions counted from its end, or a mean over all "
        "of it.",
    ),
    ("dependency", "dead"): Sentences(
        "{pairs} permitted pairs are dead; in {path}, output {query} does not depend on input {key}",
        "The mask permits these pairs, but the model does not use them.",
        "Look for weights that underflow (a missing 1/√d), or a mask applied twice.",
    ),
    ("dependency", "sound"): Sentences("{pairs:,} pairs of positions on {paths} paths, none leaks"),
    ("dependency", "probe_sound"): probed_sound,
    ("dependency", "one_answer"): Sentences(
        "the model gives one answer for a whole text, none for its places"
    ),
    ("implementations", "differ"): Sentences(
        "their scores for {text} differ by {number:.2g} of the largest",
        "The same weights are another model in transformers and in attnlab: what is found of one says "
        "nothing of the other.",
        "Look whether either was changed (a mask, an activation, a config.json); use the sound one.",
    ),
    ("implementations", "agree"): Sentences("scores for {text} agree to {number:.1g} of the largest"),
    ("invariance", "differ"): Sentences(
        "scores of texts {arrangement} differ by up to {number:.2g} of the largest from those of each text "
        "alone",
        "A text's loss depends on the batch it is in: results vary with its size and order.",
        "Mask padding before the softmax or sum, count positions without it, and average over targets rather "
        "than rows.",
    ),
    ("invariance", "leaked"): Sentences(
        "scores of texts {arrangement} differ by up to {number:.2g} of the largest from those of each text "
        "alone",
        "Padding on the right is a later token, and outputs depend on later tokens (check dependency).",
        "Mend what dependency names first; then check again.",
    ),
    ("invariance", "agree"): Sentences("{texts} texts in {arrangements} arrangements agree to {number:.1g}"),
    ("invariance", "no_padding"): Sentences("the model takes no attention_mask: texts cannot be padded"),
    ("decoding", "not_written"): Sentences("the model does not generate text from left to right"),
    ("decoding", "no_room"): Sentences("a model that reads {room} tokens cannot continue a text"),
    ("decoding", "later_tokens"): Sentences("scores depend on what comes later, which no cache can hold"),
    ("decoding", "no_cache"): Sentences("the model has no cache (past_key_values)"),
    ("decoding", "use_differs"): cached_use,
    ("decoding", "uses_agree"): Sentences(
        "cached scores agree with each text alone, uncached, to {number:.1g}, in {uses} uses"
    ),
    ("first_loss", "pair"): Sentences("texts that belong together share words, which any weights see"),
    ("first_loss", "no_class_scores"): Sentences("the model returned no scores of classes or words"),
    ("first_loss", "expected"): Sentences(FIRST_LOSS),
    ("first_loss", "too_high"): Sentences(
        FIRST_LOSS,
        "The first scores are too large: the untrained model is confident before it has learned anything.",
        "Look at the initial scale of the embeddings and of the head (model.embedding_scale, the head's "
        "scale).",
    ),
    ("first_loss", "too_low"): Sentences(
        FIRST_LOSS,
        "An untrained model cannot do so well: the target is visible in its input.",
        "Look for targets among the inputs: labels that are not shifted, or a mask that leaks.",
    ),
    ("overfit", "frozen"): Sentences("a part of the model is frozen, and the rest may be too small"),
    ("overfit", "too_deep"): Sentences("more than {most} layers take minutes to learn a batch"),
    ("overfit", "no_target"): Sentences("no target is among the first {rows} × {length} tokens"),
    ("overfit", "learned"): Sentences(OVERFIT),
    ("overfit", "not_learned"): Sentences(
        OVERFIT,
        "The model cannot memorise a few tokens: some part of it does not learn.",
        "Look for a part that no gradient reaches, an input that does not reach the model, or targets that "
        "belong to other inputs.",
    ),
    ("accumulation", "contrasts"): Sentences("each example is compared with the others of its batch"),
    ("accumulation", "one_row"): Sentences("a batch has one row, which cannot be split"),
    ("accumulation", "one_batch"): Sentences("a step is one batch, which is not parted"),
    ("accumulation", "unequal_weights"): Sentences(
        "targets weigh differently within a batch, or no scores were returned"
    ),
    ("accumulation", "differ"): Sentences(
        "in parts of {targets[0]} and {targets[1]} targets the gradient differs by {number:.2g} of the "
        "largest",
        *UNEVEN,
    ),
    ("accumulation", "agree"): Sentences(
        "parts of {targets[0]} and {targets[1]} targets give the gradient of the whole, to {number:.1g}"
    ),
    ("accumulation", "weigh_unequally"): Sentences(WEIGHED, *UNEVEN),
    ("accumulation", "weigh_equally"): Sentences(f"{WEIGHED} ({{targets:,}} targets)"),
    **{
        ("replayed_step", kind): lambda values, words=words: step_words(values, *words)  # type: ignore[misc]
        for kind, words in STEP_FAULTS.items()
    },
    ("allowed_pairs", "no_transformer"): Sentences("the layers' attention weights cannot be asked for"),
    ("allowed_pairs", "other_layers"): Sentences(
        "the model begins with learned weights, or has more than 100 layers: `dependency` asks it"
    ),
    ("allowed_pairs", "unwritten"): Sentences("there is no second definition of {what}"),
    ("allowed_pairs", "agree"): Sentences(
        "{pairs:,} pairs of all layers are joined or kept apart as a second definition of the mask says"
    ),
    ("allowed_pairs", "seen"): Sentences(
        "{name}: token {query} attends to token {key} (weight {number:.2g}), which the mask forbids "
        "({pairs:,} such pairs)",
        "Attention reads what it may not; the residual connection can hide it from outputs.",
        "Compare the mask of this layer with model.mask and model.attention.",
    ),
    ("allowed_pairs", "unseen"): Sentences(
        "{name}: token {query} does not attend to token {key}, which the mask allows ({pairs:,} such pairs)",
        "Attention reads less than the config says; the residual connection can hide it from outputs.",
        "Look for a mask that is applied twice, off by one, or joined with another.",
    ),
    ("token_ids", "distinct"): Sentences("{ids:,} of {vocabulary:,} ids give outputs of their own"),
    ("token_ids", "embeddings"): Sentences(
        "ids {first:,} and {second:,} have equal embeddings ({equal:,} of {ids:,} repeat an earlier one)",
        *SAME_IDS,
    ),
    ("token_ids", "outputs"): Sentences(
        "ids {first:,} and {second:,} give the same output ({equal:,} of {ids:,} repeat an earlier one)",
        *SAME_IDS,
    ),
    ("replayed_step", "no_step"): Sentences("no step was taken"),
    ("replayed_step", "agree"): replayed,
    ("fully_masked", "not_finite"): Sentences(
        "a row of padding makes the scores NaN or infinite",
        "One such row in a batch, and every weight is NaN after the next step.",
        "Let the softmax of a row without keys be zeros, before and after differentiation.",
    ),
    ("fully_masked", "gradient_not_finite"): Sentences(
        "a row of padding makes the gradient of {name} NaN or infinite",
        "One such row in a batch, and every weight is NaN after the next step.",
        "Let the softmax of a row without keys be zeros, before and after differentiation.",
    ),
    ("fully_masked", "adapter_seen"): Sentences(
        "scores and gradients are finite; the adapter's tokens are always seen"
    ),
    ("fully_masked", "sees_padding"): Sentences(
        "attention in {name} gives up to {number:.2g} where nothing may be seen",
        "Positions that may see nothing see padding instead.",
        "Mask padding with −inf and give zeros where no key is left.",
    ),
    ("fully_masked", "zeros"): Sentences("{attentions} attentions give zeros where nothing may be seen"),
    ("attention", "no_soft_heads"): Sentences("no head forms soft weights over enough tokens"),
    ("attention", "sharp"): sharp,
    ("attention", "dead"): Sentences(
        "{dead} of {heads} heads are dead, such as {name}",
        "They add nothing, or the same for every input: the model is effectively smaller than its config.",
        "Look for weights that are zero or were not loaded, or a gradient that does not reach them.",
    ),
    ("attention", "heads"): heads,
    **{
        ("ranges", kind): lambda values, words=words: Sentences(gradient_phrase(values), *words)  # type: ignore[misc]
        for kind, words in GRADIENTS.items()
    },
    ("ranges", "large"): lambda values: Sentences(
        activation_phrase(values),
        "Numbers this large lose their digits, and overflow in half precision.",
        "Lower the learning rate, clip gradients (training.clip), or add norms.",
    ),
    ("ranges", "silent"): silent,
    ("ranges", "in_range"): lambda values: Sentences(activation_phrase(values)),
    ("parameters", "untied"): untied,
    ("parameters", "one_table"): Sentences(
        "sources and targets have vocabularies of their own, and the model reads both with one table",
        "A word of the source and an unrelated word of the target that have the same id share a vector.",
        "Build the encoder with a table of its own: model.source_vocabulary.",
    ),
    ("parameters", "miscounted"): Sentences(
        "there are {total:,} parameters, and the closed form of the parts gives {closed:,}",
        "A part is not in the config, is missing, or does not count itself: comparisons at equal parameters "
        "are wrong.",
        "Look at `attnlab explain counts`; a part of your own declares its sizes in parameter_terms.",
    ),
    ("parameters", "frozen"): frozen,
    ("parameters", "counted"): Sentences("{total:,} parameters, as the closed form gives; ties hold"),
    ("moved", "nothing_to_compare"): Sentences(
        "there is nothing to compare: no step was made, or the start is no longer there"
    ),
    ("moved", "no_step"): Sentences("no step was made"),
    ("moved", "strayed"): strayed,
    ("moved", "none"): Sentences(
        "none of {tuned} tuned tensors has moved",
        "Nothing was learned: the model is the one that training began with.",
        "Look at the learning rate, and at what the optimizer was given.",
    ),
    ("moved", "still"): still,
    ("moved", "slow"): slow,
    ("moved", "moved"): moved,
    ("tensors", "no_checkpoint"): Sentences("there is no checkpoint of this step"),
    ("tensors", "damaged"): Sentences("the checkpoint of step {step} is damaged: {error}", *NOT_LOADED),
    ("tensors", "misfits"): misfitting,
    ("tensors", "not_in_files"): not_in_files,
    ("tensors", "whole"): Sentences("{tensors} tensors of {numbers:,} numbers, all there, none left over"),
    ("reload", "no_checkpoint"): Sentences("there is no complete checkpoint of this step"),
    ("reload", "not_seen"): Sentences("the model was not seen with token ids"),
    ("reload", "error"): Sentences("{error}", *NOT_TRAINED),
    ("reload", "not_loaded"): Sentences("the saved model cannot be loaded: {error}", *NOT_TRAINED),
    ("reload", "shape"): lambda values: Sentences(
        f"scores have the shape {tuple(values['loaded'])}, not {tuple(values['own'])}", *NOT_TRAINED
    ),
    ("reload", "differ"): Sentences("scores differ by up to {number:.3g} after loading", *NOT_TRAINED),
    ("reload", "same"): Sentences("{scores:,} scores are the same after loading, bit for bit"),
    ("tokenizer", "no_folder"): Sentences("there is no run folder"),
    ("tokenizer", "unknown"): Sentences(
        "the tokenizer is not of the library tokenizers, or there is no table"
    ),
    ("tokenizer", "unreadable"): Sentences("tokenizer.json cannot be read: {error}", *OTHER_TOKENIZER),
    ("tokenizer", "other"): other_tokenizer,
    ("tokenizer", "same"): Sentences("{fingerprint}, {ids:,} ids, in file, record and dataset"),
    ("tokenizer", "fits"): Sentences("{ids:,} ids, special tokens as in the config, {rows:,} rows"),
}
