"""What a recurrent trunk costs, in closed form.

Formulas use the letters of every file: D width, L layers, N length, M source length, V vocabulary, V' of
sources where it is another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlab.model.attention.additive import Additive
from attnlab.model.stack_counts import attention_terms, embedding_terms, table_letter
from attnlab.model.terms import Term, linear, terms_of

if TYPE_CHECKING:
    from attnlab.model.trunks.recurrent import AttentiveOutput, Recurrent

SAVED = 8
"""Numbers that torch keeps of each unit and token: of a GRU and of an LSTM its input, gates and states."""


def parameter_terms(trunk: Recurrent) -> list[Term]:
    """Every parameter, part by part, from the parts' sizes alone."""
    terms, tables, stacks = list[Term](), set[int](), trunk.stacks()
    for name, stack in stacks.items():
        embedding = embedding_terms(stack.embedding, tables, letter=table_letter(name, stacks))
        layers = stack.parts()
        each = [term.times(len(layers), "L").inside("recurrence") for term in layers[0].parameter_terms()]
        terms += [term.inside(name) for term in (*embedding, *each)]
    D = trunk.width
    if trunk.bridge is not None:
        states = trunk.bridge.out_features // D
        formula = "D·LD" if trunk.kernel.states == 1 else f"D·{trunk.kernel.states}LD"
        terms.append(linear("bridge", D, states * D, trunk.bridge.bias is not None, formula))
    if trunk.output is not None:
        attention = attention_terms(trunk.output.attention)
        terms += [term.inside("decoder.attention") for term in attention]
        terms.append(Term("decoder.attention.own state", "D·D", D * D))
    return [*terms, *(term.inside("final") for term in terms_of(trunk.final))]


def flop_terms(trunk: Recurrent, length: int, source_length: int) -> list[Term]:
    """Operations of one forward over one row: two for each weight and token, and attention between tokens."""
    terms, last, D = list[Term](), list(trunk.stacks())[-1], trunk.width
    for name, stack in trunk.stacks().items():
        tokens, letter = (length, "N") if name == last else (source_length, "M")
        count = sum(layer.flops(tokens) for layer in stack.parts())
        terms.append(Term(f"{name} recurrence", f"L·2{letter}·(weights of a layer)", count))
    if trunk.bridge is not None:
        terms.append(Term("bridge", "2·(its weights)", 2 * D * trunk.bridge.out_features))
    if trunk.output is not None:
        p, rule = trunk.output.attention.projections, trunk.output.attention.rule
        maps = p.flops(length, source_length) + 2 * 2 * length * D * D
        terms.append(Term("decoder attention maps", "2·(N + M)·(weights)", maps))
        pairs = rule.flops(length, source_length, 1, D)
        terms.append(Term("cross-attention", f"O({rule.growth('M·N', '(M + N)')})", pairs))
    return terms


def activation_terms(trunk: Recurrent, length: int, source_length: int) -> list[Term]:
    """Numbers that the backward keeps for one row, as torch's plain kernels save them without dropout."""
    terms, last, D = list[Term](), list(trunk.stacks())[-1], trunk.width
    for name, stack in trunk.stacks().items():
        tokens, letter = (length, "N") if name == last else (source_length, "M")
        kept = SAVED * tokens * D * len(stack.layers)
        terms.append(Term(f"{name} recurrence", f"{SAVED}·L·{letter}·D", kept))
    if trunk.decoder is not None and trunk.bridge is not None:
        cells = (trunk.kernel.states - 1) * len(trunk.decoder.layers)
        terms.append(Term("bridge", "D + L·D" if cells else "D", D + cells * D))
    if trunk.output is not None:
        kept = 3 * (length + source_length) * D + _kept_by_rule(trunk.output, length, source_length)
        terms.append(Term("cross-attention", "3·(N + M)·D + (its rule's)", kept))
    if terms_of(trunk.final):  # its input, which attention has kept already, and two statistics of each token
        inputs = 0 if trunk.output is not None else D
        terms.append(Term("final norm", "N·(D + 2)" if inputs else "2·N", length * (inputs + 2)))
    return terms


def _kept_by_rule(output: AttentiveOutput, queries: int, keys: int) -> int:
    """The fused dot product keeps its output; additive attention its weights, both maps' outputs, and what is
    read."""
    rule, D = output.attention.rule, output.own.in_features
    if isinstance(rule, Additive):
        return queries * keys + (queries + keys) * rule.hidden + queries * D
    return rule.saved_elements(queries, keys, 1, D)
