"""What a masking task hides, counted over real batches: the share, the lengths of spans, whole words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnlab.config.values import ConfigError
from attnlab.data.batch import Batch
from attnlab.documents.nodes import Axis, Figure, Line, Lines, Node, Number, Table
from attnlab.explain.explanation import Explanation
from attnlab.model.losses import IGNORE
from attnlab.tasks.masked_tokens import documents, maskable, words_of
from attnlab.tasks.task import Task

HIDES_NOTHING = (
    "This config hides no token: its task is not one that masks, or task.share is too small. Give one such "
    "as "
    "bert-mini or spanbert-mini."
)


@dataclass(frozen=True)
class MaskingStatistics(Explanation):
    """Counts over some batches. Lengths are of unbroken stretches of hidden tokens, in words and in tokens;
    `drawn` is the distribution that the task draws lengths from, where it draws any."""

    task: str
    tokens: int
    """That stand for text."""
    hidden: int
    replaced: Mapping[str, int]
    """What stands in their places: mask, random, kept."""
    words: Mapping[int, int]
    pieces: Mapping[int, int]
    cut: int
    """Hidden stretches that begin or end inside a word."""
    touching: int
    """Stretches without a visible token on both sides."""
    drawn: tuple[float, ...]

    kind = "masking"

    @property
    def share(self) -> float:
        return self.hidden / self.tokens

    @property
    def stretches(self) -> int:
        return sum(self.words.values())

    @property
    def mean_words(self) -> float:
        return sum(length * count for length, count in self.words.items()) / max(self.stretches, 1)

    @property
    def mean_tokens(self) -> float:
        return sum(length * count for length, count in self.pieces.items()) / max(self.stretches, 1)

    @property
    def drawn_mean(self) -> float | None:
        """The mean length in words that is drawn; None where no length is."""
        return sum((n + 1) * share for n, share in enumerate(self.drawn)) if self.drawn else None

    @property
    def headline(self) -> str:
        return (
            f"{self.share:.1%} of {self.tokens:,} tokens are hidden, in {self.stretches:,} stretches of "
            f"{self.mean_words:.2f} words ({self.mean_tokens:.2f} tokens) on average."
        )

    @property
    def remark(self) -> str:
        whole = 1 - self.cut / max(self.stretches, 1)
        parts = [f"{whole:.1%} of the stretches are whole words."]
        if self.drawn_mean is not None:
            parts.append(
                f"Lengths are drawn with a mean of {self.drawn_mean:.2f} words; those that find no room "
                "are cut or "
                "put elsewhere."
            )
        return " ".join(parts)

    def parts(self) -> list[Node]:
        return [self._figure(), self._lengths(), self._places()]

    def _figure(self) -> Figure:
        last = max([*self.words, len(self.drawn)])
        x = [float(n) for n in range(1, last + 1)]
        counted = [self.words.get(n, 0) / max(self.stretches, 1) for n in range(1, last + 1)]
        lines = [Line("hidden", x, counted)]
        if self.drawn:
            lines.append(Line("drawn", x, [*self.drawn, *[0.0] * (last - len(self.drawn))]))
        axis = Axis("share of stretches", form="percent", from_zero=True)
        return Figure.of("Length of a stretch in words", Lines(lines, Axis("words", at=x), axis))

    def _lengths(self) -> Table:
        last = max([*self.words, len(self.drawn)])
        rows = [
            (
                n,
                self.words.get(n, 0),
                Number(self.words.get(n, 0) / max(self.stretches, 1), form="percent", decimals=1),
                Number(self.drawn[n - 1], form="percent", decimals=1) if n <= len(self.drawn) else None,
            )
            for n in range(1, last + 1)
        ]
        return Table(("words", "stretches", "share", "drawn"), rows[:20])

    def _places(self) -> Table:
        rows = [
            (name, count, Number(count / max(self.hidden, 1), form="percent", decimals=1))
            for name, count in self.replaced.items()
        ]
        note = f"{self.touching:,} stretches have no visible token of their text on one side."
        return Table(("in the place of a hidden token", "tokens", "share"), rows, note=note)

    def as_json(self) -> dict[str, Any]:
        means = {"share": self.share, "mean_words": self.mean_words, "mean_tokens": self.mean_tokens}
        return {**vars(self), "drawn": list(self.drawn), "drawn_mean": self.drawn_mean, **means}


def masking_statistics(task: Task, batches: Iterable[Batch], *, seed: int = 0) -> MaskingStatistics:
    """What a task hides in these batches, counted from what it prepares of them."""
    tokens = hidden = cut = touching = 0
    replaced, words, pieces = Counter[str](), Counter[int](), Counter[int]()
    mask = task.vocabulary.mask
    for number, batch in enumerate(batches):
        prepared = task.prepare(batch, seed + number)
        if prepared.targets.shape != batch.ids.shape or mask is None:
            raise ConfigError(HIDES_NOTHING)
        ids, read = batch.ids.numpy(), prepared.ids.numpy()
        candidates, document = maskable(batch, task.vocabulary), documents(batch)
        chosen = prepared.targets.numpy() != IGNORE
        tokens, hidden = tokens + int(candidates.sum()), hidden + int(chosen.sum())
        replaced["the mask token"] += int((chosen & (read == mask)).sum())
        replaced["the token itself"] += int((chosen & (read == ids)).sum())
        replaced["another token"] += int((chosen & (read != mask) & (read != ids)).sum())
        numbers = words_of(ids, candidates, document, task.vocabulary)
        for row in range(len(ids)):
            for start, end in stretches_of(chosen[row], document[row]):
                own = numbers[row, start : end + 1]
                words[len(set(own.tolist()))] += 1
                pieces[end - start + 1] += 1
                before = start > 0 and candidates[row, start - 1] and numbers[row, start - 1] == own[0]
                after = (
                    end + 1 < ids.shape[1] and candidates[row, end + 1] and numbers[row, end + 1] == own[-1]
                )
                cut += bool(before or after)
                seen = batch.real.numpy()[row]
                inside = start > 0 and end + 1 < len(seen) and seen[start - 1] and seen[end + 1]
                touching += not (
                    inside and document[row, start - 1] == document[row, end + 1] == document[row, start]
                )
    drawn = task.span_lengths
    if not replaced["the mask token"]:
        raise ConfigError(HIDES_NOTHING)
    name = type(task).__name__.lower()
    return MaskingStatistics(
        name, tokens, hidden, dict(replaced), dict(words), dict(pieces), cut, touching, drawn
    )


def stretches_of(chosen: np.ndarray[Any, Any], document: np.ndarray[Any, Any]) -> list[tuple[int, int]]:
    """Unbroken stretches [start, end] of one text."""
    stretches: list[tuple[int, int]] = []
    for place in np.flatnonzero(chosen).tolist():
        if stretches and stretches[-1][1] == place - 1 and document[place] == document[place - 1]:
            stretches[-1] = (stretches[-1][0], place)
        else:
            stretches.append((place, place))
    return stretches
