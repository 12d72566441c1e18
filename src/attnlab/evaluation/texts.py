"""The texts of a batch one by one, unpacked and unpadded, and what a model loses on each when it is alone.

Nothing here shares code with the loss or the batches' own marks: a text is found by the encoded row that it
comes from, its coordinates are counted anew, and the cross-entropy is written out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnlab.data.batch import Batch
from attnlab.data.rows import Rows
from attnlab.evaluation.evaluator import Evaluator
from attnlab.model.losses import IGNORE
from attnlab.model.model import Model
from attnlab.model.tokens import Tokens
from attnlab.tasks.task import Prepared

ROWS = 32
"""Texts of one length that are run together."""
SPREAD = 8
"""Batches that a sample of texts is taken from."""


@dataclass(frozen=True, eq=False)
class Text:
    """One text as a model reads it: ids and targets (T), and what goes along with them.

    `line` and `places` (T) say where it stands in its batch, `row` which encoded row it is. `marked` are
    the tokens in the source of a prefix, `source` (S) is what an encoder reads beside it. `patch` are the
    patches of a picture, `source_patch` those of the source, whose `vectors` (S,W) are then the source's.
    """

    row: int
    line: int
    places: Tensor
    ids: Tensor
    targets: Tensor
    types: Tensor | None = None
    vectors: Tensor | None = None
    marked: Tensor | None = None
    patch: Tensor | None = None
    source_patch: Tensor | None = None
    source: Tensor | None = None

    @property
    def asked(self) -> Tensor:
        """The places (n) in the text that have a target."""
        return (self.targets != IGNORE).nonzero()[:, 0]


Cut = tuple[Text, int, int]
"""A text, the place of a target in it, and how many of its tokens are there when that target is scored."""


class MisreadError(ValueError):
    """A batch holds another text than the encoded rows that it says it is made of."""


def texts_of(batch: Batch, prepared: Prepared, rows: Rows) -> list[Text]:
    """Every text of a batch, as the task made it; none where it is not about their words."""
    if prepared.of_examples:
        return []
    owners = list(owners_of(batch, rows))
    if prepared.source is not None:
        return [_pair(batch, prepared, rows, line, own[0]) for line, own in enumerate(owners)]
    return [
        text
        for line, own in enumerate(owners)
        for text in _parted(prepared, batch, rows, line=line, owners=own)
    ]


def sampled_texts(evaluator: Evaluator, count: int) -> list[Text]:
    """About so many texts with targets, from batches all over a split: those of one are alike in length."""
    plan = evaluator.loader.plan(0)
    numbers = sorted({round(at * (len(plan) - 1) / max(SPREAD - 1, 1)) for at in range(SPREAD)})
    each, sampled = math.ceil(count / len(numbers)), list[Text]()
    for number in numbers:
        batch = evaluator.loader.load(plan, number)
        texts = texts_of(batch, evaluator.prepare(batch, number), evaluator.loader.rows)
        sampled += [text for text in texts if len(text.asked)][:each]
    return sampled[:count]


def owners_of(batch: Batch, rows: Rows) -> Iterator[list[int]]:
    """The encoded rows of each line of a batch, told by their lengths alone."""
    numbers = iter(batch.rows.tolist())
    for count in batch.real.sum(1).tolist():
        own: list[int] = []
        while count > 0:
            row = next(numbers, None)
            if row is None:
                raise MisreadError(f"{count} tokens of a batch belong to none of its {len(batch.rows)} rows")
            own.append(row)
            count -= int(rows.lengths[row])
        if count:
            raise MisreadError(f"a line of a batch is {-count} tokens shorter than the rows that it holds")
        yield own


def _parted(
    prepared: Prepared, batch: Batch, rows: Rows, *, line: int, owners: Sequence[int]
) -> Iterator[Text]:
    """The texts that share a line, in their order."""
    places = batch.real[line].nonzero()[:, 0]
    for row in owners:
        own, places = places.split([int(rows.lengths[row]), len(places) - int(rows.lengths[row])])
        stored = torch.from_numpy(rows.ragged("ids", row).astype("int64"))
        if not torch.equal(batch.ids[line, own], stored):
            raise MisreadError(f"a batch holds other tokens than row {row}, which it says it is made of")
        source = prepared.tokens.source
        yield Text(
            row,
            line,
            own,
            prepared.ids[line, own],
            prepared.targets[line, own],
            types=None if prepared.types is None else prepared.types[line, own],
            vectors=None if prepared.vectors is None else prepared.vectors[line, own],
            marked=None if source is None else source.expand_as(prepared.ids)[line, own],
            patch=None if batch.patch is None else batch.patch[line, own],
        )


def _pair(batch: Batch, prepared: Prepared, rows: Rows, line: int, row: int) -> Text:
    """A target with the source that an encoder reads before it."""
    assert prepared.source is not None and prepared.source_tokens is not None
    wanted = prepared.targets[line] != IGNORE
    places = torch.arange(int(wanted.nonzero().max()) + 1 if bool(wanted.any()) else 0)
    real = prepared.source_tokens.real
    if prepared.source.shape == batch.ids.shape:
        real = batch.real
    kept = torch.ones_like(prepared.source[line], dtype=torch.bool) if real is None else real[line]
    return Text(
        row,
        line,
        places,
        prepared.ids[line, places],
        prepared.targets[line, places],
        source=prepared.source[line][kept],
        source_patch=None if batch.patch is None else batch.patch[line][kept],
        vectors=None if prepared.vectors is None else prepared.vectors[line][kept],
    )


@torch.no_grad()
def nats_alone(model: Model, text: Text) -> Tensor:
    """(n) the nats of each of a text's targets when the model reads that text and nothing else."""
    return _nats(model, [text], len(text.ids), text.asked[None])[0]


