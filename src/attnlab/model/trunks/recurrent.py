"""Recurrent trunks: GRU and LSTM as language model, as encoder, and as encoder-decoder."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import ClassVar, Literal

from torch import Tensor, nn

from attnlab.config.values import Choice, ConfigError
from attnlab.model import recurrent_counts
from attnlab.model.attention import ATTENTION
from attnlab.model.blocks import Attention, CrossAttention, Scope
from attnlab.model.cache import Cache, LayerMemory, coordinates
from attnlab.model.initial import table_std
from attnlab.model.masks import Bidirectional, Causal, Mask
from attnlab.model.norms import NORMS
from attnlab.model.pairs import Pairs
from attnlab.model.positions.position import NoPosition
from attnlab.model.products import LinearMap
from attnlab.model.projections import Projections, Separate
from attnlab.model.reach import square
from attnlab.model.recurrence import (
    GRUKernel,
    LSTMKernel,
    RecurrentLayer,
    RecurrentState,
    Texts,
    documents_of,
    fixed_vector,
    read_so_far,
    texts_of,
)
from attnlab.model.stack import Embedding, cached_sources
from attnlab.model.terms import Term
from attnlab.model.tokens import Tokens
from attnlab.model.trunks.trunk import Sees, Way, encoded_source

AttentionKind = Literal["none", "additive", "dot"]


class RecurrentStack(nn.Module):
    """An embedding and recurrent layers, each of which reads the outputs of the one before."""

    def __init__(self, embedding: Embedding, layers: list[RecurrentLayer]):
        super().__init__()
        self.embedding, self.layers = embedding, nn.ModuleList(layers)

    def parts(self) -> list[RecurrentLayer]:
        return [layer for layer in self.layers if isinstance(layer, RecurrentLayer)]

    def forward(self, x: Tensor, texts: Texts | None, states: Sequence[LayerMemory] = ()) -> Tensor:
        """Embedded tokens (B,T,D) through all layers; with a state of each layer they begin with it."""
        for number, layer in enumerate(self.layers):
            x = layer(x, texts, states[number] if states else None)
        return x


class AttentiveOutput(nn.Module):
    """A decoder's output with what it reads in the source: tanh(W h + attention(h))."""

    def __init__(self, attention: CrossAttention, own: nn.Linear):
        super().__init__()
        self.attention, self.own = attention, own

    def forward(self, x: Tensor, scope: Scope) -> Tensor:
        return (self.own(x) + self.attention(x, scope)).tanh()


