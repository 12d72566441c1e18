"""Our own conveniences, folded into the weights: the same function, in a form that others have too."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnlab.interop.fields import Settings, get
from attnlab.model.heads.language import language_head
from attnlab.model.model import Model
from attnlab.model.positions.absolute import sinusoids
from attnlab.model.trunks.transformer import transformer_of


@torch.no_grad()
def folded(model: Model, settings: Settings) -> tuple[Settings, dict[str, Tensor]]:
    """Settings and weights of an equal model whose embedding has no scale and whose positions are a table."""
    weights = {name: p.detach() for name, p in model.named_parameters(remove_duplicate=False)}
    settings = dict(settings)
    trunk = transformer_of(model.trunk)
    scale = trunk.embedding_scale
    if scale != 1:
        settings["embedding_scale"] = 1.0
        if get(settings, "output.tied") and not _divide_last_norm(model, weights, scale):
            settings["output"] = settings["output"] | {"tied": False}  # the head keeps the table as it was
        scaled = ["tokens", "types"] + ["positions.table"] * (settings["positions"]["kind"] == "learned")
        for name in list(weights):
            if name.endswith(tuple(f".embedding.{part}.weight" for part in scaled)):
                weights[name] = weights[name] * scale
    if settings["positions"]["kind"] == "sinusoidal":
        settings["positions"] = {"kind": "learned", "offset": 0}
        table = sinusoids(torch.arange(settings["length"]), settings["width"])
        for stack in trunk.stacks():
            weights[f"trunk.{stack}.embedding.positions.table.weight"] = table
    return settings, weights


def _divide_last_norm(model: Model, weights: dict[str, Tensor], scale: float) -> bool:
    """Make what the head's table is multiplied with `scale` times smaller; False where no norm does that.

    So the scores stay the same with a table that is larger, and the table can stay tied.
    """
    transform = language_head(model.head).transform
    norm = transform[-1] if isinstance(transform, nn.Sequential) else transformer_of(model.trunk).last_norm
    own = {id(parameter) for parameter in norm.parameters()}
    for name, parameter in model.named_parameters():
        if id(parameter) in own:
            weights[name] = weights[name] / scale
    return bool(own)
