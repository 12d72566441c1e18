"""What the stacks of a transformer cost, in closed form; the last one reads the text, one before it a source.

Formulas use the letters of every file: D width, E feed-forward width, H heads, K head width,
L layers, N length, V vocabulary, V' of sources where it is another; T queries and S keys of a row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from attnlab.model.blocks import Attention, CrossAttention, PositionWise, Residual
from attnlab.model.feedforward import FeedForward, Gated
from attnlab.model.stack import Embedding, Stack
from attnlab.model.terms import Term, linear, terms_of

Stacks = Mapping[str, Stack]


# ---------------------------------------------------------------- parameters
def parameter_terms(stacks: Stacks) -> list[Term]:
    """Every parameter, part by part, from the parts' sizes alone."""
    terms: list[Term] = []
    tables: set[int] = set()
    for name, stack in stacks.items():
        embedding = embedding_terms(stack.embedding, tables, letter=table_letter(name, stacks))
        blocks = block_terms(blocks_of(stack), "L")
        stacked = [*embedding, *blocks, *(t.inside("final") for t in terms_of(stack.final))]
        stacked += [term.inside("embedding") for term in terms_of(stack.virtual)]  # those of the model itself
        terms += [term.inside(name) for term in stacked]
    return terms


Parts = Sequence[Residual]
"""The residuals of one block."""


def blocks_of(stack: Stack) -> list[Parts]:
    """The residuals of a stack, block by block."""
    parts, each = list(stack.parts()), len(stack.blocks)
    size = len(parts) // each
    return [parts[at : at + size] for at in range(0, len(parts), size)]


def block_terms(blocks: Sequence[Parts], letter: str) -> list[Term]:
    """The parameters of blocks: what all of them have times `letter`, what some have times their number."""
    terms = Counter(term for block in blocks for part in block for term in _residual_terms(part))
    return [
        term.times(count, letter if count == len(blocks) else str(count)) for term, count in terms.items()
    ]


def table_letter(name: str, stacks: Mapping[str, Any]) -> str:
    """What the rows of a stack's table are called: V, or V' where sources have a vocabulary of their own."""
    tables = {id(stack.embedding.tokens) for stack in stacks.values()}
    return "V'" if name == "encoder" and len(tables) > 1 else "V"


def embedding_terms(embedding: Embedding, seen: set[int], *, letter: str) -> list[Term]:
    """Tokens, types, positions and norm. A table that both stacks share counts once."""
    narrow = embedding.positions.narrows
    formula = f"{letter}·(D−part)" if narrow else f"{letter}·D"
    terms = []
    if id(embedding.tokens) not in seen:
        table = embedding.tokens
        terms.append(Term("tokens", formula, table.num_embeddings * table.embedding_dim))
        seen.add(id(table))
    if embedding.types is not None:
        types = embedding.types
        terms.append(Term("types", "types·D", types.num_embeddings * types.embedding_dim))
    if embedding.vectors is not None:
        entrance = embedding.vectors
        terms.append(
            linear("vectors", entrance.in_features, entrance.out_features, entrance.bias is not None, "W·D")
        )
    terms += embedding.positions.parameter_terms() + terms_of(embedding.norm)
    return [term.inside("embedding") for term in terms]


def _residual_terms(part: Residual) -> list[Term]:
    inner = part.inner
    if isinstance(inner, PositionWise):
        name, terms = "feedforward", terms_of(inner.part)
    else:
        assert isinstance(inner, Attention)
        name = "cross-attention" if isinstance(inner, CrossAttention) else "attention"
        terms = attention_terms(inner)
    return [term.inside(name) for term in (*terms_of(part.norm), *terms)]


def attention_terms(layer: Attention) -> list[Term]:
    """The parameters of one attention layer."""
    p = layer.projections
    output = linear("output", p.heads * p.head_width, p.width, layer.output.bias is not None, "HK·D")
    return [*p.parameter_terms(), *layer.rule.parameter_terms(), output]


# ---------------------------------------------------------------- operations
def flop_terms(stacks: Stacks, length: int, source_length: int) -> list[Term]:
    """Operations of one forward over one row: attention between tokens apart from the maps of each token."""
    terms, last = list[Term](), list(stacks)[-1]
    for name, stack in stacks.items():
        queries = (length if name == last else source_length) + bottleneck(stack)
        letter = "N" if name == "decoder" else "M"
        maps = between = crossing = 0
        growth, across = Counter[str](), Counter[str]()
        for part in stack.parts():
            inner = part.inner
            if isinstance(inner, PositionWise):
                assert isinstance(inner.part, FeedForward)
                maps += inner.part.flops(queries)
                continue
            assert isinstance(inner, Attention)
            crosses = isinstance(inner, CrossAttention)
            p = inner.projections
            maps += p.flops(queries, source_length if crosses else 0)
            maps += 2 * queries * p.heads * p.head_width * p.width
            keys = source_length if crosses else queries
            flops = inner.rule.flops(queries, keys, p.heads, p.head_width)
            if crosses:
                across[inner.rule.growth("M·N", "(M + N)")] += 1
            else:
                growth[inner.rule.growth(f"{letter}²", letter)] += 1
            between, crossing = between + (0 if crosses else flops), crossing + (flops if crosses else 0)
        if stack.embedding.vectors is not None:
            entrance = stack.embedding.vectors
            tokens = length if name == last else source_length
            flops = 2 * tokens * entrance.in_features * entrance.out_features
            terms.append(Term(f"{name} vectors", f"2{letter}·W·D", flops))
        terms.append(Term(f"{name} maps", f"L·2{letter}·(weights of a block)", maps))
        terms.append(Term(f"{name} self-attention", order_of(growth), between))
        if crossing:
            terms.append(Term("cross-attention", order_of(across), crossing))
    return terms


def bottleneck(stack: Stack) -> int:
    """Tokens that the model itself puts before every row."""
    return stack.virtual.count if stack.virtual is not None and stack.virtual.joins else 0


def order_of(growth: Counter[str]) -> str:
    """What the operations of all layers grow as; each kind of layer by itself where they differ."""
    if len(growth) == 1:
        return f"O(L·{next(iter(growth))})"
    return f"O({' + '.join(f'{count}·{formula}' for formula, count in growth.items())})"


# ---------------------------------------------------------------- memory
def activation_terms(stacks: Stacks, length: int, source_length: int) -> list[Term]:
    """Numbers that the backward keeps for one row, as torch saves them without dropout."""
    terms, last = [], list(stacks)[-1]
    for name, stack in stacks.items():
        queries = (length if name == last else source_length) + bottleneck(stack)
        kept = sum(_kept(part, queries, source_length) for part in stack.parts())
        terms.append(Term(f"{name} blocks", "L·(each part's inputs)", kept))
        terms.append(Term(f"{name} output", "2·T·D", 2 * queries * stack.width))
    return terms


def _kept(part: Residual, queries: int, source_length: int) -> int:
    """Inputs of the norm, of the maps, of the rule, of the activation."""
    inner = part.inner
    if isinstance(inner, PositionWise):
        assert isinstance(inner.part, FeedForward)
        hidden = (4 if isinstance(inner.part, Gated) else 2) * inner.part.hidden
        return queries * (2 * inner.part.width + hidden)
    assert isinstance(inner, Attention)
    p = inner.projections
    keys = source_length if isinstance(inner, CrossAttention) else queries
    head = p.heads * p.head_width
    rule = inner.rule.saved_elements(queries, keys, p.heads, p.head_width)
    return queries * (2 * p.width + 2 * head) + 2 * keys * head + rule
