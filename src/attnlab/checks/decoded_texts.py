"""The texts that are scored, written a second time: one token after the other, without a cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from attnlab.checks.check import Case, Check
from attnlab.data.rows import Rows
from attnlab.evaluation.written_texts import TextWriter
from attnlab.generation.decoder import PlacedPicture
from attnlab.generation.target_writer import TargetSource
from attnlab.metrics.metric import Examples
from attnlab.model.isolation import undisturbed
from attnlab.model.model import Model
from attnlab.model.tokens import Tokens
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value

TEXTS, LONGEST = 8, 24
"""Texts that are written again, and tokens of the longest of them."""
ROUNDED = 1e-3
"""Nats per token that rounding may decide."""
OFTEN = 0.25
"""The share of texts of a beam that may score below greedy ones: a beam may drop what would have won."""


@dataclass(frozen=True)
class TargetStart:
    """What a target is written after: a prompt, what stands apart and is read with it, a picture in the one
    or the other, the reference's own tokens, and those that end a text."""

    prompt: list[int]
    read: list[int] | None
    reference: list[int]
    stop: int
    picture: PlacedPicture | None = None

    @classmethod
    def of(cls, rows: Rows, row: int) -> TargetStart:
        ids = [int(token) for token in rows.ragged("ids", row)]
        picture = TargetSource.of_rows(rows, row).picture
        if rows.has("target"):
            first, *reference, stop = (int(token) for token in rows.ragged("target", row))
            return cls([first], ids, reference, stop, picture)
        begin = rows.scalar("source", row)
        return cls(ids[:begin], None, ids[begin:-1], ids[-1], picture)

    def pictured(self, length: int, device: torch.device) -> tuple[Tensor | None, dict[str, Tensor]]:
        """Which patch each of so many tokens is, and what is read there."""
        if self.picture is None:
            return None, {}
        first, count = self.picture.first, len(self.picture.vectors)
        patch = torch.zeros(1, length, dtype=torch.long, device=device)
        vectors = torch.zeros(1, length, self.picture.vectors.shape[1], device=device)
        patch[0, first : first + count] = torch.arange(1, count + 1)
        vectors[0, first : first + count] = self.picture.vectors
        return patch, {"vectors": vectors}


class DecodedTexts(Check):
    """Decoded texts: are the texts that are scored those that the model writes by itself?

    Formula: of the 8 shortest texts, each is written again token by token, the most likely one each time,
    from all of the text before it, without a cache. Texts that were written greedily must be these; those of
    a beam must not have a lower score, log-probability / tokens^penalty, in more than a quarter of cases.
    One that is lower is compared with the most likely tokens after the right ones (teacher forcing). And the
    text that is scored must be that of the tokens.

    When it helps: guesses after the right words look like translations and score far higher than what the
    model writes; a beam with a fault writes worse than greedy search, and nobody notices.

    Cannot see: faults that show in texts of more than 24 tokens alone; where no text ends before that,
    nothing is compared.
    """

    when: ClassVar[tuple[When, ...]] = ("evaluation",)
    limit: ClassVar[float] = 1.0

    def run(self, case: Case) -> Finding:
        texts = None if case.evaluation is None else case.evaluation.texts
        if texts is None or "written_ids" not in texts:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "nothing_written")
        settings, dataset = case.config.training, case.dataset
        writer = TextWriter(
            model=case.model,
            tokenizer=dataset.tokenizer,
            rows=dataset.rows("dev"),
            texts=lambda: (),
            context=case.config.longest_text,
            beam=settings.generate_beam,
            penalty=settings.generate_penalty,
        )
        return self.judge(case.when, writer, texts)

    def judge(self, when: When, writer: TextWriter, texts: Examples) -> Finding:
        """Of texts that were written for the first rows of a split, as the settings of a writer say."""
        model, tokenizer, penalty = writer.model, writer.tokenizer.target, writer.penalty
        lengths = [len(ids) for ids in texts["written_ids"]]
        ended = [row for row, stopped in enumerate(texts["stopped"]) if stopped and lengths[row] <= LONGEST]
        chosen = sorted(ended, key=lambda row: (lengths[row] == 0, lengths[row]))[:TEXTS]
        if not chosen:
            return self.finding(when, Outcome.NOT_APPLICABLE, "none_ended")
        below, forced = list[float](), 0
        with undisturbed(model):
            for row in chosen:
                source, ids = TargetStart.of(writer.rows, row), list(texts["written_ids"][row])
                if tokenizer.decode(ids).strip() != texts["generated"][row].strip():
                    return self.finding(when, Outcome.FAIL, "other_text", float(row), row=row + 1)
                best = greedy(model, source, most=min(2 * LONGEST, writer.context - len(source.prompt)))
                gap = score(model, source, best, penalty) - score(model, source, ids, penalty)
                if gap > ROUNDED:
                    below.append(gap)
                    forced += ids == guesses(model, source)
        worst = max(below, default=0.0)
        values: dict[str, Value] = {
            "n": len(chosen),
            "below": len(below),
            "worst": worst,
            "beam": writer.beam,
        }
        kind = self.fault(len(below), forced, len(chosen), writer.beam)
        return self.finding(when, Outcome.FAIL if kind else Outcome.PASS, kind or "own", worst, **values)

    @staticmethod
    def fault(below: int, forced: int, n: int, beam: int) -> str:
        """The kind of fault that so many texts below greedy ones are, of which some are guesses."""
        if forced and 2 * forced >= below:
            return "teacher_forced"
        if beam == 1:
            return "not_greedy" if below else ""
        return "below_greedy" if below > OFTEN * n else ""


# ---------------------------------------------------------------- a model without a cache
def log_probabilities(model: Model, source: TargetStart, new: Sequence[int]) -> Tensor:
    """(N+1, V) of the token after the prompt and after each new one, all text read at once."""
    device = next(model.parameters()).device
    ids = torch.tensor([[*source.prompt, *new]], device=device)
    marked = None
    if model.trunk.asks_for_source:
        marked = (torch.arange(ids.shape[1], device=device) < len(source.prompt))[None]
    read = ids if source.read is None else torch.tensor([source.read], device=device)
    patch, beside = source.pictured(read.shape[1], device)
    apart: dict[str, Any] = {**beside}
    if source.read is not None:
        apart |= {"source": read, "source_tokens": Tokens.of(read.shape[1], patch=patch, device=device)}
        patch = None
    tokens = Tokens.of(ids.shape[1], source=marked, patch=patch, device=device)
    scores: Tensor = model(ids, tokens, **apart)
    return scores[0, len(source.prompt) - 1 :].double().log_softmax(-1)


def greedy(model: Model, source: TargetStart, *, most: int) -> list[int]:
    """The most likely token each time, up to one that ends the text; cut where it does not end."""
    new = list[int]()
    while len(new) < most:
        token = int(log_probabilities(model, source, new)[-1].argmax())
        if token == source.stop:
            break
        new.append(token)
    return new


def guesses(model: Model, source: TargetStart) -> list[int]:
    """The most likely token after each right one, up to one that ends the text."""
    tokens: list[int] = log_probabilities(model, source, source.reference).argmax(-1).tolist()
    return tokens[: tokens.index(source.stop)] if source.stop in tokens else tokens


def score(model: Model, source: TargetStart, new: Sequence[int], penalty: float) -> float:
    """log-probability / tokens^penalty, the token that ends the text included."""
    logs = log_probabilities(model, source, new)
    total = sum(float(logs[place, token]) for place, token in enumerate([*new, source.stop]))
    return total / (len(new) + 1) ** penalty
