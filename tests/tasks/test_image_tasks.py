"""Runs on pictures: trained, checked, resumed and predicted; with faults that the checks name."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attnlab.checks.modalities import Modalities, exchanges
from attnlab.checks.real import batch_of, prepared_of
from attnlab.config.files import load
from attnlab.session.session import Session
from tests.checks.cases import found, of

SMALL = {
    "data.corpus": "shapes(task=matching, size=16, examples=64)",
    "data.encoding": "image_text",
    "data.tokenizer": "word",
    "data.length": 32,
    "model.inputs": ["image(size=8, patch=4)", "text"],
    "model.length": 32,
    "model.width": 16,
    "model.heads": 2,
    "model.output": "classification(pooling=first)",
}
BEFORE = ("dependency", "allowed_pairs", "invariance", "recomputed_loss", "overfit", "pictures")


def session(**changes) -> Session:
    return Session(
        load("image-classifier-mini", set=SMALL | {k.replace("__", "."): v for k, v in changes.items()})
    )


@pytest.mark.parametrize("fusion", ["early", "late(layers=1)", "never", "bottleneck(tokens=2)"])
def test_every_fusion_is_sound_before_the_first_step(fusion):
    about = of(session(model__fusion=fusion))
    for check in BEFORE:
        finding = found(check, about)
        assert finding.outcome in ("pass", "not applicable"), (check, finding)


def test_a_fusion_that_leaks_is_named():
    """The rule of one layer joins what its schedule keeps apart."""
    broken = session(model__fusion="never")
    layer = broken.model.trunk.encoder.attentions()[1]
    layer.rule.forward = layer.rule.inner.forward
    finding = found("dependency", of(broken))
    assert finding.outcome == "fail"
    assert found("allowed_pairs", of(broken)).outcome == "fail"


def test_never_gives_the_same_answer_whatever_the_picture():
    """By construction: the class token is of the text, and so matching cannot be solved."""
    apart, joined = session(model__fusion="never"), session()
    for made, moves in ((apart, False), (joined, True)):
        prepared = prepared_of(of(made), batch_of(of(made)))
        ways = exchanges(prepared)
        with torch.no_grad():
            own, other = (
                made.task.predict(made.model.eval(), ways[name])["probabilities"]
                for name in ("own", "images")
            )
        assert torch.equal(own, other) != moves


def test_images_and_texts_that_are_not_used_are_named():
    def scores(**right):
        random = np.random.default_rng(0)
        return {"own": (random.random(400) < 0.81).astype(float)} | {
            name: (random.random(400) < share).astype(float) for name, share in right.items()
        }

    used = Modalities().judge("after", scores(images=0.5, texts=0.5, both=0.5), "accuracy")
    assert used.outcome == "pass" and used.number > 0.2
    unused = Modalities().judge("after", scores(images=0.81, texts=0.5, both=0.5), "accuracy")
    assert unused.outcome == "warn" and unused.values["unused"] == ["images"]
    assert "The image is not used" in unused.meaning


def test_a_model_whose_pictures_do_not_arrive_is_named():
    class Blind(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner, self.in_features, self.out_features = inner, inner.in_features, inner.out_features

        def forward(self, vectors):
            return self.inner(torch.zeros_like(vectors))

    made = session()
    made.model.trunk.encoder.embedding.vectors = Blind(made.model.trunk.encoder.embedding.vectors)
    finding = found("modalities", of(made, when="after", step=400))
    assert finding.outcome == "warn" and "images" in finding.values["unused"]
    assert finding.values["exchanged"]["images"][1] == 0.0
    young = found("modalities", of(made, when="after", step=10))
    assert young.kind == "too_early"


def test_the_exchanged_inputs_are_those_of_other_rows():
    made = session()
    prepared = prepared_of(of(made), batch_of(of(made)))
    ways = exchanges(prepared)
    order = torch.arange(len(prepared.ids)).roll(1)
    assert torch.equal(ways["images"].vectors, prepared.vectors[order])
    assert torch.equal(ways["images"].ids, prepared.ids) and torch.equal(
        ways["texts"].ids, prepared.ids[order]
    )
    assert torch.equal(ways["texts"].vectors, prepared.vectors)
    assert torch.equal(ways["texts"].targets, prepared.targets)


@pytest.mark.parametrize(
    "changes",
    [
        {
            "task": "prefix",
            "data.encoding": "image_prefix",
            "model.family": "decoder",
            "model.mask": "prefix",
        },
        {"task": "seq2seq", "data.encoding": "image_translation", "model.family": "encoder_decoder"},
    ],
)
def test_captions_are_predicted_from_pictures_by_sound_models(changes):
    given = {k: v for k, v in SMALL.items() if k != "model.output"} | {
        "data.corpus": "shapes(task=caption, size=16, examples=64)",
        "model.output": "language_model",
    }
    made = Session(load("image-classifier-mini", set=given | changes))
    about = of(made)
    for check in ("dependency", "recomputed_loss", "targets"):
        finding = found(check, about)
        assert finding.outcome in ("pass", "not applicable"), (check, finding)
    prepared = prepared_of(about, batch_of(about))
    ways = exchanges(prepared)
    with torch.no_grad():
        own, other = (float(made.task.loss(made.model.eval(), ways[name]).mean) for name in ("own", "images"))
    assert own != other


def test_a_config_without_pictures_or_with_others_is_refused():
    for changes, match in (
        ({"model__inputs": "text"}, "model.inputs is text"),
        ({"data__encoding": "single"}, "gives no pictures"),
        ({"model__inputs": ["image(size=8, patch=4)"]}, "model.inputs is image alone"),
        ({"data__length": 4}, "at least 6"),
    ):
        with pytest.raises(ValueError, match=match):
            session(**changes)
    assert replace(load("image-classifier-mini").model).picture is not None
