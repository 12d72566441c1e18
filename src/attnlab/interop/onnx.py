"""A model as an ONNX file, by torch's own exporter, and asked there whether it is still the same."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.config.values import ConfigError
from attnlab.model.model import Model
from attnlab.model.tokens import Tokens

TOLERANCE = 1e-4
SHAPES = ((2, 6), (3, 9), (1, 4))
"""(rows, tokens) that are traced, and then asked for: the sizes are free."""


class Plain(nn.Module):
    """A model that takes nothing but tensors: ids (B,T), and where they are real; pad on the right."""

    def __init__(self, model: Model, length: int):
        super().__init__()
        self.model, self.length = model, length

    def forward(
        self,
        ids: Tensor,
        real: Tensor,
        types: Tensor | None = None,
        source: Tensor | None = None,
        source_real: Tensor | None = None,
    ) -> Tensor:
        given: dict[str, Any] = {} if types is None else {"types": types}
        if source is not None and source_real is not None:
            given |= {"source": source, "source_tokens": self._tokens(source, source_real)}
        return self.model(ids, self._tokens(ids, real), **given)

    def _tokens(self, ids: Tensor, real: Tensor) -> Tokens:
        """Without `span`, which fixes a length, and with a bound that learned positions always keep."""
        index = torch.arange(ids.shape[1], device=ids.device)[None]
        position = (real.long().cumsum(1) - 1).clamp(min=0)
        return Tokens(index, position, real, bound=self.length)


def write_onnx(model: Model, file: Path, *, length: int, typed: bool) -> float:
    """Write a model as ONNX, for any number of rows and tokens; gives the largest difference found there."""
    if model.trunk.asks_for_source:
        raise ConfigError("A model whose mask asks which tokens are the source has no plain input for ONNX.")
    runtime = _runtime()
    plain = Plain(model, length).eval()
    file.parent.mkdir(parents=True, exist_ok=True)
    _export(plain, _inputs(model, *SHAPES[0], typed=typed), file)
    session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    worst = max(_difference(plain, session, _inputs(model, *shape, typed=typed)) for shape in SHAPES)
    if not worst < TOLERANCE:
        raise ConfigError(f"The ONNX file does not answer as the model does: they differ by {worst:.2g}.")
    return worst


@torch.no_grad()
def _export(plain: Plain, inputs: dict[str, Tensor], file: Path) -> None:
    free = {name: {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC} for name in inputs}
    options: dict[str, Any] = {"dynamic_shapes": free, "output_names": ["scores"], "verbose": False}
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)  # it tells of packages for pictures that are not there
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(plain, (), kwargs=inputs, dynamo=True, **options)
    except torch.onnx.OnnxExporterError as error:
        cause = error.__cause__ or error
        raise ConfigError(
            f"torch cannot write this model as ONNX: {str(cause).strip().splitlines()[0]} Export it to a "
            "folder of transformers instead (a TARGET that does not end in .onnx)."
        ) from error
    finally:
        logger.setLevel(level)
    assert program is not None
    program.save(str(file))


@torch.no_grad()
def _difference(plain: Plain, session: Any, inputs: dict[str, Tensor]) -> float:
    """Between what the file and the model say of real tokens, as a share of the largest score."""
    scores = session.run(None, {name: value.numpy() for name, value in inputs.items()})[0]
    expected = plain(**inputs)
    real = inputs["real"] if expected.ndim == 3 else slice(None)
    largest = expected[real].abs().max().clamp(min=1)
    return float((torch.from_numpy(scores) - expected)[real].abs().max() / largest)


def _runtime() -> Any:
    try:
        import onnxruntime
        import onnxscript  # noqa: F401 - torch's exporter needs it
    except ImportError as error:
        raise ConfigError('ONNX files need an extra: pip install "attnlab[onnx]"') from error
    return onnxruntime


def _inputs(model: Model, rows: int, tokens: int, *, typed: bool) -> dict[str, Tensor]:
    """Some ids, the first row padded on the right: a row that begins with padding is undefined there."""
    vocabulary = model.common_vocabulary
    drawn = torch.Generator().manual_seed(rows)
    real = torch.ones(rows, tokens, dtype=torch.bool)
    real[0, -1] = False
    inputs = {"ids": torch.randint(0, vocabulary, (rows, tokens), generator=drawn), "real": real}
    if typed:
        inputs["types"] = (torch.arange(tokens) > tokens // 2).long().expand(rows, -1).contiguous()
    if model.trunk.reads_source:
        source = inputs["ids"].flip(1)[:, 1:]  # of another length: as inputs of one, sizes would be one
        inputs |= {"source": source, "source_real": real[:, 1:]}
    return inputs
