"""What studies say in English: reasons, notes, inequalities, comparisons and the verdict.

Everything is made of records; nothing is decided here and nothing here is read back. It imports no record:
whoever holds one can say it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attnlab.checks.wording.of_rows import known_rows, not_compared
from attnlab.config.wording import count_of, in_words, listing, percent
from attnlab.documents.nodes import Number
from attnlab.documents.numbers import decimals, interval_text, value_text
from attnlab.metrics.measures import is_share

Values = Mapping[str, Any]
MISSING = (KeyError, ValueError, TypeError, IndexError, AttributeError)
"""What a sentence raises whose values are not those that it needs, as in a file that was edited."""

# ---------------------------------------------------------------- reasons
RESTORE = "Restore it from a copy, or remove the run's folder and resume the study."
REASONS: Mapping[str, str] = {
    "other_task": "their tasks differ, and so what their losses mean",
    "other_tokenizer": "their tokenizers differ, so that {metric} counts other units; use {instead}",
    "other_dev": "they were judged on different dev examples",
    "other_part": "they were judged on different parts of dev ({parts[0]} and {parts[1]} batches)",
    "unknown_words": "{share:.1%} of the targets are unknown words, whose spelling {metric} does not pay for",
    "other_bytes": "their texts were cut to different lengths ({bytes[0]:,.0f} and {bytes[1]:,.0f} bytes "
    "were scored)",
    "other_examples": "they were trained on different examples",
    "other_order": "they saw their training examples in another order",
    "other_batches": "{seed}they were not fed the same batches (batch {batch} or one before it differs)",
    "other_inputs": "{seed}the same batches became other inputs (batch {batch} or one before it differs)",
    "other_draws": "{seed}dropout drew other numbers (in batch {batch} or before)",
    "other_weights": "{seed}{differ} of the {shared} parameters that both have started from other weights "
    "({first} first)",
    "other_load": "the machine was not as busy for both: they waited {shares[0]:.0%} and {shares[1]:.0%} of "
    "their time for a processor",
    "not_learned": "the loss of {arm}{which}, {loss:.3f}, is not below {unigram:.3f}, what the word "
    "frequencies of its training text give",
    "refused": "{error}",
    "error": "{error}",
    "killed": "The worker was ended by {signal}{memory}. Continue with --resume.",
    "asked_to_stop": "The worker was asked to stop from outside, and saved. Continue with --resume.",
    "exit_code": "The worker ended with exit code {code}; its last output is in {log}.",
    "node_lost": "The nodes that it ran on were lost {times} times without a new checkpoint. Continue with "
    "--resume.",
    "stopped": "stopped before its end; continue with --resume",
    "not_begun": "not begun; continue with --resume",
    "damaged": "left out, since its files are damaged: {error}",
    "no_texts": f"left out, since its files are damaged: {{file}} is gone. {RESTORE}",
}
ALIKE: Mapping[str, str] = {
    "same_weights": "the same initial weights",
    "same_batches": "the same batches in the same order",
    "same_draws": "the same random draws in dropout",
}


def reason_phrase(kind: str, values: Values) -> str:
    """A reason in words that follow "because"."""
    try:
        return _reason(kind, values)
    except MISSING:
        return ": ".join(filter(None, [str(kind), listing(values)]))


def _reason(kind: str, values: Values) -> str:
    if kind in ALIKE:
        return f"seeds {in_words(values['seeds'])} of {values['arm']} have {ALIKE[kind]}"
    if kind == "same_losses":
        seeds = in_words(values["seeds"])
        return f"seeds {seeds} of {values['arm']} have the same loss for every text, to the bit"
    if kind == "checks":
        return f"failed the check {' and '.join(values['failures'])}"
    if kind == "other_machine":
        sides = " and on ".join(in_words(kinds) for kinds in values["kinds"])
        return f"they were not trained on the same kind of machine throughout (on {sides})"
    if kind == "mixed_runs":
        return mixed_phrase(values)
    if kind in UNCONFIRMED:
        return unconfirmed_phrase(kind, values)
    if kind == "without_result":
        each = [
            f"seed {run['seed']}: {reason_phrase(run['why']['kind'], run['why']['values'])}"
            for run in values["missing"]
        ]
        return f"{len(each)} of {values['runs']} runs have no result ({'; '.join(each)})"
    memory = "; the machine may be out of memory" if values.get("signal") == "SIGKILL" else ""
    seed = f"with seed {values['seed']} " if values.get("seed") is not None else ""
    some = kind == "not_learned" and len(values["seeds"]) < values["trained"]
    which = f" ({seeds_phrase(values['seeds'], values['trained'])})" if some else ""
    return REASONS[kind].format_map({**values, "memory": memory, "seed": seed, "which": which})


MIXED = {"text": "text", "tokenizer": "tokenizers", "rows": "rows of the same text"}


def mixed_phrase(values: Values) -> str:
    """Which runs used which version of what they should share; of code with its hash."""
    what = MIXED.get(values["what"])
    groups = [
        in_words(group["runs"]) + ("" if what else f" (hash {group['version']})")
        for group in values["versions"]
    ]
    used = "used" if what is None else "were trained and judged with"
    thing = f"versions of {values['what']}" if what is None else what
    return f"runs {used} different {thing}: {'; '.join(groups)}"


UNCONFIRMED = {
    "unconfirmed_mean": "the mean {metric} of {arm} over its seeds",
    "unconfirmed_difference": "the difference in {metric} between {arm} and {baseline}",
}


def unconfirmed_phrase(kind: str, values: Values) -> str:
    """What was reported, and what a second computation comes to."""
    sides = []
    for value, low, high in (values["claimed"], values["expected"]):
        ends = "" if low is None or math.isnan(low) else f" ({low:.4g} to {high:.4g})"
        sides.append(f"{value:.4g}{ends}")
    return (
        f"{UNCONFIRMED[kind].format_map(values)} is reported as {sides[0]}, and computed a second time from "
        f"the runs it is {sides[1]}"
    )


def reasons_phrase(reasons: Sequence[tuple[str, Values]]) -> str:
    """Several reasons; what seeds of an arm have in common is said of them once."""
    phrases: dict[tuple[str, ...], list[str]] = {}
    for kind, values in reasons:
        if kind in ALIKE and "seeds" in values:
            key = (f"seeds {in_words(values['seeds'])} of {values.get('arm')} have",)
            phrases.setdefault(key, []).append(ALIKE[kind])
        else:
            phrases.setdefault((reason_phrase(kind, values), str(len(phrases))), [])
    return "; ".join(
        dict.fromkeys(f"{key[0]} {in_words(alike)}" if alike else key[0] for key, alike in phrases.items())
    )


# ---------------------------------------------------------------- notes
NOTES: Mapping[str, str] = {
    "same_config": "Arms {arms[0]} and {arms[1]} have the same config.",
    "no_rate": "No learning rate was chosen for {arm}: all its tuning runs failed ({error}). It was trained "
    "with the one of its config.",
    "edge_rate": "The best learning rate of {arm}, {rate:g}, is at the edge of the grid: a better one may "
    "lie outside.",
    "unknown_seeds": "Whether the seeds of {arm} changed anything is not known: a run was begun with a "
    "version that did not record what it was given.",
    "unasked_draws": "{arm} drew random numbers in training though no dropout is set in its config: a part "
    "draws by itself.",
    "fixed_parts": "{fixed} of the {drawn} parameters of {arm} that are drawn at random start from the same "
    "values with every seed ({first} first).",
    "sorted_batches": "The batches of {arm} came in the same order with every seed: data.batching {batching} "
    "sorts them. Other seeds vary the rest.",
    "one_batch": "The batches of {arm} came in the same order with every seed: all training text is one "
    "batch. Other seeds vary the rest.",
    "mixed_runs": "Runs of one study must share their data, tokenizer and code: restore those that it began "
    "with, or remove the folders of the runs that used others, and resume.",
    "idle_seeds": "Seeds that change nothing: look for code with its own generator (torch.manual_seed, a "
    "fixed seed in initialise, in the loader or in dropout) where the run's named streams belong.",
    "unfinished_run": "{folder} is {status} at step {step}.",
    "single_runs": "Single runs: seed noise is unknown; only a study with several seeds can separate it.",
    "texts_not_paired": "Scores of written texts are not compared text by text: {folder}: {why}.",
    "not_learned": "{arm} cannot be told from a guess (accuracy {accuracy:.2f}, a guess {guess:.2f}): train "
    "longer before it is judged.",
    "other_tasks": "Dev loss, perplexity, train loss and bits per byte are each task's own and are not "
    "compared across tasks; hidden words and time are.",
    "told": "{text}",
}


def note_sentence(kind: str, values: Values) -> str:
    """What a reader of a study must know beside its numbers."""
    try:
        return _note(kind, values)
    except MISSING:
        return f"{': '.join(filter(None, [str(kind), listing(values)]))}."


def _note(kind: str, values: Values) -> str:
    if kind == "left_over":
        gone = ", ".join(values["arms"])
        return f"The folder also holds runs of arms that are not in this study any more: {gone}."
    if kind == "by_bytes":
        arms = " and ".join(values["arms"])
        return f"Compared by {values['metric']}, which is comparable across tokenizers: {arms}."
    if kind == "left_out":
        return f"{values['arm']} with seed {values['seed']} is {phrase_of(values['why'])}"
    if kind == "not_compared":
        return f"{values['arm']} is not compared with {values['baseline']}: {reasons_in(values)}."
    if kind == "failed_runs":
        template = "{arm}: {failed} of {runs} runs failed. The rest are a biased sample: they get no verdict."
        return template.format_map(values)
    if kind == "other_meaning":
        return f"{pair_phrase(values)}: {reasons_in(values)}."
    if kind == "unfair":
        return f"Not a fair comparison: {pair_phrase(values)}: {phrase_of(values['why'])}."
    if kind in OF_RUNS:
        return OF_RUNS[kind](values)
    if kind == "known_rows":
        return f"{values['name']}: {known_rows(values['kind'], values['rows'])}"
    if kind == "unread_rows":
        return f"{values['name']}: {not_compared(values)}."
    if kind == "other_seeds":
        seeds = ", ".join(values["seeds"])
        return f"Their seeds differ ({seeds}): another start, and another order of the examples."
    if kind == "unlike_machines":
        kinds = in_words(values["kinds"])
        return (
            f"Seconds and tokens/s of {in_words(values['arms'])} are not compared with the baseline's: the "
            f"runs of a seed were not trained on the same kind of machine throughout ({kinds})."
        )
    if kind == "busy_machine":
        shares = in_words([f"{waited['arm']} {waited['share']:.0%}" for waited in values["arms"]])
        return f"Seconds and tokens/s are not compared: of its time each arm waited for a processor {shares}."
    if kind in FAULTS:
        return FAULTS[kind](values)
    if kind in BUILTIN:
        return BUILTIN[kind](values)
    if kind == "resized":
        sizes = ["its width went from {width[0]} to {width[1]}"] if values["width"] else []
        sizes += ["its feed-forward from {hidden[0]} to {hidden[1]} hidden units"] if values["hidden"] else []
        return (
            f"{{arm}} was resized to the baseline's parameters: {' and '.join(sizes)}, "
            "{parameters[0]:,} parameters to {parameters[1]:,} (baseline {target:,})."
        ).format_map(values)
    return NOTES[kind].format_map(values)


def _unlearned_runs(values: Values) -> str:
    runs, losses = in_words(values["folders"]), in_words([f"{loss:.3f}" for loss in values["losses"]])
    counted = f"{values['unigram']:.3f}, what the word frequencies of"
    if len(values["folders"]) == 1:
        told = f"its loss, {losses}, is not below {counted} its training text give"
        return f"{runs} is not trained long enough: {told}."
    told = f"their losses, {losses}, are not below {counted} their training text give"
    return f"{runs} are not trained long enough: {told}."


def _unsound_runs(values: Values) -> str:
    runs, checks = in_words(values["folders"]), in_words(values["failures"])
    failed = f"failed the check{'s' if len(values['failures']) > 1 else ''} {checks}"
    if len(values["folders"]) == 1:
        return f"{runs} is invalid (it {failed}): do not trust its numbers."
    return f"{runs} are invalid (they {failed}): do not trust their numbers."


def _part_of_dev(values: Values) -> str:
    were = "was" if len(values["folders"]) == 1 else "were"
    return (
        f"{in_words(values['folders'])} {were} evaluated on a part of dev only (training.evaluate_batches)."
    )


OF_RUNS = {"unlearned_runs": _unlearned_runs, "unsound_runs": _unsound_runs, "part_of_dev": _part_of_dev}


# ---------------------------------------------------------------- why results are not what was asked for
def _runs_failed(values: Values) -> str:
    failed = [f"{run['arm']} (seed {run['seed']})" for run in values["failed"]]
    return f"{len(failed)} of {values['runs']} runs failed: {', '.join(failed)}."


def _arm_refused(values: Values) -> str:
    return f"{values['arm']} was refused: {reasons_in(values)}"


def _arm_invalid(values: Values) -> str:
    """With what a person can do about it; seeds that changed nothing no study can mean."""
    arm, checks = values["arm"], ", ".join(f'"{check}"' for check in values["unsound"])
    allow = f"allow = {{ {arm} = [{checks}] }}"
    cure = f"Fix it, or declare in the study that it is expected to fail: {allow}."
    invalid = f"{arm} is invalid, which the study does not expect: {reasons_in(values)}."
    return f"{invalid} {cure if checks else 'The report names the cause.'}"


FAULTS = {"runs_failed": _runs_failed, "arm_refused": _arm_refused, "arm_invalid": _arm_invalid}


def failed_runs_phrase(runs: Sequence[Any]) -> str:
    """Runs of an arm that failed alike: the first of them says why."""
    seeds = f"seed{'s' if len(runs) > 1 else ''} {in_words([run.seed for run in runs])}"
    return f"{runs[0].arm}, {seeds}: {runs[0].reason}"


def refused_sentence(arm: str, reason: str) -> str:
    return f"{arm} is refused, and the other arms run: {reason}"


def jobs_sentence(runs: int, jobs: int, *, threads: int, room: int, cores: int) -> str:
    """How many runs go at once; `room` is how many of them the cores have room for."""
    sentence = f"{count_of(runs, 'run')}, {jobs} at once, {count_of(threads, 'thread')} each."
    if jobs <= room:
        return sentence
    return f"{sentence} The machine has {cores} cores: it takes as long as {room} at once, and more memory."


def cluster_sentence(
    runs: int,
    at_once: int,
    *,
    threads: int,
    place: str,
    nodes: int,
    cpus: tuple[int, int],
    gpus: tuple[int, int],
) -> str:
    """How many runs go at once on a cluster; of its CPUs and GPUs, all and those that are free."""
    has = f"{place} ({count_of(nodes, 'node')}, {_of_which(cpus, 'CPU')}"
    has += f", {_of_which(gpus, 'GPU')})" if gpus[0] else ")"
    return f"{count_of(runs, 'run')}, {at_once} at once on {has}, {count_of(threads, 'thread')} each."


def _of_which(amounts: tuple[int, int], noun: str) -> str:
    there, free = amounts
    return count_of(there, noun) + (f" of which {free} are free now" if free < there else "")


# ---------------------------------------------------------------- notes of built-in studies
def _time_to_loss(values: Values) -> str:
    ratios, seeds = values["ratios"], values["seeds"]
    if not ratios:
        return f"{values['arm']} never reached the loss at which {values['baseline']} ended ({seeds} seeds)."
    mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
    return (
        f"{values['arm']} reached the loss at which {values['baseline']} ended {mean:.2f} times as fast "
        f"(geometric mean; lowest {min(ratios):.2f}, highest {max(ratios):.2f}; {len(ratios)} of {seeds} "
        "seeds reached it)."
    )


def _heads_predicted(values: Values) -> str:
    share, predicting = "", values["predicting"]
    if values["spare"] is not None:
        share = f" {values['spare']:.0%} of its heads can be lost one at a time for less than "
        share += f"{values['nats']} nats."
    if not predicting:
        none = "no number of a head's picture was shown to predict the cost of removing it"
        return f"{values['arm']}: {none}.{share}"
    names = " and the ".join(f"{name} ({value:+.2f})" for name, value in predicting.items())
    return f"{values['arm']}: the cost of removing a head goes with the {names}.{share}"


def recommendation_sentence(values: Values) -> str:
    """The method to use, and why."""
    method, baseline, metric = (values[name] for name in ("method", "baseline", "metric"))
    ground, named = values["ground"], metric.replace("_", " ")
    if ground == "none":
        return "No method can be recommended: no run of any of them can be used."
    if ground == "majority":
        return "No method can be recommended: none is better than always giving the most frequent label."
    if ground == "best":
        return f"Recommended: {method}. All others are worse."
    if ground == "highest":
        return (
            f"Recommended, for want of a shown difference: {method}, which has the best mean {named}. More "
            "seeds (--seeds) or more dev rows may tell the methods apart."
        )
    cost = _cost_phrase(values)
    if ground == "better":
        form: Any = "points" if is_share(metric) else "signed"
        number = Number(values["difference"], values["low"], values["high"], form=form)
        interval = interval_text(values["low"], values["high"], decimals([number]), form)
        difference = f"{value_text(number)} ({interval})"
        return f"Recommended: {method}. Its {named} differs from that of {baseline} by {difference}{cost}."
    margin = margin_phrase(values["margin"], points=is_share(metric))
    return f"Recommended: {method}. No difference from {baseline} larger than {margin}{cost}."


def _cost_phrase(values: Values) -> str:
    share, times = values["share"], values["times"]
    costs = [
        *([] if share is None else [f"{percent(share)} of its tuned parameters"]),
        *(
            []
            if times is None
            else [f"{percent(times)} of its time" if times < 1 else f"{times:.1f} × its time"]
        ),
    ]
    return f", with {' and '.join(costs)}" if costs else ""


def _same_at_every_size(values: Values) -> str:
    if values["verdict"] == "inconclusive":
        return f"At none of the {values['sizes']} sizes does this study tell the two apart; more seeds might."
    verdict = verdict_words(values["verdict"], values["margin"])
    same = f"The verdict is the same at all {values['sizes']} sizes ({verdict})"
    ending = "but their intervals do not all overlap: the size of the difference depends on the model's."
    return f"{same}, {ending}" if values["disjoint"] else f"{same}."


def _other_by_size(values: Values) -> str:
    by_size = "; ".join(f"{arm}: {verdict_words(*verdict)}" for arm, verdict in values["verdicts"].items())
    return f"The verdict is not the same at every size ({by_size})."


BUILTIN = {
    "time_to_loss": _time_to_loss,
    "heads_predicted": _heads_predicted,
    "same_at_every_size": _same_at_every_size,
    "other_by_size": _other_by_size,
    "recommended": recommendation_sentence,
}


def reasons_in(values: Values) -> str:
    """The reasons within the values of a note."""
    return reasons_phrase([(reason["kind"], reason["values"]) for reason in values["reasons"]])


def pair_phrase(values: Values) -> str:
    """Two runs that stand side by side."""
    return "{run} compared with {other}".format_map(values)


def phrase_of(why: Values) -> str:
    """A reason within the values of a note."""
    return reason_phrase(why["kind"], why["values"])


# ---------------------------------------------------------------- what arms differ in beside their change
def inequalities_sentence(unequal: Sequence[Any], arm: str, baseline: str, *, exact: bool = True) -> str:
    """How an arm differs from its baseline beyond what is compared; with the counts behind the ratios."""
    phrases = [
        f"{arm} changes {len(inequality.names)} settings: {', '.join(inequality.names)}."
        for inequality in unequal
        if inequality.kind == "settings"
    ]
    groups: dict[str, list[Any]] = {}
    for count in (inequality for inequality in unequal if inequality.kind == "count"):
        groups.setdefault(ratio_phrase(count.arm / count.baseline), []).append(count)
    has = []
    for how, counts in groups.items():
        nouns = in_words([name.replace("flops", "FLOPs") for count in counts for name in count.names])
        first = counts[0]
        behind = f" ({first.arm:,.0f} {first.names[0]}, {baseline} {first.baseline:,.0f})"
        has.append(f"{how} {nouns}{behind if exact and first.names[0] != 'flops' else ''}")
    has += [
        _inequality(inequality, baseline, exact)
        for inequality in unequal
        if inequality.kind not in ("settings", "count")
    ]
    if has:
        phrases.append(f"{'It' if phrases else arm} had {('; ' if exact else ', ').join(has)}.")
    return " ".join(phrases)


def ratio_phrase(ratio: float) -> str:
    """Counts that differ by the same ratio, as steps and tokens do, are said together."""
    near = f"{100 * abs(ratio - 1):.2g}% {'more' if ratio > 1 else 'fewer'}"
    return near if 0.8 < ratio < 1.25 else f"{ratio:.2g} × the"


def _inequality(inequality: Any, baseline: str, exact: bool) -> str:
    own, other = inequality.arm, inequality.baseline
    ratio = own / other if other else math.nan
    phrase, behind = {
        "time": (f"{ratio:.2g} × the training time", f"{own:,.0f} s, {baseline} {other:,.0f} s"),
        "rate": (f"{ratio:.3g} × the learning rate", f"{own:g}, {baseline} {other:g}"),
        "tokenizer": ("a tokenizer of its own, so that the same texts came in other batches", ""),
        "tuning": (f"{own:g} tried settings", f"{baseline}: {other:g}"),
    }[inequality.kind]
    return f"{phrase} ({behind})" if exact and behind else phrase


# ---------------------------------------------------------------- comparisons
def verdict_phrase(comparison: Any) -> str:
    """The verdict of a comparison, with the margin where it is that there is no difference beyond it."""
    return verdict_words(comparison.verdict, comparison.margin, points=is_share(comparison.metric))


def verdict_words(verdict: str, margin: float, *, points: bool = False) -> str:
    same = verdict == "no difference"
    return f"no difference larger than {margin_phrase(margin, points=points)}" if same else str(verdict)


def margin_phrase(margin: float, *, points: bool) -> str:
    """The smallest difference that matters."""
    return f"{100 * margin:g} points" if points else f"{margin:g}"


def comparison_phrase(comparison: Any) -> str:
    """The verdict with its numbers, in a sentence without its full stop."""
    return f"{verdict_phrase(comparison)}: {because_phrase(comparison)}"


def because_phrase(comparison: Any) -> str:
    """What a verdict rests on."""
    difference, metric = shown(comparison, comparison.difference), comparison.metric.replace("_", " ")
    if comparison.failed:
        checks = " and ".join(dict.fromkeys(comparison.failed))
        return f"{checks} failed, so the difference in {metric} ({difference}) means nothing"
    if comparison.verdict == "not trained long enough":
        return reasons_phrase([(reason.kind, reason.values) for reason in comparison.doubts])
    if comparison.doubts:
        doubts = reasons_phrase([(reason.kind, reason.values) for reason in comparison.doubts])
        return f"{doubts}, so the difference in {metric} ({difference}) is no evidence"
    if comparison.identical:
        what = "every text's loss" if comparison.documents else metric
        return f"{what} is bit-identical in {count_of(comparison.seeds, 'seed')}"
    if comparison.seeds == 1:
        return f"one seed, so seed noise is unknown; {metric} {_over_texts(comparison)}"
    return _measured(comparison)


def short_phrase(reasons: Sequence[Any]) -> str:
    """What arms that have not learned yet lose, and what word frequencies do."""
    losses = in_words([f"{reason.values['loss']:.2f} ({reason.values['arm']})" for reason in reasons])
    counted = in_words(dict.fromkeys(f"{reason.values['unigram']:.2f}" for reason in reasons))
    return f"loss {losses}, word frequencies give {counted}"


def _measured(comparison: Any) -> str:
    c = comparison
    metric = c.metric.replace("_", " ")
    sentence = f"{metric} {shown(c, c.difference)}{interval_phrase(c)}, {chance(c.p_corrected)}"
    if c.comparisons > 1:
        sentence += f" after correction for {c.comparisons} comparisons"
    if c.verdict in ("better", "worse") and c.p_same <= 1 - c.level:
        margin = margin_phrase(c.margin, points=is_share(c.metric))
        sentence += f"; smaller than {margin}, the smallest difference that matters"
    return f"{sentence}; {_unseen(c)}" if c.verdict == "inconclusive" else sentence


def _unseen(comparison: Any) -> str:
    c = comparison
    if math.isnan(c.smallest):
        return f"the same in all {c.seeds} seeds, so there is no spread to test it against"
    if c.p <= 1 - c.level:
        return f"{chance(c.p)} before correction, not significant among {c.comparisons} comparisons"
    return f"minimum detectable effect with {c.seeds} seeds at 80% power: {size_phrase(c, c.smallest)}"


def _over_texts(comparison: Any) -> str:
    difference, half = comparison.difference, comparison.half_width_over_texts
    if math.isnan(half):
        return shown(comparison, difference)
    interval = _interval(comparison, difference - half, difference + half)
    texts = count_of(comparison.documents, "text")
    return f"{shown(comparison, difference)}{interval} over {texts} for these two models only"


def interval_phrase(comparison: Any, places: int | None = None) -> str:
    """ " (95% from −0.034 to −0.020)", or nothing where it is not known."""
    return _interval(comparison, comparison.low, comparison.high, places)


def _interval(comparison: Any, low: float, high: float, places: int | None = None) -> str:
    if math.isnan(low):
        return ""
    number = difference_number(comparison)
    places = decimals([number]) if places is None else places
    ends = interval_text(low, high, places, number.form).replace("\N{NO-BREAK SPACE}", " ")
    return f" ({100 * comparison.level:g}% from {ends})"


def difference_number(comparison: Any) -> Number:
    """A difference as it is shown everywhere: signed, of shares in points, as exact as its interval; with one
    seed, as the interval over texts."""
    c = comparison
    half = c.half_width_over_texts
    over_texts = math.isnan(c.low) and not math.isnan(half)
    low, high = (c.difference - half, c.difference + half) if over_texts else (c.low, c.high)
    form: Any = "points" if is_share(c.metric) else "signed"
    digits = None
    if math.isnan(low) and form == "signed" and 0 < abs(c.difference) < math.inf:
        digits = max(0, 2 - math.floor(math.log10(abs(c.difference))))  # three, where nothing says how many
    return Number(c.difference, low, high, c.seeds, form=form, decimals=digits)


def places_of(comparisons: Iterable[Any]) -> int:
    """The decimals of several differences by one metric, the same in a headline, a table and a figure."""
    return decimals(map(difference_number, comparisons))


def shown(comparison: Any, value: float, places: int | None = None) -> str:
    """A number of a comparison with its sign."""
    number = difference_number(comparison)
    places = decimals([number]) if places is None else places
    return value_text(Number(value, form=number.form, decimals=number.decimals), places)


def size_phrase(comparison: Any, value: float, places: int | None = None) -> str:
    """A number of a comparison without its sign."""
    return shown(comparison, value, places).lstrip("+−")


def chance(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def words_of(comparison: Any) -> str:
    """A comparison with what its arms differ in beside their change."""
    unequal = inequalities_sentence(comparison.unequal, comparison.arm, comparison.baseline)
    return f"{comparison_phrase(comparison)}. {unequal}" if unequal else comparison_phrase(comparison)


# ---------------------------------------------------------------- the verdict
FEW = 3
"""Comparisons up to which each is told in the verdict; more are counted, and stand in the table below it."""
WITHOUT_LEAK = "token_by_token_loss"
QUOTED = ("error", "refused", "damaged", "no_texts", "without_result")
"""Reasons that quote an error: it stands whole with its arm, and is not cut for the verdict."""


def verdict_sentences(outcome: Any) -> str:
    """A study's answer: what failed, each comparison where they are few, and what was not compared."""
    arms = {arm.name: arm for arm in outcome.all_arms}
    comparisons, baselines = outcome.comparisons, outcome.study.baselines
    apart = {
        note.values["arm"]: note for note in outcome.notes if note.kind in ("not_compared", "failed_runs")
    }
    failed = [
        sentence for arm in outcome.all_arms if (sentence := failure_sentence(arm, apart.get(arm.name)))
    ]
    if len(comparisons) > FEW:
        compared_sentences = [
            counts_sentence(
                [comparison for comparison in comparisons if comparison.metric == outcome.study.metric]
            )
        ]
    else:
        compared_sentences = [comparison_sentence(comparison, arms) for comparison in comparisons]
    compared = {comparison.arm for comparison in comparisons} | {*baselines}
    others = [
        arm
        for arm in outcome.all_arms
        if arm.name not in compared and not failure_sentence(arm, apart.get(arm.name))
    ]
    rest = [left_out_sentence(arm, apart.get(arm.name)) for arm in others]
    if not comparisons:
        ended = [arm.name for arm in outcome.all_arms if arm.state in ("finished", "invalid")]
        alone = (
            f"{', '.join(ended)} ended, with nothing to be compared with." if ended else "no run has ended."
        )
        why = " ".join(rest) or ("" if failed else alone)
        yet = "" if any(arm.state == "invalid" for arm in others) else " yet"
        rest = [f"No verdict{yet}: {why}" if why else "No verdict yet."]
    majority = majority_sentence(outcome.at_majority)
    return " ".join(
        filter(None, [majority, *failed, *compared_sentences, *more_than_compared(comparisons), *rest])
    )


