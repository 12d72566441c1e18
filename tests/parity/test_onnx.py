"""Runs as ONNX: onnxruntime gives the same scores, for any number of rows and tokens."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attnlab.config.values import ConfigError
from attnlab.model.tokens import Tokens
from attnlab.session.convert import convert
from attnlab.session.trained import Trained
from tests.parity.folders import published
from tests.parity.theirs import V

runtime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


SLOW = [
    pytest.param(name, marks=pytest.mark.slow)
    for name in ("bert", "llama", "t5", "bert, bare", "bert, answers", "distilbert, bare")
]


@pytest.mark.parametrize("name", ["gpt2", "bert, classes", *SLOW])
def test_onnxruntime_answers_as_the_model(name, tmp_path):
    published(tmp_path / "theirs", name)
    convert(tmp_path / "theirs", tmp_path / "run")
    found = convert(tmp_path / "run", tmp_path / "model.onnx")
    assert "onnxruntime gives the same scores" in found.notes[0]
    model = Trained.at(tmp_path / "run").model
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    ids = torch.randint(3, V, (2, 17), generator=torch.Generator().manual_seed(0))
    real = torch.arange(17) < torch.tensor([[17], [12]])
    inputs, given = {"ids": ids, "real": real}, {}
    if name.startswith("bert"):
        inputs["types"] = given["types"] = (ids > 30).long()
    if name == "t5":
        inputs |= {"source": ids.flip(1), "source_real": torch.ones_like(real)}
        given["source"] = ids.flip(1)
    scores = session.run(None, {key: value.numpy() for key, value in inputs.items()})[0]
    with torch.no_grad():
        expected = model(ids, Tokens.of(17, real=real), **given)
    kept = real if expected.ndim == 3 else torch.ones(len(ids), dtype=torch.bool)  # one answer for each text
    np.testing.assert_allclose(scores[kept.numpy()], expected[kept].numpy(), rtol=1e-3, atol=1e-4)


def test_a_model_that_torch_cannot_export_is_refused_in_a_sentence(tmp_path, monkeypatch):
    published(tmp_path / "theirs", "gpt2")
    convert(tmp_path / "theirs", tmp_path / "run")

    def broken(*args, **kwargs):
        raise torch.onnx.OnnxExporterError("step 1/3") from ValueError("a shape is static\nand more")

    monkeypatch.setattr(torch.onnx, "export", broken)
    with pytest.raises(ConfigError, match=r"cannot write this model as ONNX: a shape is static Export"):
        convert(tmp_path / "run", tmp_path / "model.onnx")


def test_only_runs_become_onnx(tmp_path):
    published(tmp_path / "theirs", "gpt2")
    with pytest.raises(ConfigError, match=r"import .* first: attnlab convert"):
        convert(tmp_path / "theirs", tmp_path / "model.onnx")
