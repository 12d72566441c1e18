"""Parameters, floating-point operations and memory of a model, in closed form.

Formulas use the letters of every file: D width, E feed-forward width, H heads, K head width,
L layers, N length, V vocabulary; T queries and S keys of a row.
"""

from __future__ import annotations

from dataclasses import dataclass

from attnlab.model.blocks import Alone, Attention, CrossAttention, Residual
from attnlab.model.feedforward import FeedForward, Gated
from attnlab.model.model import Model
from attnlab.model.terms import Term, linear, terms_of
from attnlab.model.transformer import Embedding, Stack


# ---------------------------------------------------------------- parameters
def parameter_terms(model: Model) -> list[Term]:
    """Every parameter, part by part, from the parts' sizes alone."""
    terms: list[Term] = []
    tables: set[int] = set()
    for name, stack in model.trunk.stacks().items():
        embedding = _embedding_terms(stack.embedding, tables)
        blocks = [t for part in _first_block(stack) for t in _residual_terms(part)]
        repeated = [term.times(len(stack.blocks), "L") for term in blocks]
        stacked = [*embedding, *repeated, *(t.inside("final") for t in terms_of(stack.final))]
        terms += [term.inside(name) for term in stacked]
    adapter = [] if model.adapter is None else model.adapter.terms()
    return terms + [term.inside("head") for term in model.head.parameter_terms()] + adapter


def _first_block(stack: Stack) -> list[Residual]:
    parts = list(stack.parts())
    return parts[: len(parts) // len(stack.blocks)]


def _embedding_terms(embedding: Embedding, seen: set[int]) -> list[Term]:
    """Tokens, types, positions and norm. A table that both stacks share counts once."""
    narrow = embedding.positions.narrows
    formula = "V·(D−part)" if narrow else "V·D"
    terms = []
    if id(embedding.tokens) not in seen:
        table = embedding.tokens
        terms.append(Term("tokens", formula, table.num_embeddings * table.embedding_dim))
        seen.add(id(table))
    if embedding.types is not None:
        types = embedding.types
        terms.append(Term("types", "types·D", types.num_embeddings * types.embedding_dim))
    terms += embedding.positions.parameter_terms() + terms_of(embedding.norm)
    return [term.inside("embedding") for term in terms]


def _residual_terms(part: Residual) -> list[Term]:
    inner = part.inner
    if isinstance(inner, Alone):
        name, terms = "feedforward", terms_of(inner.part)
    else:
        assert isinstance(inner, Attention)
        name = "cross-attention" if isinstance(inner, CrossAttention) else "attention"
        p = inner.projections
        biased = inner.output.bias is not None
        output = linear("output", p.heads * p.head_width, p.width, biased, "HK·D")
        terms = [*p.parameter_terms(), *inner.rule.parameter_terms(), output]
    return [term.inside(name) for term in (*terms_of(part.norm), *terms)]


# ---------------------------------------------------------------- operations
def flop_terms(model: Model, length: int, source_length: int) -> list[Term]:
    """Operations of one forward over one row: attention between tokens apart from the maps of each token."""
    terms: list[Term] = []
    for name, stack in model.trunk.stacks().items():
        main = stack is model.trunk.main
        queries = length if main else source_length
        letter = "N" if name == "decoder" else "M"
        layers = len(stack.blocks)
        maps = between = crossing = 0
        for part in _first_block(stack):
            inner = part.inner
            if isinstance(inner, Alone):
                assert isinstance(inner.part, FeedForward)
                maps += inner.part.flops(queries)
                continue
            assert isinstance(inner, Attention)
            crosses = isinstance(inner, CrossAttention)
            p = inner.projections
            maps += p.flops(queries, source_length if crosses else 0)
            maps += 2 * queries * p.heads * p.head_width * p.width
            keys = source_length if crosses else queries
            found = inner.rule.flops(queries, keys, p.heads, p.head_width)
            between, crossing = between + (0 if crosses else found), crossing + (found if crosses else 0)
        terms.append(Term(f"{name} maps", f"L·2{letter}·(weights of a block)", layers * maps))
        terms.append(Term(f"{name} self-attention", f"O({letter}²d)", layers * between))
        if crossing:
            terms.append(Term("cross-attention", "O(MNd)", layers * crossing))
    return [*terms, Term("head", "2·(its weights)·(its positions)", model.head.flops(length))]


# ---------------------------------------------------------------- memory
def activation_terms(model: Model, length: int, source_length: int) -> list[Term]:
    """Numbers that the backward keeps for one row, as torch saves them without dropout."""
    terms = []
    for name, stack in model.trunk.stacks().items():
        main = stack is model.trunk.main
        queries = length if main else source_length
        kept = sum(_kept(part, queries, source_length) for part in _first_block(stack))
        terms.append(Term(f"{name} blocks", "L·(each part's inputs)", len(stack.blocks) * kept))
        width = stack.embedding.tokens.embedding_dim + stack.positions.narrows
        terms.append(Term(f"{name} output", "2·T·D", 2 * queries * width))
    return terms


def _kept(part: Residual, queries: int, source_length: int) -> int:
    """Inputs of the norm, of the maps, of the rule, of the activation."""
    inner = part.inner
    if isinstance(inner, Alone):
        assert isinstance(inner.part, FeedForward)
        hidden = (4 if isinstance(inner.part, Gated) else 2) * inner.part.hidden
        return queries * (2 * inner.part.width + hidden)
    assert isinstance(inner, Attention)
    p = inner.projections
    keys = source_length if isinstance(inner, CrossAttention) else queries
    head = p.heads * p.head_width
    rule = inner.rule.saved_elements(queries, keys, p.heads, p.head_width)
    return queries * (2 * p.width + 2 * head) + 2 * keys * head + rule


@dataclass(frozen=True)
class Counts:
    """What a model costs."""

    parameters: list[Term]
    total: int
    flops: list[Term]
    activations: list[Term]
    length: int
    batch: int
    bytes_each: int

    @property
    def closed_form(self) -> int:
        return sum(term.count for term in self.parameters)

    @property
    def forward(self) -> int:
        """Operations of one forward over one row."""
        return sum(term.count for term in self.flops)

    @property
    def memory(self) -> dict[str, int]:
        """Bytes of a training step with AdamW; activations are an estimate."""
        weights = self.total * self.bytes_each
        kept = sum(term.count for term in self.activations) * self.batch * self.bytes_each
        parts = {"weights": weights, "gradients": weights, "optimizer": 2 * weights, "activations": kept}
        return parts | {"total": sum(parts.values())}

    def as_json(self) -> dict[str, object]:
        def listed(terms: list[Term]) -> list[dict[str, object]]:
            return [{"name": t.name, "formula": t.formula, "count": t.count} for t in terms]

        parameters = {"total": self.total, "closed_form": self.closed_form, "terms": listed(self.parameters)}
        flops = {
            "forward": self.forward,
            "backward": 2 * self.forward,
            "forward_per_token": self.forward / self.length,
            "backward_per_token": 2 * self.forward / self.length,
            "length": self.length,
            "terms": listed(self.flops),
        }
        return {"parameters": parameters, "flops": flops, "memory": self.memory | {"batch": self.batch}}


def count(model: Model, *, length: int, source_length: int, batch: int, bytes_each: int = 4) -> Counts:
    """Everything at once. The model may stand on the device "meta", where it costs nothing."""
    return Counts(
        parameters=parameter_terms(model),
        total=sum(p.numel() for p in model.parameters()),
        flops=flop_terms(model, length, source_length),
        activations=activation_terms(model, length, source_length),
        length=length,
        batch=batch,
        bytes_each=bytes_each,
    )
