"""The transformer written the slow and obvious way, in numpy, one query at a time.

It shares no code with the model: it reads a config's choices and a model's parameters by name.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray


# ---------------------------------------------------------------- coordinates
class Row:
    """One row of tokens: what is real, which document, which source, and the positions that follow."""

    def __init__(self, length, *, real=None, document=None, source=None, group=None):
        self.length = length
        self.real = [True] * length if real is None else [bool(r) for r in real]
        self.document = [0] * length if document is None else [int(d) for d in document]
        self.source = [False] * length if source is None else [bool(s) for s in source]
        self.group = None if group is None else [int(g) for g in group]
        self.position, count = [], 0
        for t in range(length):
            if t and self.document[t] != self.document[t - 1]:
                count = 0
            count += self.real[t]
            self.position.append(max(count - 1, 0))


def may_attend(mask: Any, row: Row, i: int, j: int) -> bool:
    """The model's own pattern."""
    options = mask.options
    match mask.kind:
        case "causal":
            return j <= i
        case "bidirectional":
            return True
        case "prefix":
            return row.source[j] or j <= i
        case "source":
            return row.source[j]
        case "window":
            return abs(i - j) < options["size"]
        case "all":
            return all(may_attend(m, row, i, j) for m in options["of"])
        case "any":
            return any(may_attend(m, row, i, j) for m in options["of"])
    raise KeyError(mask.kind)


def laid_out(rule: Any, row: Row, i: int, j: int, length: int) -> bool:
    """What is removed whatever the masking: padding, other documents, other blocks."""
    inside = row.real[j] and row.document[i] == row.document[j]
    if rule.kind == "group" and rule.options.get("by") == "ids":
        return inside and row.group[i] == row.group[j]
    if rule.kind == "group":
        size = math.ceil(length / rule.options["groups"])
        return inside and row.position[i] // size == row.position[j] // size
    if rule.kind == "window":
        return inside and abs(i - j) < rule.options["size"]
    return inside


# ---------------------------------------------------------------- attention of one query
def feature(x: Array, kind: str) -> Array:
    return np.maximum(x, 0) if kind == "relu" else np.where(x > 0, x + 1, np.exp(x))


def attend(rule, masking, weights, head, q, k, v, pattern, layout, bias) -> Array:
    """q (K), k and v (S, K), pattern and layout (S) bool, bias (S): the output (K)."""
    inner = rule.options["inner"] if rule.kind in ("group", "window") else rule
    seen = [s for s in range(len(k)) if pattern[s] and layout[s]]
    counted = [s for s in range(len(k)) if layout[s]] if masking == "zero" else seen
    if not seen:
        return np.zeros(v.shape[1])
    if inner.kind == "linear":
        f = inner.options["feature"]
        value = [float(feature(q, f) @ feature(k[s], f)) for s in range(len(k))]
    elif inner.kind == "additive":
        W, U, w = (weights[name][head] for name in ("query", "key", "vector"))
        value = [float(np.tanh(q @ W + k[s] @ U) @ w) for s in range(len(k))]
    else:
        scale = 1.0 if inner.kind == "argmax" else inner.options["scale"]
        scale = len(q) ** -0.5 if scale == "root" else scale
        value = [float(q @ k[s]) * scale for s in range(len(k))]
        cap = inner.options.get("softcap", 0.0)
        value = [cap * math.tanh(x / cap) for x in value] if cap else value
    value = [x + b for x, b in zip(value, bias, strict=True)]
    if inner.kind == "argmax":
        best = max(counted, key=lambda s: value[s])
        return v[best] if best in seen else np.zeros(v.shape[1])
    if inner.kind != "linear":
        top = max(value[s] for s in counted)
        value = [math.exp(min(x - top, 0.0)) if s in set(counted) else 0.0 for s, x in enumerate(value)]
    total = sum(value[s] for s in counted)
    if total == 0:
        return np.zeros(v.shape[1])
    return sum(value[s] / total * v[s] for s in seen)


# ---------------------------------------------------------------- positions
def bias_between(scheme, table, head, heads, layer, pi, pj, length, looks_back) -> float:
    match scheme.kind:
        case "relative":
            far = length - 1 if scheme.options["clip"] == "length" else scheme.options["clip"]
            return float(table["table"][layer, head, max(-far, min(far, pj - pi)) + far])
        case "alibi":
            return -abs(pi - pj) * 2.0 ** (-8.0 * (head + 1) / heads)
        case "bucketed":
            return float(table["table.weight"][bucket(scheme.options, pj - pi, looks_back), head])
    return 0.0


