"""What is said of one model in many processes."""

from __future__ import annotations

from collections.abc import Mapping

from attnlab.checks.wording.template import Sentences, Template, Values
from attnlab.config.wording import count_of, in_words

OTHER_MODELS = (
    "Each process trains a model of its own; what is saved is one of them, with a part of the data."
)


def ranks(values: Values) -> str:
    numbers = [str(rank) for rank in values["ranks"]]
    return f"process{'es' if len(numbers) > 1 else ''} {in_words(numbers)} of {values['of']}"


def of_ranks(found: str, meaning: str, fix: str) -> Template:
    """Sentences whose gap {who} names the processes."""

    def words(values: Values) -> Sentences:
        return Sentences(found, meaning, fix).filled({**values, "who": ranks(values)})

    return words


def other_steps(values: Values) -> Sentences:
    taken = in_words([f"{steps:,}" for steps in values["steps"]])
    return Sentences(
        f"the processes took {taken} steps",
        "A batch was left out by some of them: their weights are not those of the others.",
        "Give every process as many batches: drop the last incomplete one everywhere, or join processes that "
        "have ended (torch's Join).",
    )


OF_PROCESSES: Mapping[tuple[str, str], Template] = {
    ("processes", "one_process"): Sentences("the model is trained by one process"),
    ("processes", "no_rows"): Sentences("no rows of ids were seen"),
    ("processes", "unanswered"): Sentences(
        "not every process answered within {seconds:.0f} s: {error}",
        "A process has ended, waits for something else, or makes other calls than the rest.",
        "Make the same calls of the checks in every process.",
    ),
    ("processes", "other_steps"): other_steps,
    ("processes", "other_place"): of_ranks(
        "{who} is at another place in the data than process 0",
        "Processes take batches from one order: from here on some are read twice and others not at all.",
        "This is a fault of attnlab: please report it with the config and the command.",
    ),
    ("processes", "other_rows"): lambda values: Sentences(
        f"parts {in_words(values['parts'])} of a step hold other rows than the data's order has for them"
        f"{' (' + ranks(values) + ')' if values['ranks'] else ''}",
        "The processes do not share the step that one process would take.",
        "This is a fault of attnlab, or of a strategy of your own: compare `parts` of the strategy.",
    ),
    ("processes", "same_part_draws"): Sentences(
        "two of the {parts} parts of a step draw the same random numbers ({of} processes)",
        "Dropout hides the same places in both: a step has less noise than that of one process.",
        "This is a fault of attnlab, or of a strategy of your own: every part has a stream of its own.",
    ),
    ("processes", "planned_rows"): Sentences(
        "{of} processes shared {parts} parts of one step, with the {rows:,} rows that one process would read"
    ),
    ("processes", "other_weights"): of_ranks(
        "the weights of {who} are not those of process 0",
        OTHER_MODELS,
        "Begin with the same weights (the same seed, or those of process 0 broadcast), and average the "
        "gradients of every step before the optimizer moves.",
    ),
    ("processes", "other_buffers"): of_ranks(
        "the buffers of {who} are not those of process 0",
        "Statistics that a process collects by itself are not averaged; those of one process are saved.",
        "Broadcast them (broadcast_buffers=True in DDP), or collect them over all processes.",
    ),
    ("processes", "equal_states"): Sentences(
        "{of} processes have the same weights and buffers after {step:,} steps"
    ),
    ("processes", "sharded_states"): Sentences(
        "{of} processes hold a part of each weight, and are at the same place after {step:,} steps"
    ),
    ("processes", "same_rows"): of_ranks(
        "{who} read the same {rows:,} rows as another",
        "The processes do the same work: a step sees fewer different rows than it counts.",
        "Divide the rows among the processes (DistributedSampler, with the same seed everywhere).",
    ),
    ("processes", "shared_rows"): Sentences(
        "{shared:,} pairs of equal rows in different processes, {inside:,} in the same one ({rows:,} rows)",
        "Processes read some rows twice and others not at all, as with samplers of different seeds.",
        "Give the samplers of all processes the same seed, and set their epoch everywhere.",
    ),
    ("processes", "own_rows"): lambda values: Sentences(
        f"{count_of(values['rows'], 'row')}, of which processes share no more than the data repeats "
        f"({values['shared']:,} pairs across processes, {values['inside']:,} within one)"
    ),
    ("processes", "not_averaged"): of_ranks(
        "{who} uses the gradient of its own rows alone",
        OTHER_MODELS,
        "Average the gradients: call the wrapped model, and leave no_sync before a step's last backward.",
    ),
    ("processes", "other_gradients"): of_ranks(
        "the gradient that {who} uses is not that of process 0",
        OTHER_MODELS,
        "Average the gradients of all processes after the last backward of a step and before the optimizer.",
    ),
    ("processes", "not_the_mean"): Sentences(
        "the gradient that is used differs from the mean over {of} processes by {number:.2g} of its largest",
        "Some rows count more than others, or not at all.",
        "Leave no_sync before a step's last backward, and do not change gradients before they are averaged.",
    ),
    ("processes", "mean_of_means"): Sentences(
        "a target in a batch of {most:,} weighs {number:.2f} times what one in a batch of {least:,} weighs",
        "A mean of means: where processes have different numbers of targets, another function is minimised.",
        "Divide the sum of the losses by the targets of all processes (all-reduce their number), times the "
        "number of processes where gradients are averaged.",
    ),
    ("processes", "same_draws"): of_ranks(
        "{who} draws the same random numbers as another",
        "Dropout hides the same places in every process: there is less noise than one process would have.",
        "Seed each process by its rank as well, after the weights are made.",
    ),
    ("processes", "one_step"): Sentences(
        "{of} processes took one step of one model: {rows:,} rows of their own, {targets:,} targets"
    ),
    ("processes", "repeated_rows"): Sentences(
        "{scored:,} examples were scored, and the split has {rows:,}",
        "Rows that were repeated to fill the last batch count twice in every metric.",
        "Leave out what was added: cut what is gathered to the length of the split.",
    ),
    ("processes", "unscored_rows"): Sentences(
        "{scored:,} examples were scored, and the split has {rows:,}",
        "The metrics are of a part of the split: some processes' rows were dropped or not gathered.",
        "Gather what every process scored, and do not drop the last batch.",
    ),
    ("processes", "each_scored_once"): Sentences("{of} processes scored {rows:,} examples, each once"),
}
