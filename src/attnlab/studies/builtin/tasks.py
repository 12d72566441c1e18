"""Tasks: what should a model be trained to say, the next word or a hidden one?

Set-up: a small model (mini-gpt's words, sentences and sizes, about 1.4 million parameters), one
epoch of the embedded Python documentation, with four tasks and the masks that belong to them:
causal, every word predicts the next; prefix, a beginning is read as a whole and the rest predicted;
masked, 15% of the words are hidden and guessed from both sides; span, the same for whole stretches.

What cannot be compared: each task's own loss, perplexity and bits per byte. They are taken over other
words that were predicted from other things seen, and for masked and span they are no probability of a
text at all (a pseudo-perplexity); the report keeps them apart. What can: the same words of the same dev
sentences, one hidden in each, and every model asked for it with all that its task lets it see:
causal and prefix what stands before it, masked and span both sides.

Hypothesis: for the same text, masked and span learn from a seventh of the words per step, so that after one
epoch they are behind causal even at guessing a word with both sides in sight. Given far longer training
that turns round.

How to read it: nats and accuracy at the hidden words, and tokens per second: the head of a masked model
costs a seventh, so that it reads more text in the same time.

Time: four arms × 5 seeds take about twenty minutes on two cores; --quick about three minutes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from attnlab.metrics.measures import Measure
from attnlab.studies.extras import Extras, OwnMeasures, Summary
from attnlab.studies.outcome import Note, NoteKind, StudyOutcome
from attnlab.studies.shown import mean, runs_by_arm, table
from attnlab.studies.spec import Quick, Study

if TYPE_CHECKING:
    from attnlab.model.model import Model
    from attnlab.session.trained import Trained

ROWS, SHORTEST = 256, 4
"""Dev sentences with a hidden word, and the fewest words that such a sentence has."""
BOTH_SIDES = {"model.family": "encoder", "model.mask": "bidirectional"}

Question = tuple[list[int], int]
"""A row of ids, and the place in it that is hidden."""


def study() -> Study:
    return Study(
        question="Which task teaches a model most about its words, for the same text?",
        hypothesis="After one epoch those that predict every word lead; masking predicts only a seventh of "
        "the words per step.",
        base="mini-gpt",
        arms={
            "causal": {"task": "causal"},
            "prefix": {"task": "prefix", "model.mask": "prefix"},
            "masked": {"task": "masked", **BOTH_SIDES},
            "span": {"task": "span", **BOTH_SIDES},
        },
        metric="hidden_loss",
        about=("settings",),  # a task comes with its mask and family
        set={"training.evaluate_every": 100},
        quick=Quick(seeds=3, budget={"tokens": 60_000}, set={"training.evaluate_every": 40}),
        extras="attnlab.studies.builtin.tasks:HiddenWords",
    )


class HiddenWords(Extras):
    """One word of each of some dev sentences, the same for every arm, asked as its task allows."""

    metrics: ClassVar[dict[str, Measure]] = {
        "hidden_loss": Measure("nats a hidden word of dev: the same words for every task"),
        "hidden_accuracy": Measure("share of the hidden words whose likeliest guess is right", "higher"),
        "hidden_words": Measure("how many words of dev were hidden, one a sentence", "higher"),
    }

    def measure(self, trained: Trained) -> OwnMeasures:
        from attnlab.tasks.vocabulary import Vocabulary

        rows = trained.dataset.rows("dev")
        ids = [rows.ragged("ids", row).tolist() for row in spread(len(rows), ROWS)]
        special = Vocabulary.of(trained.tokenizer).special
        asked = questions(ids, special.tolist(), trained.config.data.split_seed)
        mask = trained.tokenizer.specials.mask if trained.task.fills else None
        return OwnMeasures(answered(trained.model, asked, mask=mask), extra={"sees": trained.task.sees})

    def summarise(self, outcome: StudyOutcome, folder: Path) -> Summary:
        rows = []
        for arm, runs in runs_by_arm(outcome).items():
            nats = mean(runs, "hidden_loss")
            sees = "both sides" if runs[0].extra.get("sees") == "all" else "what stands before"
            perplexity = math.exp(nats) if nats is not None else None
            others = (mean(runs, name) for name in ("hidden_accuracy", "tokens_per_second", "seconds"))
            rows.append([arm, sees, len(runs), mean(runs, "hidden_words"), nats, perplexity, *others])
        columns = (
            "arm",
            "sees",
            "seeds",
            "words",
            "nats per word",
            "e^nats",
            "accuracy",
            "tokens/s",
            "seconds",
        )
        return Summary(
            tables=[
                table(
                    "The same hidden words for every task",
                    columns,
                    rows,
                    "Means over the seeds. e^nats is the perplexity of single hidden words: for masked and "
                    "span, which see both sides, a pseudo-perplexity and not that of a text.",
                )
            ],
            notes=[Note(NoteKind.OTHER_TASKS)],
        )


def spread(count: int, most: int) -> list[int]:
    """At most so many numbers below count, evenly spread."""
    return list(range(0, count, max(1, math.ceil(count / most))))


def questions(rows: Sequence[list[int]], special: Sequence[bool], seed: int) -> list[Question]:
    """One ordinary word of each row that is long enough, neither its first token nor its last."""
    from random import Random

    from attnlab.config.streams import stream_seed

    asked = []
    for number, ids in enumerate(rows):
        places = [place for place in range(1, len(ids) - 1) if not special[ids[place]]]
        if len(places) >= SHORTEST:
            asked.append((ids, Random(stream_seed(seed, "hidden", number)).choice(places)))
    return asked


def answered(model: Model, asked: Sequence[Question], *, mask: int | None) -> dict[str, float]:
    """Nats and accuracy: with a mask token from both sides, without one from what stands before."""
    import torch

    from attnlab.model.tokens import Tokens

    nats, right = [], 0
    model.eval()
    with torch.no_grad():
        for ids, place in asked:
            seen = ids[:place] if mask is None else [*ids[:place], mask, *ids[place + 1 :]]
            source = torch.ones(1, len(seen), dtype=torch.bool) if mask is None else None
            tokens = Tokens.of(len(seen), source=source)
            asked_at = slice(None), -1 if mask is None else place
            logs = model(torch.tensor([seen]), tokens, places=asked_at)[0].double().log_softmax(-1)
            nats.append(-float(logs[ids[place]]))
            right += int(logs.argmax()) == ids[place]
    count = len(asked)
    if not count:
        return {"hidden_words": 0}
    return {"hidden_loss": math.fsum(nats) / count, "hidden_accuracy": right / count, "hidden_words": count}