class Recurrent(nn.Module):
    """What GRU and LSTM have in common: all but the kernel."""

    kernel: ClassVar[type[GRUKernel] | type[LSTMKernel]]
    longest: float = math.inf
    asks_for_source = False

    def __init__(
        self,
        vocabulary: int,
        width: int,
        layers: int,
        family: Literal["decoder", "encoder", "encoder_decoder"],
        norm: Choice,
        bias: bool | tuple[str, ...],
        dropout: float,
        token_types: int,
        vectors: int,
        embedding_scale: float | Literal["unit", "root"],
        source_vocabulary: int | Literal["shared"] = "shared",
        *,
        attention: AttentionKind = "none",
    ):
        super().__init__()
        self.width = width
        self._refuse(family, bias, attention)

        def stack(table: nn.Embedding, *, both_ways: bool) -> RecurrentStack:
            embedding = Embedding(
                table,
                NoPosition(),
                types=nn.Embedding(token_types, width) if token_types else None,
                vectors=LinearMap(vectors, width) if vectors else None,
                scale=_scale(embedding_scale, width),
                dropout=dropout,
            )
            made = [
                RecurrentLayer(self.kernel, width, both_ways=both_ways, bias=bool(bias), dropout=dropout)
                for _ in range(layers)
            ]
            return RecurrentStack(embedding, made)

        table = nn.Embedding(vocabulary, width)
        read = table if source_vocabulary == "shared" else nn.Embedding(source_vocabulary, width)
        self.encoder = stack(read, both_ways=True) if family != "decoder" else None
        self.decoder = stack(table, both_ways=False) if family != "encoder" else None
        self.bridge = (
            LinearMap(width, self.kernel.states * layers * width, bias=bool(bias))
            if self.reads_source
            else None
        )
        self.output = _attentive(attention, width, bool(bias)) if attention != "none" else None
        self.final = NORMS.build(norm, width=width, bias=bool(bias))

    def _refuse(self, family: str, bias: bool | tuple[str, ...], attention: AttentionKind) -> None:
        name = type(self).__name__.lower()
        if attention != "none" and family != "encoder_decoder":
            raise ConfigError(
                f"{name}(attention={attention}) attends to a source, and model.family {family} has none; use "
                f'model.family encoder_decoder, or trunk "{name}".'
            )
        if family != "decoder" and self.width % 2:
            raise ConfigError(
                f"An encoder reads in both directions with half of the width each, and model.width is "
                f"{self.width}; use {self.width - 1} or {self.width + 1}."
            )
        if isinstance(bias, tuple):
            raise ConfigError(
                f"model.bias is {list(bias)}, which are parts of a transformer's block; use true or false."
            )

    # ---------------------------------------------------------------- what others ask
    def stacks(self) -> dict[str, RecurrentStack]:
        named = {"encoder": self.encoder, "decoder": self.decoder}
        return {name: stack for name, stack in named.items() if stack is not None}

    @property
    def main(self) -> RecurrentStack:
        """The stack whose output a head sees."""
        return list(self.stacks().values())[-1]

    @property
    def sees(self) -> Sees:
        if self.decoder is None:
            return "all"
        return "before" if self.encoder is None else "source and before"

    @property
    def reads_source(self) -> bool:
        return self.encoder is not None and self.decoder is not None

    @property
    def writes(self) -> bool:
        return self.decoder is not None

    def entrances(self) -> list[nn.Module]:
        return [stack.embedding for stack in reversed(self.stacks().values())]

    def tables(self) -> list[nn.Embedding]:
        return [stack.embedding.tokens for stack in reversed(self.stacks().values())]

    def attentions(self) -> dict[str, Attention]:
        return {} if self.output is None else {"decoder, layer 0": self.output.attention}

    def ways(self, tokens: Tokens, source_tokens: Tokens | None = None) -> list[Way]:
        mask: Mask = Bidirectional() if self.decoder is None else Causal()
        pairs = [Pairs(tokens, tokens, mask)]
        if source_tokens is not None and self.reads_source:
            pairs.append(Pairs(tokens, source_tokens))
        return [Way(seen, seen) for seen in map(square, pairs)]

    def contexts(
        self,
        ids: Tensor,
        tokens: Tokens,
        types: Tensor | None = None,
        source: Tensor | None = None,
        source_tokens: Tokens | None = None,
    ) -> list[Hashable]:
        columns = [ids.tolist()] if types is None else [ids.tolist(), types.tolist()]
        words = list[Hashable](zip(*columns, strict=True))
        before = read_so_far(words, tokens, range(len(words)))
        if self.decoder is None:
            after = read_so_far(words, tokens, range(len(words))[::-1])
            return [hash(both) for both in zip(before, after, strict=True)]
        if source is None or source_tokens is None:
            return before
        theirs = list(zip(source.tolist(), documents_of(source_tokens), strict=True))
        read = {d: hash(tuple(word for word, of in theirs if of == d)) for _, d in theirs}
        places = zip(before, documents_of(tokens), strict=True)
        return [hash((own, read.get(document))) for own, document in places]

    def parameter_terms(self) -> list[Term]:
        return recurrent_counts.parameter_terms(self)

    def flop_terms(self, length: int, source_length: int) -> list[Term]:
        return recurrent_counts.flop_terms(self, length, source_length)

    def activation_terms(self, length: int, source_length: int) -> list[Term]:
        return recurrent_counts.activation_terms(self, length, source_length)

    # ---------------------------------------------------------------- forward
    def cache(self) -> Cache:
        """An empty memory for decoding: the state of each layer, and nothing of earlier tokens."""
        if self.decoder is None:
            raise ValueError("An encoder sees its whole text at once: there is nothing to cache.")
        return Cache([RecurrentState() for _ in self.decoder.layers], keep=1)

    def encode(
        self, source: Tensor, tokens: Tokens, types: Tensor | None = None, vectors: Tensor | None = None
    ) -> Tensor:
        """The encoder's output (B,S,D): what was read up to each token, and what is read from there on."""
        if self.encoder is None:
            raise ValueError("A decoder alone has no encoder: give its text as `ids`.")
        x = self.encoder.embedding(source, tokens, types, vectors=vectors)
        encoded: Tensor = self.encoder(x, texts_of(tokens, len(x)))
        return encoded

    def forward(
        self,
        ids: Tensor,
        tokens: Tokens | None = None,
        *,
        types: Tensor | None = None,
        vectors: Tensor | None = None,
        source: Tensor | None = None,
        source_tokens: Tokens | None = None,
        source_types: Tensor | None = None,
        encoded: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """ids (B,T) -> (B,T,D). Without `tokens`, the ids are a row from its start, or go on with the cache.

        With both stacks, `source` (B,S) is encoded, unless `encoded` is given or the cache holds its vector.
        """
        tokens = coordinates(ids, cache) if tokens is None else tokens
        if cache is not None:
            cache.extend(tokens)
        if self.encoder is None or self.decoder is None:
            if source is not None or encoded is not None:
                raise ValueError("Only an encoder-decoder takes a source; this model has one stack.")
            x = self.main.embedding(ids, tokens, types, vectors=vectors)
            states = () if cache is None else cache.layers
            hidden: Tensor = self.final(self.main(x, texts_of(tokens, len(x)), states))
            return hidden
        if vectors is not None:
            raise ValueError("Vectors are read beside the ids of one stack; use an encoder or a decoder.")
        x = self.decoder.embedding(ids, tokens, types)
        if cache is not None and cache.source_tokens is not None:
            return self._decode(x, tokens, cache.source_tokens, cache=cache)
        encoded, source_tokens = encoded_source(self, source, source_tokens, source_types, encoded)
        if cache is not None:
            cache.source_tokens = source_tokens
        return self._decode(x, tokens, source_tokens, encoded=encoded, cache=cache)

    def _decode(
        self,
        x: Tensor,
        tokens: Tokens,
        source_tokens: Tokens,
        *,
        encoded: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """Embedded texts in one call of each kernel: what is read by attention is added to the outputs, and
        enters no state."""
        assert self.decoder is not None
        beams = 1 if cache is None else cache.beams
        pairs = Pairs(tokens.as_one_row(beams), source_tokens)
        if encoded is not None and len(encoded) > len(x):
            x = x.expand(len(encoded), -1, -1)
        texts = texts_of(tokens, len(x))
        states = [RecurrentState() for _ in self.decoder.layers] if cache is None else cache.layers
        if encoded is not None:
            vector = fixed_vector(encoded, source_tokens, texts, len(x))
            for state, start in zip(states, self._starts(vector), strict=True):
                assert isinstance(state, RecurrentState)
                state.vectors = start
        hidden: Tensor = self.decoder(x, texts, states)
        if self.output is not None:

            def sources(projections: Projections) -> tuple[Tensor, Tensor]:
                return cached_sources(projections, encoded, cache, 0)

            hidden = self.output(hidden, Scope(pairs, cross_pairs=pairs, sources=sources, beams=beams))
        final: Tensor = self.final(hidden)
        return final

    def _starts(self, vector: Tensor) -> list[tuple[Tensor, ...]]:
        """The first state of each layer: tanh(W v) for h, W v for the cell of an LSTM."""
        assert self.bridge is not None
        each = self.bridge(vector).unflatten(-1, (-1, self.kernel.states, self.width)).unbind(1)
        return [(layer[:, 0].tanh(), *layer[:, 1:].unbind(1)) for layer in each]


class Gru(Recurrent):
    """GRU: one state that is handed on from token to token, and gates that say what of it is kept.

    Formula: r, z = σ(W x + U h), n = tanh(W x + r⊙U h), h ← (1 − z)⊙n + z⊙h, layer by layer. An encoder
    reads in both directions, D/2 each. As encoder_decoder, v = [the last state from the left, the last from
    the right] starts the decoder: h₀ = tanh(B v). With `attention` (dot, additive) its outputs also read the
    source: tanh(W h + attention(h)), one head, as in Luong; they are not fed back into the recurrence, so
    that a text is trained in one call of torch's kernel. The head sees norm(h), as after a transformer.

    Cost: 6·D² + 6·D parameters a layer (4.5·D² in both directions), 12·n·D² operations in n steps, one after
    another; decoding holds D numbers a layer, however long the text.

    When it helps: as what transformers are compared with: `attention=none` shows the bottleneck of a fixed
    vector, `attention=additive` what attention adds to it. No positions, heads or masks to choose.

    Paper: Cho et al. 2014, "Learning Phrase Representations using RNN Encoder-Decoder"; Bahdanau et al. 2014
    (additive); Luong et al. 2015 (dot, and the order of recurrence and attention).
    """

    kernel = GRUKernel


class Lstm(Recurrent):
    """LSTM: a cell that is added to, behind gates, beside the state that is handed on.

    Formula: i, f, o = σ(W x + U h), g = tanh(W x + U h), c ← f⊙c + i⊙g, h ← o⊙tanh(c), layer by layer.
    Encoder, start of a decoder (c₀ = B v beside h₀ = tanh(B v)) and `attention` as in a GRU.

    Cost: 8·D² + 8·D parameters a layer (6·D² in both directions), 16·n·D² operations in n steps, one after
    another; decoding holds 2·D numbers a layer.

    When it helps: where something is to be kept over many tokens: the cell is changed by sums, which
    gradients pass unhindered where f is 1.

    Paper: Hochreiter and Schmidhuber 1997, "Long Short-Term Memory"; Sutskever et al. 2014, "Sequence to
    Sequence Learning with Neural Networks".
    """

    kernel = LSTMKernel


# ---------------------------------------------------------------- parts
def _attentive(kind: AttentionKind, width: int, bias: bool) -> AttentiveOutput:
    rule = ATTENTION.build(Choice(kind), heads=1, head_width=width, masking="-inf", dropout=0.0)
    projections = Separate(width, 1, width, bias)
    attention = CrossAttention(projections, rule, LinearMap(width, width, bias=bias))
    return AttentiveOutput(attention, LinearMap(width, width, bias=False))


def _scale(scale: float | Literal["unit", "root"], width: int) -> float:
    if scale == "unit":
        return 1 / table_std(width)
    return width**0.5 if scale == "root" else scale
