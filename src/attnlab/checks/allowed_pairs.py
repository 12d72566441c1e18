"""Which pairs each layer's attention really joins, against a second definition of every mask."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from attnlab.checks.check import Case, Check
from attnlab.checks.dependency import has_zero_weights
from attnlab.config.schema import ModelSettings
from attnlab.config.values import Choice
from attnlab.model.blocks import Attention, CrossAttention
from attnlab.model.isolation import sample_of, sampled_layers
from attnlab.model.model import Model, hidden_states
from attnlab.model.tokens import Tokens
from attnlab.model.trunks.transformer import Transformer
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value

SHORT, LONGEST = 20, 512
"""Tokens of the rows with padding, documents and a source; and at most of the row of the model's length."""
NOTHING = 1e-9
"""A weight in float64 that is none."""


@dataclass(frozen=True)
class MarkedRow:
    """A row as the definitions below know it: one entry a token."""

    real: list[bool]
    document: list[int]
    position: list[int]
    source: list[bool]
    image: list[bool] | None = None

    def __len__(self) -> int:
        return len(self.real)


class UnwrittenError(Exception):
    """A mask or rule of one's own, of which there is no second definition."""


def mask_allows(mask: Choice, row: MarkedRow, i: int, j: int) -> bool:
    """Whether token i may see token j, each mask written out."""
    match mask.kind:
        case "causal":
            return j <= i
        case "bidirectional":
            return True
        case "prefix":
            return j <= i or row.source[j]
        case "source":
            return row.source[j]
        case "window":
            return -int(mask.options["size"]) < i - j < int(mask.options["size"])
        case "all":
            return all(mask_allows(one, row, i, j) for one in mask.options["of"])
        case "any":
            return any(mask_allows(one, row, i, j) for one in mask.options["of"])
    raise UnwrittenError(f"mask {mask.kind}")


def rule_allows(rule: Choice, row: MarkedRow, i: int, j: int, length: int) -> bool:
    """Whether a rule looks at the pair at all."""
    match rule.kind:
        case "window":
            near = abs(i - j) < int(rule.options["size"])
            return near and rule_allows(rule.options["inner"], row, i, j, length)
        case "group" if rule.options["by"] == "position":
            size = math.ceil(length / int(rule.options["groups"]))
            together = row.position[i] // size == row.position[j] // size
            return together and rule_allows(rule.options["inner"], row, i, j, length)
        case "group" if rule.options["by"] == "modality":
            apart = row.image is not None and row.image[i] != row.image[j]
            return not apart and rule_allows(rule.options["inner"], row, i, j, length)
        case "dot" | "additive" | "linear" | "argmax":
            return True
    raise UnwrittenError(f"attention {rule.kind}")


def fusion_allows(fusion: Choice, layer: int, row: MarkedRow, i: int, j: int) -> bool:
    """Whether image and text may meet in a layer. (Models with a bottleneck are not asked.)"""
    if row.image is None or row.image[i] == row.image[j] or fusion.kind == "early":
        return True
    return fusion.kind == "late" and layer >= int(fusion.options["layers"])


class AllowedPairs(Check):
    """Allowed pairs: does every layer's attention join the pairs that the config allows, and no others?

    Formula: the weights W of each attention as it computes them, by giving it the unit vectors as values
    (softmax(q·k)·I = W), in a float64 copy: in a row of the model's own length (up to 512), and in rows with
    padding on either side, two packed texts and a source. W_ij is 0 where a definition of the mask, written
    out a second time in a few lines (j ≤ i, |i − j| < size, …), forbids the pair, and is not 0 where it
    allows it (but for argmax and relu features).

    When it helps: a mask that hides a token from itself, is applied twice, or is off by one, changes what
    attention reads, and the residual connection hides it: outputs still depend on all that they should.

    Cannot see: masks and rules of one's own, and trunks that are not transformers (see `dependency`).
    """

    when: ClassVar[tuple[When, ...]] = ("before",)
    limit: ClassVar[float] = 1.5
    same_for_seeds: ClassVar[bool] = True
    samples_layers: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        settings, trunk = case.config.model, case.model.trunk
        if not isinstance(trunk, Transformer) or case.model.stands_before:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "no_transformer")
        if case.pretrained or sampled_layers(case.model) is not None:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "other_layers")
        model = sample_of(case.model).double().eval()
        pairs = 0
        try:
            patches = 0 if settings.picture is None else settings.picture.patches
            size = case.dataset.tokenizer.common_size
            for row, rows in rows_of(model, case.config.longest_text, size, patches):
                for name, weights, asked in weights_of(model, rows):
                    wanted, real = allowed_by(settings, asked, row), torch.tensor([one.real for one in row])
                    pairs += wanted.numel()
                    judged = AttentionWeights(name, weights, wanted, real, zeros=has_zero_weights(model))
                    bad = self.wrong(case, judged)
                    if bad is not None:
                        return bad
        except UnwrittenError as error:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "unwritten", None, what=str(error))
        return self.finding(case.when, Outcome.PASS, "agree", 0.0, pairs=pairs)

    def wrong(self, case: Case, judged: AttentionWeights) -> Finding | None:
        """What is wrong with the weights of one attention; padding is not asked what it sees."""
        weights = judged.weights.abs()
        seen = (weights.amax(1) > NOTHING) & ~judged.wanted & judged.real[:, :, None]
        unseen = (weights.amin(1) == 0) & judged.wanted & judged.real[:, :, None]
        for kind, pairs in (("seen", seen), ("unseen", unseen & (not judged.zeros))):
            if bool(pairs.any()):
                _, query, key = (int(place) for place in pairs.nonzero()[0])
                values: dict[str, Value] = {"name": judged.name, "query": query, "key": key}
                size, count = float(weights.amax(1)[pairs].max()), int(pairs.sum())
                return self.finding(case.when, Outcome.FAIL, kind, size, pairs=count, **values)
        return None