def counts_sentence(comparisons: Sequence[Any]) -> str:
    """Many comparisons by the metric that decides, in one sentence; all stand in the table."""
    by_verdict: dict[str, list[str]] = {}
    for comparison in comparisons:
        by_verdict.setdefault(str(comparison.verdict), []).append(comparison.arm)
    counts = [f"{len(arms)} {verdict} ({', '.join(arms)})" for verdict, arms in by_verdict.items()]
    baselines = in_words(dict.fromkeys(comparison.baseline for comparison in comparisons))
    metric = comparisons[0].metric.replace("_", " ")
    return f"{len(comparisons)} comparisons with {baselines} by {metric}: {', '.join(counts)}."


def comparison_sentence(comparison: Any, arms: Mapping[str, Any]) -> str:
    """A comparison as one would tell it to a colleague."""
    arm, baseline, verdict = comparison.arm, comparison.baseline, comparison.verdict
    checks = arms[arm].unsound if arm in arms else ()
    if verdict == "invalid" and checks:
        named = f"check{'s' if len(checks) > 1 else ''} {', '.join(checks)}"
        alone = without_leak_sentence(comparison, arms) if comparison.leaks else ""
        return f"{arm} is invalid: {fault_phrase(checks)} ({named}).{alone}"
    if verdict in ("better", "worse"):
        sentence = f"{arm} is {verdict} than {baseline}"
    else:
        sentence = f"{arm} compared with {baseline} (baseline): {verdict_phrase(comparison)}"
    return f"{sentence}: {because_phrase(comparison)}."