def bucket(options, distance: int, looks_back: bool) -> int:
    count, side = options["buckets"], 0
    if looks_back:
        away = max(-distance, 0)
    else:
        count //= 2
        side, away = (count if distance > 0 else 0), abs(distance)
    exact = count // 2
    if away < exact:
        return side + away
    share = math.log(away / exact) / math.log(options["distance"] / exact)
    return side + min(exact + int(share * (count - exact)), count - 1)


def rotate(x: Array, position: int, base: float) -> Array:
    half = len(x) // 2
    turned = x.copy()
    for n in range(half):
        angle = np.float32(position) * np.float32(base) ** np.float32(-2 * n / len(x))
        c, s = float(np.cos(np.float32(angle))), float(np.sin(np.float32(angle)))
        turned[n] = x[n] * c - x[n + half] * s
        turned[n + half] = x[n + half] * c + x[n] * s
    return turned


def sinusoid(position: int, width: int) -> Array:
    values = []
    for n in range(width):
        angle = position * 10_000.0 ** (-(n - n % 2) / width)
        values.append(math.cos(angle) if n % 2 else math.sin(angle))
    return np.array(values)


# ---------------------------------------------------------------- the parts of a block
def normed(kind, p: dict[str, Array], x: Array) -> Array:
    if kind.kind == "none":
        return x
    if kind.kind == "rms":
        return p["weight"] * x / math.sqrt(np.mean(x**2) + kind.options["eps"])
    y = p["weight"] * (x - x.mean()) / math.sqrt(x.var() + kind.options["eps"])
    return y + p.get("bias", 0.0)


def affine(p: dict[str, Array], x: Array) -> Array:
    return p["weight"] @ x + p.get("bias", 0.0)


def gelu(x: Array, approximate: str) -> Array:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def feedforward(choice, p, x: Array) -> Array:
    up = affine(below(p, "up"), x)
    match choice.kind:
        case "gelu":
            hidden = gelu(up, choice.options["approximate"])
        case "relu":
            hidden = np.maximum(up, 0)
        case "swiglu":
            gate = affine(below(p, "gate"), x)
            hidden = gate / (1 + np.exp(-gate)) * up
        case "geglu":
            hidden = gelu(affine(below(p, "gate"), x), choice.options["approximate"]) * up
    return affine(below(p, "down"), hidden)


def below(parameters: dict[str, Array], place: str) -> dict[str, Array]:
    """The parameters under a name."""
    return {n.removeprefix(place + "."): a for n, a in parameters.items() if n.startswith(place + ".")}


