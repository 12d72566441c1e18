"""One layer of a recurrent network over rows of texts, by torch's own kernels: GRU and LSTM."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from attnlab.model.cache import LayerMemory
from attnlab.model.draws import Dropout, fill_normal
from attnlab.model.terms import Term
from attnlab.model.tokens import Tokens


# ---------------------------------------------------------------- texts in rows
@dataclass(frozen=True)
class Texts:
    """The texts of a batch of rows, each a sequence of its own: padding left out, packed documents apart.

    `row` and `document` (N) say where each is from; `places` are the real tokens of the flattened rows in the
    order in which torch packs sequences: the first of every text, longest text first, then the second.
    """

    row: Tensor
    document: Tensor | None
    places: Tensor
    sizes: Tensor  # how many texts have a first token, a second, …
    longest_first: Tensor

    def pack(self, x: Tensor) -> PackedSequence:
        """x (B,T,D) as torch's kernels take sequences of different lengths."""
        return PackedSequence(
            x.flatten(0, 1).index_select(0, self.places),
            self.sizes,
            self.longest_first,
            self.longest_first.argsort(),
        )

    def unpack(self, y: PackedSequence, rows: int, length: int) -> Tensor:
        """The same in rows again (B,T,D); zeros at padding."""
        flat = y.data.new_zeros(rows * length, y.data.shape[1]).index_copy(0, self.places, y.data)
        return flat.view(rows, length, -1)


def texts_of(tokens: Tokens, rows: int) -> Texts | None:
    """The texts of so many rows; None where each row is one text and nothing else."""
    real, document = tokens.real, tokens.document
    if document is None and (real is None or bool(real.all())):
        return None
    shape = rows, tokens.length
    there = torch.ones(1, 1, dtype=torch.bool, device=tokens.index.device) if real is None else real
    row, place = there.expand(shape).nonzero(as_tuple=True)
    own = row[None] if document is None else torch.stack([row, document.expand(shape)[row, place]])
    texts, text_of, lengths = own.unique_consecutive(dim=1, return_inverse=True, return_counts=True)
    longest_first = lengths.argsort(descending=True, stable=True)
    step = torch.arange(len(row), device=row.device) - (lengths.cumsum(0) - lengths)[text_of]
    order = (step * len(lengths) + longest_first.argsort()[text_of]).argsort()
    return Texts(
        row=texts[0],
        document=None if document is None else texts[1],
        places=(row * tokens.length + place)[order],
        sizes=step.bincount().cpu(),
        longest_first=longest_first,
    )


def fixed_vector(encoded: Tensor, tokens: Tokens, texts: Texts | None, rows: int) -> Tensor:
    """What a decoder is told of a source (B,S,D) without attention, one vector (N,D) for each row, or for
    each text where documents are packed: of each direction the state after its last token."""
    row = torch.arange(rows, device=encoded.device)
    document = None if texts is None else texts.document
    if texts is not None and document is not None:
        row = texts.row
    encoded = encoded.expand(rows, -1, -1)
    there = encoded.new_ones(len(row), encoded.shape[1], dtype=torch.bool)
    if tokens.real is not None:
        there = there & tokens.real.expand(rows, -1)[row]
    if document is not None:
        assert tokens.document is not None
        there = there & (tokens.document.expand(rows, -1)[row] == document[:, None])
    first = there.long().argmax(1)
    last = there.shape[1] - 1 - there.long().flip(1).argmax(1)
    half = encoded.shape[2] // 2
    vectors = torch.cat([encoded[row, last, :half], encoded[row, first, half:]], 1)
    return vectors * there.any(1, keepdim=True)


def documents_of(tokens: Tokens) -> list[int | None]:
    """Of one row: the document of each token, None of padding."""
    document = torch.zeros(tokens.length) if tokens.document is None else tokens.document[0]
    real = torch.ones(tokens.length) if tokens.real is None else tokens.real[0]
    return [int(of) if there else None for of, there in zip(document, real, strict=True)]


def read_so_far(words: Sequence[Hashable], tokens: Tokens, order: Iterable[int]) -> list[Hashable]:
    """For each token the words of its document that were read when it has been, as one number."""
    document, colours = documents_of(tokens), list[Hashable](words)
    last: tuple[int | None, Hashable] = None, None
    for place in order:
        if document[place] is None:
            colours[place] = None
            continue
        before = last[1] if last[0] == document[place] else None
        colours[place] = hash((before, words[place]))
        last = document[place], colours[place]
    return colours