def more_than_compared(comparisons: Sequence[Any]) -> list[str]:
    """That arms differ in more than is compared: of one in what, by ratios; the counts, and what several
    differ in, stand with the comparisons."""
    unequal = [
        comparison for comparison in comparisons if comparison.unequal and comparison.verdict != "invalid"
    ]
    if len(unequal) > 1:
        return ["Arms differ from their baselines in more than what is compared; the report says in what."]
    return [
        inequalities_sentence(inequality.unequal, inequality.arm, inequality.baseline, exact=False)
        for inequality in unequal
    ]


def fault_phrase(checks: Sequence[str]) -> str:
    """What an arm that failed these checks does wrong, in a few words."""
    if {"dependency", "honesty"} <= {*checks}:
        return "it sees future tokens"
    if "dependency" in checks:
        return "its outputs depend on tokens that they must not see"
    if {"majority", "collapse"} & {*checks}:
        return "it is no better than always giving the most frequent label"
    return "its numbers do not measure what they say"


def without_leak_sentence(comparison: Any, arms: Mapping[str, Any]) -> str:
    """What a leaking arm's loss is without the tokens that it must not see, compared with its baseline's."""
    scores = [arms[name].scores.get(WITHOUT_LEAK) for name in (comparison.arm, comparison.baseline)]
    if not all(score is not None and math.isfinite(score.value) for score in scores):
        return ""
    arm, baseline = (score_phrase(score) for score in scores)
    higher = scores[0].value > scores[1].value
    how = "equal to" if arm == baseline else "worse than" if higher else "better than"
    return f" Scored without them its loss is {arm}, {how} {comparison.baseline} with {baseline}."