# ---------------------------------------------------------------- the model
class Reference:
    """The same function as a model, from its config and its parameters."""

    def __init__(self, config, model):
        self.config = config
        self.parameters = {
            name: p.detach().double().numpy() for name, p in model.named_parameters(remove_duplicate=False)
        }

    def hidden(self, ids, row: Row, *, source=None, source_row: Row | None = None) -> Array:
        """The trunk's output for one row of ids: (T, D)."""
        c = self.config
        trunk = below(self.parameters, "trunk")
        if c.family != "encoder_decoder":
            return self.stack(below(trunk, c.family), ids, row, c.mask)
        both = type(c.mask)("bidirectional")
        encoded = self.stack(below(trunk, "encoder"), source, source_row, both)
        return self.stack(below(trunk, "decoder"), ids, row, c.mask, encoded, source_row)

    def stack(self, p, ids, row, mask, encoded=None, source_row=None) -> Array:
        c = self.config
        x = [self.embed(below(p, "embedding"), token, row.position[t]) for t, token in enumerate(ids)]
        for layer in range(c.layers):
            parts = below(p, f"blocks.{layer}.residuals")
            x = self.residual(
                below(parts, "0"),
                x,
                lambda y, q, layer=layer: self.attention(
                    below(q, "inner"), y, y, row, row, mask, c.attention_by_layer[layer], layer, p
                ),
            )
            if encoded is not None:
                x = self.residual(
                    below(parts, "1"),
                    x,
                    lambda y, q: self.attention(
                        below(q, "inner"), y, encoded, row, source_row, None, c.cross_attention, 0, p
                    ),
                )
            last = "1" if encoded is None else "2"
            x = self.residual(
                below(parts, last),
                x,
                lambda y, q: [feedforward(c.feedforward, below(q, "inner.part"), z) for z in y],
            )
        if c.residual.kind == "pre":
            x = [normed(c.norm, below(p, "final"), z) for z in x]
        return np.array(x)

    def residual(self, p, x, inner):
        norm = below(p, "norm")
        if self.config.residual.kind == "pre":
            added = inner([normed(self.config.norm, norm, z) for z in x], p)
            return [z + a for z, a in zip(x, added, strict=True)]
        return [normed(self.config.norm, norm, z + a) for z, a in zip(x, inner(x, p), strict=True)]

    def embed(self, p, token: int, position: int) -> Array:
        c, scheme = self.config, self.config.positions
        scale = math.sqrt(c.width) if c.embedding_scale == "root" else c.embedding_scale
        x = p["tokens.weight"][token] * scale
        if c.token_types:
            x = x + p["types.weight"][0] * scale
        table = p.get("positions.table.weight")
        match scheme.kind:
            case "sinusoidal":
                x = x + sinusoid(position, c.width)
            case "learned":
                x = x + table[position + scheme.options["offset"]] * scale
            case "concat":
                learned = scheme.options["table"] == "learned"
                x = np.concatenate(
                    [x, table[position] * scale if learned else sinusoid(position, scheme.options["part"])]
                )
        return normed(c.norm, below(p, "norm"), x) if c.embedding_norm else x

    def attention(self, p, x, y, row, key_row, mask, rule, layer, stack) -> list[Array]:
        c = self.config
        H, K = c.heads, c.each_head_width
        cross = mask is None
        q, k, v = self.project(below(p, "projections"), x, y)
        scheme, table = c.positions, below(stack, "embedding.positions")
        if scheme.kind == "rotary" and not cross:
            base = scheme.options["base"]
            q = [[rotate(h, row.position[t], base) for h in heads] for t, heads in enumerate(q)]
            k = [[rotate(h, row.position[t], base) for h in heads] for t, heads in enumerate(k)]
        looks_back = not cross and not any(
            may_attend(mask, r, i, j)
            for r in (Row(9), Row(9, source=[1] * 4 + [0] * 5))
            for i in range(9)
            for j in range(i + 1, 9)
        )
        weights = below(p, "rule.inner") or below(p, "rule")
        outputs = []
        for i in range(len(x)):
            heads = []
            for h in range(H):
                shared = h * len(k[0]) // H
                pattern = [cross or may_attend(mask, row, i, j) for j in range(len(y))]
                layout = [
                    key_row.real[j] and row.document[i] == key_row.document[j]
                    if cross
                    else laid_out(rule, row, i, j, c.length)
                    for j in range(len(y))
                ]
                bias = [
                    0.0
                    if cross
                    else bias_between(
                        scheme, table, h, H, layer, row.position[i], row.position[j], c.length, looks_back
                    )
                    for j in range(len(y))
                ]
                keys, values = np.array([z[shared] for z in k]), np.array([z[shared] for z in v])
                heads.append(
                    attend(rule, c.masking, weights, h, q[i][h], keys, values, pattern, layout, bias)
                )
            outputs.append(affine(below(p, "output"), np.concatenate(heads)))
        assert outputs[0].shape == (c.width,) and len(heads[0]) == K
        return outputs

    def project(self, p, x, y):
        """Queries of x, keys and values of y: lists of (heads, K)."""
        K = self.config.each_head_width
        kind = self.config.projections.kind
        norm = self.config.projections.options["query_key_norm"]
        chosen = type(self.config.norm)(norm, {"eps": 1e-6 if norm == "rms" else 1e-5})

        def heads(z, name, norm_name=None):
            split = affine(below(p, name), z).reshape(-1, K)
            return [normed(chosen, below(p, norm_name), h) for h in split] if norm_name else list(split)

        q = [heads(z, "query", "query_norm") for z in x]
        if kind == "shared_qkv":
            k = v = [heads(z, "query", "query_norm") for z in y]
        elif kind == "shared_qk":
            k, v = [heads(z, "query", "query_norm") for z in y], [heads(z, "value") for z in y]
        else:
            k, v = [heads(z, "key", "key_norm") for z in y], [heads(z, "value") for z in y]
        return q, k, v
