"""Attention maps: which tokens each token looks at in each layer and head, and what each head is worth."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from attnlab.config.values import ConfigError
from attnlab.config.wording import count_of
from attnlab.documents.nodes import Grid, Inline, Node, Number, Table
from attnlab.documents.numbers import short
from attnlab.explain import attention_page
from attnlab.explain.ablation import HeadName, effect_definition, effects
from attnlab.explain.explanation import Explanation
from attnlab.explain.head_kinds import KINDS, NAMED_AT, REPEATED, TIMES, distance, entropy, kind_of, shares
from attnlab.model.capture import capture
from attnlab.model.isolation import undisturbed
from attnlab.model.model import Model, hidden_states
from attnlab.model.places import places_of, require_attention
from attnlab.model.tokens import Tokens
from attnlab.model.trunks.two_encoders import TwoEncoders

WORDS = 24
"""Random words that come twice, for the kinds of heads that look for a token again."""
STRONGEST = 3
"""Keys that are named for each query where a map does not fit a terminal."""


def attention_weights(model: Model, ids: Tensor, tokens: Tokens | None = None) -> list[Tensor]:
    """The self-attention weights of each layer (B,H,T,S) over ids (B,T), by each rule's plain reference."""
    with undisturbed(model), capture(model, *weights_places(model)) as seen:
        model(ids, tokens, objective=hidden_states)
    return list(seen.values())


@dataclass(frozen=True)
class RowOfText:
    """One row as a model reads it, and how its tokens are written.

    `inputs` are the model's own (ids (1,T), tokens, types, source …); `delimiters` marks special tokens and
    punctuation of the text. `written` are the tokens that a decoder writes at each place of its text, after
    what it has read there: the rows of an alignment with `source_words`.
    """

    inputs: Mapping[str, Any]
    words: Sequence[str]
    delimiters: Sequence[bool]
    source_words: Sequence[str] = ()
    written: Sequence[str] = ()

    @property
    def ids(self) -> list[int]:
        ids: list[int] = self.inputs["ids"][0].tolist()
        return ids

    @property
    def pictured(self) -> bool:
        """Whether patches of a picture are read beside the ids."""
        return self.inputs.get("vectors") is not None


@dataclass(frozen=True)
class LayerMaps:
    """The weights (H,T,S) of one attention layer, and what stands at its queries and keys."""

    name: str
    heads: str
    """The place of its heads, as `lab.patch` takes it."""
    weights: Tensor
    queries: Sequence[str]
    keys: Sequence[str]
    allowed: Tensor | None = None
    """(T,S): the pairs that the mask allows, where that is known."""

    @property
    def allowed_pairs(self) -> list[list[bool]]:
        """Every pair that the mask allows, or on which a head has weight all the same."""
        if self.allowed is None:
            return [[True] * len(self.keys) for _ in self.queries]
        pairs: list[list[bool]] = (self.allowed | (self.weights != 0).any(0)).tolist()
        return pairs


@dataclass(frozen=True)
class HeadReading:
    """One head in numbers: nats of entropy, tokens of distance, its kind, and the output without it."""

    layer: int
    name: HeadName
    entropy: float
    distance: float | None
    kind: str
    shares: Mapping[str, float]
    effect: float