def score_phrase(score: Any) -> str:
    """With as many digits as its interval supports: two of its half width, three decimals without one."""
    half = (score.high - score.low) / 2
    places = decimals([Number(score.value, score.low, score.high)]) if half > 0 else 3
    return value_text(Number(score.value), min(places, 3))


def failure_sentence(arm: Any, note: Any) -> str:
    """That runs of an arm failed, or that it could not be built; the whole error stands with the arm."""
    if arm.state == "refused":
        return f"{arm.name}: refused, it cannot be built."
    if arm.state == "failed":
        return f"{arm.name}: all runs failed."
    return note_sentence(note.kind, note.values) if note is not None and note.kind == "failed_runs" else ""


def left_out_sentence(arm: Any, note: Any) -> str:
    """Why an arm was not compared."""
    mixed = [reason for reason in arm.reasons if reason.kind == "mixed_runs"]
    if mixed:
        return f"{arm.name}: invalid: {'; '.join(map(str, mixed))}."
    if note is not None:
        return note_sentence(note.kind, note.values)
    ours = arm.reasons and all(reason.kind not in QUOTED for reason in arm.reasons)
    return f"{arm.name} was not compared ({arm.reason if ours else arm.state})."


def majority_sentence(arms: Mapping[str, tuple[Sequence[int], int]]) -> str:
    """The arms and seeds that ended at the majority share; nothing where there is none."""
    named = [f"{arm} ({seeds_phrase(seeds, of)})" for arm, (seeds, of) in arms.items()]
    return f"No better than always giving the most frequent label: {in_words(named)}." if named else ""


def seeds_phrase(seeds: Sequence[int], trained: int) -> str:
    """Which seeds of so many: "all seeds", "seeds 1 and 2 of 5"."""
    if len(seeds) == trained and trained > 1:
        return "all seeds"
    named = in_words([str(seed) for seed in sorted(seeds)])
    return f"seed{'s' if len(seeds) > 1 else ''} {named}" + (f" of {trained}" if trained > 1 else "")
