"""GRU and LSTM written the slow and obvious way: one token at a time, gates from the formula.

It shares no code with the trunk: it reads parameters by name, and texts as lists of places.
"""

from __future__ import annotations

import math

import torch


def gru(W, U, b, c, x, state):
    (h,) = state
    (ri, zi, ni), (rh, zh, nh) = (W @ x + b).chunk(3), (U @ h + c).chunk(3)
    r, z = torch.sigmoid(ri + rh), torch.sigmoid(zi + zh)
    return ((1 - z) * torch.tanh(ni + r * nh) + z * h,)


def lstm(W, U, b, c, x, state):
    h, cell = state
    i, f, g, o = (W @ x + b + U @ h + c).chunk(4)
    cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(cell), cell


STEPS = {"gru": gru, "lstm": lstm}


class Reference:
    """A trunk's parameters, and what they make of one text."""

    def __init__(self, kind, attention, trunk):
        self.kind, self.attention, self.width = kind, attention, trunk.width
        self.p = dict(trunk.named_parameters())
        self.layers = 1 + max(int(name.split(".")[2]) for name in self.p if ".layers." in name)
        self.states = 2 if kind == "lstm" else 1

    def embed(self, ids):
        table = next(p for name, p in self.p.items() if name.endswith("embedding.tokens.weight"))
        return [table[int(token)] for token in ids]  # of scale 1

    def run(self, side, layer, xs, state, suffix=""):
        """The outputs of one direction of a layer."""
        names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        weights = [self.p[f"{side}.layers.{layer}.kernel.{name}{suffix}"] for name in names]
        outputs = []
        for x in xs:
            state = STEPS[self.kind](*weights, x, state)
            outputs.append(state[0])
        return outputs

    def encode(self, ids):
        xs, half = self.embed(ids), torch.zeros(self.width // 2).double()
        for layer in range(self.layers):
            right = self.run("encoder", layer, xs, (half,) * self.states)
            left = self.run("encoder", layer, xs[::-1], (half,) * self.states, "_reverse")[::-1]
            xs = [torch.cat(both) for both in zip(right, left, strict=True)]
        return xs

    def normed(self, xs):
        """The norm before the head."""
        gain, shift = self.p["final.weight"], self.p["final.bias"]
        return [(x - x.mean()) / torch.sqrt(x.var(correction=0) + 1e-5) * gain + shift for x in xs]

    def decode(self, ids, encoded=None):
        """The outputs of a text after a source of these vectors; without one, from zeros."""
        xs, zero = self.embed(ids), torch.zeros(self.width).double()
        starts = [(zero,) * self.states] * self.layers
        if encoded is not None:
            starts = self.starts(encoded)
        for layer in range(self.layers):
            xs = self.run("decoder", layer, xs, starts[layer])
        return self.normed([self.read(h, encoded) for h in xs] if self.attention != "none" else xs)

    def starts(self, encoded):
        half = self.width // 2
        vector = torch.zeros(self.width).double()
        if encoded:
            vector = torch.cat([encoded[-1][:half], encoded[0][half:]])
        flat = self.p["bridge.weight"] @ vector + self.p["bridge.bias"]
        pieces = flat.split(self.width)
        each = [pieces[n : n + self.states] for n in range(0, len(pieces), self.states)]
        return [(torch.tanh(h), *cell) for h, *cell in each]

    def read(self, h, encoded):
        """tanh(W h + what attention reads)."""

        def linear(name, x):
            named = f"output.attention.{name}"
            return self.p[f"{named}.weight"] @ x + self.p[f"{named}.bias"]

        query = linear("projections.query", h)
        scores = [self.score(query, linear("projections.key", y)) for y in encoded]
        total = sum(math.e**score for score in scores)
        read = torch.zeros(self.width).double()
        for score, y in zip(scores, encoded, strict=True):
            read = read + math.e**score / total * linear("projections.value", y)
        return torch.tanh(self.p["output.own.weight"] @ h + linear("output", read))

    def score(self, query, key):
        if self.attention == "dot":
            return query @ key / math.sqrt(self.width)
        maps = [self.p[f"output.attention.rule.{name}"][0] for name in ("query", "key", "vector")]
        return torch.tanh(query @ maps[0] + key @ maps[1]) @ maps[2]


def places_by_text(real, document):
    """Of one row: (document, its real places) in order."""
    texts = {}
    for place, (there, of) in enumerate(zip(real, document, strict=True)):
        if there:
            texts.setdefault(int(of), []).append(place)
    return texts
