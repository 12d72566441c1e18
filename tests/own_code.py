"""Files of a person's own, and a session that has not seen them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from attnlab.config import imports
from attnlab.config.registry import TABLES, table

RULE = '''\
"""A rule of my own."""

import torch
from attnlab.model.attention import ATTENTION
from attnlab.model.attention.rule import Rule


class Distance(Rule):
    """Distance: keys near the query in space get the weight."""

    def __init__(self, masking="-inf", dropout=0.0, *, rate: float = 0.5):
        super().__init__(masking, dropout)
        self.rate = rate

    def scores(self, q, k):
        return -self.rate * torch.cdist(q, k).square()


ATTENTION.register("own_distance", Distance)
'''


@contextmanager
def new_session() -> Iterator[None]:
    """As a process that has not imported anything of a person's own; and as it was, afterwards."""
    modules = dict(sys.modules)
    held = {name: dict(table(name)._variants) for name in TABLES}
    kept = dict(imports.IMPORTED), dict(imports._EXECUTED)
    for name in [n for n, module in modules.items() if getattr(module, "__file__", "") in imports._EXECUTED]:
        del sys.modules[name]
    for name in TABLES:
        for variant in table(name).registered:
            table(name).unregister(variant)
    imports.IMPORTED.clear()
    imports._EXECUTED.clear()
    try:
        yield
    finally:
        for name in sys.modules.keys() - modules.keys():
            file = getattr(sys.modules[name], "__file__", None) or ""
            if file in imports._EXECUTED or "own_code_" in name:
                del sys.modules[name]
        sys.modules.update(modules)
        for name, variants in held.items():
            table(name)._variants.clear()
            table(name)._variants.update(variants)
        for now, before in zip((imports.IMPORTED, imports._EXECUTED), kept, strict=True):
            now.clear()
            now.update(before)