@dataclass(frozen=True)
class AttentionMaps(Explanation):
    """Every layer and head on one text, each picture beside its test: the output without that head."""

    layers: Sequence[LayerMaps]
    heads: Sequence[HeadReading]
    effect: str
    """What `HeadReading.effect` is."""
    chance: Mapping[str, float] = field(default_factory=dict)
    """Each kind's share by chance: with equal weights on all allowed keys."""
    shown: int = -1
    """The layer to show first, and its head; by default the head whose removal moves the output most."""
    shown_head: int = -1
    most: int = 12
    """Heads that the table in a terminal lists."""

    kind = "attention"

    @cached_property
    def ranked(self) -> list[HeadReading]:
        return sorted(self.heads, key=lambda head: -head.effect)

    @property
    def chosen(self) -> HeadReading:
        """The head that is shown large: of an encoder-decoder one that aligns target and source, unless
        another is asked for."""
        wanted = [
            head
            for head in self.ranked
            if self.shown in (-1, head.layer) and self.shown_head in (-1, head.name.number)
        ]
        aligning = [head for head in wanted if head.name.crosses]
        return (aligning if aligning and self.shown == self.shown_head == -1 else wanted)[0]

    @property
    def headline(self) -> str:
        largest, middle = self.ranked[0], self.ranked[len(self.ranked) // 2]
        if len(self.heads) == 1:
            return f"Removing the model's only head changes the output by {short(largest.effect)}."
        return (
            f"Removing {largest.name} changes the output most ({short(largest.effect)}); removing the median "
            f"head changes it by {short(middle.effect)}."
        )

    @property
    def remark(self) -> str:
        named = sum(head.kind in KINDS for head in self.heads) or "none"
        return (
            f"{count_of(len(self.heads), 'head')} in {count_of(len(self.layers), 'layer')}, "
            f"{named} of them of a named kind. The weights alone do not show which head matters."
        )

    def parts(self) -> list[Node]:
        return [self.large(self.chosen), self.overview(), self.table(self.most)]

    def overview(self) -> Grid:
        """Every head's effect, a row a layer."""
        most = max(layer.weights.shape[0] for layer in self.layers)
        values = [[0.0] * most for _ in self.layers]
        for head in self.heads:
            values[head.layer][head.name.number] = head.effect
        names = [layer.name for layer in self.layers]
        return Grid(
            names, [str(h) for h in range(most)], values, title="Change of the output without each head"
        )

    def large(self, head: HeadReading) -> Grid:
        layer = self.layers[head.layer]
        weights = layer.weights[head.name.number].tolist()
        allowed = layer.allowed_pairs
        shown = [
            [weight if may else None for weight, may in zip(row, pairs, strict=True)]
            for row, pairs in zip(weights, allowed, strict=True)
        ]
        named = "" if head.name.crosses else f"{head.kind}; "
        properties = f"{named}entropy {head.entropy:.2f} nats" + (
            "" if head.distance is None else f", mean distance {head.distance:.1f} tokens"
        )
        sides = "Rows are tokens as they are written, columns the source" if head.name.crosses else ""
        return Grid(
            [f"{number} {word}" for number, word in enumerate(layer.queries)],
            [f"{number} {word}" for number, word in enumerate(layer.keys)],
            shown,
            aside=[strongest(row, layer.keys) for row in weights],
            upright=head.name.crosses,
            title=f"{'Alignment by ' if head.name.crosses else ''}{head.name}: {properties}",
            note=f"{sides or 'Rows attend to columns'}. Without this head: {short(head.effect)} (rank "
            f"{self.ranked.index(head) + 1} of {len(self.heads)}).",
        )

    def table(self, most: int) -> Table:
        rows: list[list[Inline]] = [
            [
                *(self.layers[h.layer].name, h.name.number, h.kind),
                *(Number(h.entropy, decimals=2), Number(h.distance, decimals=1), h.effect),
            ]
            for h in self.ranked[:most]
        ]
        left = len(self.heads) - len(rows)
        kinds = "; ".join(f"{kind}: {keys}" for kind, keys in KINDS.items())
        return Table(
            ("layer", "head", "kind", "entropy", "distance", "without it"),
            rows,
            title="Heads by what the output loses without them"
            + (f", the first {len(rows)}" if left else ""),
            note=f"Without it: {self.effect}. Entropy in nats, distance in tokens, means over queries. A "
            f"head is of a kind when at least {NAMED_AT:.0%} of its weight, and {TIMES:g} times what equal "
            f"weights would give, is on: {kinds}.",
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "effect": self.effect,
            "chance": dict(self.chance),
            "heads": [
                {
                    "layer": self.layers[head.layer].name,
                    "head": head.name.number,
                    "place": head.name.place,
                    "kind": head.kind,
                    "shares": dict(head.shares),
                    "entropy": head.entropy,
                    "distance": head.distance,
                    "without_it": head.effect,
                }
                for head in self.heads
            ],
            "layers": [
                {
                    "name": layer.name,
                    "queries": list(layer.queries),
                    "keys": list(layer.keys),
                    "weights": [
                        [[round(w, 5) for w in row] for row in head] for head in layer.weights.tolist()
                    ],
                }
                for layer in self.layers
            ],
        }

    def page_parts(self) -> list[Node]:
        return [attention_page.frame(self)]


def strongest(weights: Sequence[float], keys: Sequence[str]) -> list[str]:
    """Where a query looks most, in words."""
    order = sorted(range(len(weights)), key=lambda place: -weights[place])[:STRONGEST]
    return [f"{place} {keys[place]}"[:14] + f" {weights[place]:.2f}" for place in order]


def attention_maps(model: Model, row: RowOfText, *, layer: int = -1, head: int = -1) -> AttentionMaps:
    """The weights of every layer and head on one row, what kind each head is of, and what it is worth."""
    layers = _layers(model, row)
    ways = model.trunk.ways(row.inputs.get("tokens") or Tokens.of(len(row.ids)))
    near = ways[0].near if ways else torch.ones(len(row.ids), len(row.ids), dtype=torch.bool)
    layers = [replace(maps, allowed=_allowed(maps, near)) if _own(maps, row) else maps for maps in layers]
    counts = {layer.heads: layer.weights.shape[0] for layer in layers}
    moved = effects(model, row.inputs, counts)
    own = [place for place, readings in enumerate(layers) if readings.queries is row.words is readings.keys]
    plain = [kind for kind in KINDS if kind not in REPEATED]
    on_text = {p: shares(layers[p].weights, near, row.ids, row.delimiters, plain) for p in own}
    again = _repeated_shares(model, row) if ways and len(own) == len(layers) else {}
    readings = []
    for place, maps in enumerate(layers):
        of_kinds = on_text.get(place, {}) | again.get(place, {})
        square = maps.queries is maps.keys
        spread, apart = entropy(maps.weights), distance(maps.weights) if square else None
        for number in range(maps.weights.shape[0]):
            name = HeadName(maps.heads, number)
            readings.append(
                HeadReading(
                    layer=place,
                    name=name,
                    entropy=float(spread[number]),
                    distance=None if apart is None else float(apart[number]),
                    kind=kind_of(of_kinds, number) if of_kinds else "–",
                    shares={kind: float(share.of_heads[number]) for kind, share in of_kinds.items()},
                    effect=moved[name],
                )
            )
    chances = {kind: s.chance for p in own for kind, s in (on_text[p] | again.get(p, {})).items()}
    made = AttentionMaps(layers, readings, effect_definition(model), chances, layer, head)
    if not any(layer in (-1, h.layer) and head in (-1, h.name.number) for h in readings):
        most = max(maps.weights.shape[0] for maps in layers)
        wanted = " and ".join(f"{n} {v}" for n, v in (("layer", layer), ("head", head)) if v != -1)
        raise ConfigError(f"There is no {wanted}: layers are 0 to {len(layers) - 1}, heads 0 to {most - 1}.")
    return made


def _own(maps: LayerMaps, row: RowOfText) -> bool:
    """Whether the row attends to itself; virtual tokens may stand before its keys."""
    return maps.queries is row.words and list(maps.keys[-len(row.words) :]) == list(row.words)


def _allowed(maps: LayerMaps, near: Tensor) -> Tensor:
    """The pairs (T,S) that the mask allows, virtual tokens for all."""
    before = len(maps.keys) - near.shape[-1]
    return torch.nn.functional.pad(near.cpu(), (before, 0), value=True)


def weights_places(model: Model, *, pictured: bool = False) -> list[str]:
    """The weights of every attention layer: an encoder's, then a decoder's, cross-attention included. Of two
    encoders those of the one that reads: a text, or what is `pictured`."""
    require_attention(model.trunk)
    sides = ("encoder.", "decoder.") if model.trunk.reads_source else ("",)
    if isinstance(model.trunk, TwoEncoders):
        sides = ("image.",) if pictured else ("text.",)
    patterns = [f"{side}layers.*.attention.weights" for side in sides]
    patterns += ["decoder.layers.*.cross_attention.weights"] if model.trunk.reads_source else []
    return [name for pattern in patterns for name in fnmatch.filter(places_of(model.trunk), pattern)]


def layers_heads(model: Model, *, pictured: bool = False) -> list[list[HeadName]]:
    """Every head of every attention layer, in the order of the maps."""
    places = places_of(model.trunk)
    layers = [
        place.replace("attention.weights", "heads") for place in weights_places(model, pictured=pictured)
    ]
    return [
        [
            HeadName(heads, int(name.removeprefix(f"{heads}.")))
            for name in places
            if name.startswith(f"{heads}.")
        ]
        for heads in layers
    ]


def _layers(model: Model, row: RowOfText) -> list[LayerMaps]:
    """Every attention layer on the row."""
    names = weights_places(model, pictured=row.pictured)
    with undisturbed(model), capture(model, *names) as seen:
        model(**row.inputs, objective=hidden_states)
    layers = []
    for place, weights in seen.items():
        reads, crosses = place.startswith("encoder."), "cross" in place
        queries = row.source_words if reads else (crosses and row.written) or row.words
        keys = row.source_words if reads or crosses else row.words
        before = weights.shape[-1] - len(keys)  # an adapter's virtual tokens
        given = ["[virtual]"] * before
        heads = place.replace("attention.weights", "heads")
        layers.append(
            LayerMaps(
                name=HeadName(heads, 0).layer,
                heads=heads,
                weights=weights[0, :, weights.shape[2] - len(queries) :].detach().float().cpu(),
                queries=queries,
                keys=[*given, *keys] if before else keys,
            )
        )
    return layers


def _repeated_shares(model: Model, row: RowOfText) -> dict[int, Any]:
    """Shares of the kinds that look for a token again, on random words that come twice."""
    count = int(min(WORDS, model.trunk.longest // 2))
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randperm(model.common_vocabulary, generator=generator)[:count].tolist() * 2
    source = (torch.arange(len(drawn)) < len(drawn) // 2)[None] if model.trunk.asks_for_source else None
    tokens = Tokens.of(len(drawn), source=source)
    near = model.trunk.ways(tokens)[0].near
    device = row.inputs["ids"].device
    layers = attention_weights(model, torch.tensor([drawn], device=device), tokens)
    sized = [weights[0, :, -len(drawn) :, -len(drawn) :].float().cpu() for weights in layers]
    return {p: shares(w, near, drawn, [False] * len(drawn), REPEATED) for p, w in enumerate(sized)}