@dataclass(frozen=True)
class AttentionWeights:
    """The weights (B,H,T,S) of one attention, the pairs (B,T,S) that it may join, and its real tokens (B,T).
    With `zeros` a weight may be 0 by design."""

    name: str
    weights: Tensor
    wanted: Tensor
    real: Tensor
    zeros: bool


@dataclass(frozen=True)
class AttentionPlace:
    """What an attention is: whose, in which layer, across to the encoder or not."""

    stack: str
    layer: int
    cross: bool


def allowed_by(settings: ModelSettings, asked: AttentionPlace, rows: Sequence[MarkedRow]) -> Tensor:
    """(B,T,S) the pairs that the config allows."""
    own = settings.attention if isinstance(settings.attention, tuple) else (settings.attention,)
    rule = settings.cross_attention if asked.cross else own[asked.layer % len(own)]
    inside = asked.stack == "encoder" and settings.family == "encoder_decoder"
    mask = Choice("bidirectional") if inside or asked.cross else settings.mask

    def allows(row: MarkedRow, i: int, j: int) -> bool:
        if not row.real[j] or row.document[i] != row.document[j]:
            return False
        if not asked.cross and not fusion_allows(settings.fusion, asked.layer, row, i, j):
            return False
        return mask_allows(mask, row, i, j) and rule_allows(rule, row, i, j, settings.length)

    length = range(len(rows[0]))
    return torch.tensor([[[allows(row, i, j) for j in length] for i in length] for row in rows])


def rows_of(
    model: Model, longest: int, vocabulary: int, patches: int = 0
) -> Iterator[tuple[list[MarkedRow], tuple[Tensor, Tokens]]]:
    """A row of the model's length that nothing is marked in, one with so many patches of a picture, and rows
    with padding, documents and source."""
    generator = torch.Generator().manual_seed(4)
    asks = model.trunk.asks_for_source
    length = int(min(longest, LONGEST))
    whole = MarkedRow(
        [True] * length, [0] * length, list(range(length)), [n < length // 3 for n in range(length)]
    )
    source = torch.tensor([whole.source]) if asks else None
    yield [whole], (random_ids(vocabulary, 1, length, generator), Tokens.of(length, source=source))
    if patches:
        image = [0 < n <= min(patches, length - 2) for n in range(length)]
        patch = torch.tensor([image]).long().cumsum(1) * torch.tensor([image])
        pictured = Tokens.of(length, source=source, patch=patch)
        yield [replace(whole, image=image)], (random_ids(vocabulary, 1, length, generator), pictured)
    short, pad = min(SHORT, length), min(SHORT, length) // 4
    real = [[n >= pad for n in range(short)], [n < short - pad for n in range(short)], [True] * short]
    texts = [[0] * short, [0] * short, [int(n >= short // 2) for n in range(short)]]
    documents = [
        [d if r else -1 for d, r in zip(*both, strict=True)] for both in zip(texts, real, strict=True)
    ]
    marked = torch.tensor(real)
    for line in (slice(0, 2), slice(2, 3)):  # rows are either padded or packed
        packed = torch.tensor(documents)[line] if line.start else None
        first = [[r and sum(kept[:n]) < short // 3 for n, r in enumerate(kept)] for kept in real[line]]
        tokens = Tokens.of(
            short,
            real=None if line.start else marked[line],
            document=packed,
            source=torch.tensor(first) if asks else None,
        )
        count = len(real[line])
        positions = tokens.position.expand(count, -1).tolist()
        rows = [
            MarkedRow(*columns) for columns in zip(real[line], documents[line], positions, first, strict=True)
        ]
        yield rows, (random_ids(vocabulary, count, short, generator), tokens)


def random_ids(vocabulary: int, rows: int, length: int, generator: torch.Generator) -> Tensor:
    return torch.randint(vocabulary, (rows, length), generator=generator)


@torch.no_grad()
def weights_of(model: Model, rows: tuple[Tensor, Tokens]) -> list[tuple[str, Tensor, AttentionPlace]]:
    """The weights (B,H,T,S) of every attention, as its own fast path computes them."""
    ids, tokens = rows
    recorded: list[tuple[str, Tensor, AttentionPlace]] = []
    assert isinstance(model.trunk, Transformer)
    for stack, part in model.trunk.stacks().items():
        layers = {False: 0, True: 0}
        for number, attention in enumerate(part.attentions()):
            cross = isinstance(attention, CrossAttention)
            asked = AttentionPlace(stack, layers[cross], cross)
            layers[cross] += 1
            attention.attend = recording(attention, f"{stack}, layer {number}", asked, recorded)  # type: ignore[method-assign]
    source: dict[str, Any] = {}
    if model.trunk.reads_source:
        source = {"source": ids, "source_tokens": tokens}
    try:
        model(ids, tokens, objective=hidden_states, **source)
    finally:
        for part in model.trunk.stacks().values():
            for attention in part.attentions():
                del attention.attend
    return recorded


def recording(
    attention: Attention, name: str, asked: AttentionPlace, recorded: list[tuple[str, Tensor, AttentionPlace]]
) -> Callable[..., Tensor]:
    """The attention's own `attend`, which is also asked for its weights: by values that are unit vectors."""
    own = attention.attend

    def attend(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Tensor:
        unit = torch.eye(k.shape[2], dtype=v.dtype).expand(*v.shape[:2], -1, -1)
        weights = own(q, k, unit, *rest)
        recorded.append((name, weights, asked))
        return own(q, k, v, *rest)

    return attend