class RecurrentState(LayerMemory):
    """What one layer hands on from token to token: of each row (B,D) its h, and the cell c of an LSTM.

    Where documents are packed it is that of each text (N,D) instead, and where they begin.
    """

    def __init__(self, vectors: Sequence[Tensor] = ()):
        self.vectors = tuple(vectors)

    def start(self, texts: Texts | None) -> tuple[Tensor, ...]:
        """The vectors that texts begin with."""
        if texts is None or texts.document is not None:
            return self.vectors
        return tuple(vector[texts.row] for vector in self.vectors)

    def keep(self, vectors: Sequence[Tensor], texts: Texts | None, rows: int) -> None:
        """Remember where texts ended; a row without a token keeps what it had."""
        if texts is None or texts.document is not None:
            self.vectors = tuple(vectors)
            return
        before = self.vectors or tuple(new.new_zeros(rows, new.shape[1]) for new in vectors)
        pairs = zip(before, vectors, strict=True)
        self.vectors = tuple(old.index_copy(0, texts.row, new) for old, new in pairs)

    def select(self, rows: Tensor) -> None:
        self.vectors = tuple(vector[rows] for vector in self.vectors)


# ---------------------------------------------------------------- kernels
KEEPING = 1
"""Which of torch's gates keeps the old state: z of a GRU's r, z, n, and f of an LSTM's i, f, g, o."""


class DrawnGates(nn.RNNBase):
    """What torch's kernels lack: first weights from a generator."""

    @torch.no_grad()
    def initialise(self, generator: torch.Generator | None) -> None:
        """Weights as a linear map has them; biases 0, but 1 at the gate that keeps the old state, without
        which half of it is lost with every token (Jozefowicz et al. 2015)."""
        for name, weight in self.named_parameters():
            if name.startswith("weight"):
                fill_normal(weight, weight.shape[1] ** -0.5, generator)
                continue
            nn.init.zeros_(weight)
            if name.startswith("bias_ih"):
                weight.view(-1, self.hidden_size)[KEEPING].fill_(1.0)


class GRUKernel(DrawnGates, nn.GRU):
    """torch's GRU, of one layer."""

    gates, states = 3, 1


class LSTMKernel(DrawnGates, nn.LSTM):
    """torch's LSTM, of one layer."""

    gates, states = 4, 2


class RecurrentLayer(nn.Module):
    """A layer from left to right, or one of half the width in each direction, side by side."""

    def __init__(
        self,
        kernel: type[GRUKernel] | type[LSTMKernel],
        width: int,
        *,
        both_ways: bool,
        bias: bool,
        dropout: float,
    ):
        super().__init__()
        self.width, self.ways, self.biased = width, 2 if both_ways else 1, bias
        self.kernel = kernel(width, width // self.ways, bias=bias, batch_first=True, bidirectional=both_ways)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, texts: Texts | None = None, state: RecurrentState | None = None) -> Tensor:
        """(B,T,D) -> (B,T,D). Texts begin with the state where one is given, which then is that of their
        last tokens; without one they begin with zeros."""
        if texts is not None and not len(texts.row):  # nothing but padding
            return x.new_zeros(x.shape)
        start = self._for_kernel(() if state is None else state.start(texts))
        y, end = self.kernel(x if texts is None else texts.pack(x), start)
        if texts is not None:
            y = texts.unpack(y, *x.shape[:2])
        if state is not None:
            state.keep([vector[0] for vector in _as_tuple(end)], texts, len(x))
        return self.dropout(y)

    def _for_kernel(self, vectors: tuple[Tensor, ...]) -> Any:
        """A start (N,D) as torch takes it: with a dimension for layers; h and c as a pair."""
        if not vectors:
            return None
        h, *cell = (vector[None].contiguous() for vector in vectors)
        return (h, *cell) if cell else h

    def parameter_terms(self) -> list[Term]:
        """G gates of a map from the input, a map from the state, and a bias of each."""
        gates, inner = self.kernel.gates, self.width // self.ways
        each = f"{gates}·" if self.ways == 1 else f"2·{gates}·"
        h = "D" if self.ways == 1 else "D/2"
        count = self.ways * gates * inner
        terms = [
            Term("input map", f"{each}D·{h}", count * self.width),
            Term("state map", f"{each}{h}·{h}", count * inner),
        ]
        return [*terms, Term("biases", f"2·{each}{h}", 2 * count)] if self.biased else terms

    def flops(self, tokens: int) -> int:
        """Of one forward: two for each weight and token; gates are not counted, as activations are not."""
        inner = self.width // self.ways
        return 2 * tokens * self.ways * self.kernel.gates * inner * (self.width + inner)


def _as_tuple(end: Any) -> tuple[Tensor, ...]:
    return end if isinstance(end, tuple) else (end,)