def nats_token_by_token(model: Model, cuts: Sequence[Cut]) -> Tensor:
    """The nats of each cut's target. Cuts of one length are run together, so that none is padded."""
    nats = torch.zeros(len(cuts), dtype=torch.float64)
    alike: dict[Any, list[int]] = {}
    for number, (text, _, end) in enumerate(cuts):
        source = 0 if text.source is None else len(text.source)
        alike.setdefault((end, source), []).append(number)
    for (end, _), numbers in alike.items():
        for some in (numbers[at : at + ROWS] for at in range(0, len(numbers), ROWS)):
            places = torch.tensor([[cuts[number][1]] for number in some])
            nats[some] = _nats(model, [cuts[number][0] for number in some], end, places)[:, 0]
    return nats


@torch.no_grad()
def _nats(model: Model, texts: Sequence[Text], end: int, places: Tensor) -> Tensor:
    """(N,n) −log p of the targets at `places` (N,n) of texts cut after `end` tokens: log Σ e^s − s_target."""
    device = next(model.parameters()).device

    def whole(name: str, length: int | None = None) -> Tensor | None:
        columns = [getattr(text, name) for text in texts]
        return None if columns[0] is None else torch.stack([value[:length] for value in columns]).to(device)

    def stacked(name: str) -> Tensor | None:
        return whole(name, end)

    ids, targets = stacked("ids"), stacked("targets")
    assert ids is not None and targets is not None
    inputs: dict[str, Any] = {"types": stacked("types"), "vectors": stacked("vectors")}
    if texts[0].source is not None:
        inputs |= {"source": whole("source"), "vectors": whole("vectors")}
        inputs["source_tokens"] = Tokens.of(
            inputs["source"].shape[1], patch=whole("source_patch"), device=device
        )
    tokens = Tokens.of(ids.shape[1], source=stacked("marked"), patch=stacked("patch"), device=device)
    chosen = torch.arange(len(texts), device=device)[:, None], places.to(device)
    scores = model(ids, tokens, places=chosen, **inputs).double()
    wanted = scores.gather(-1, targets[chosen][..., None])[..., 0]
    return (scores.logsumexp(-1) - wanted).cpu()
