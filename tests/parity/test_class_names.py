"""A classifier goes out and comes back with its classes; transformers predicts the same as we do."""

import pytest
import torch

from attnlab.config.files import config_of
from attnlab.session.convert import convert
from attnlab.session.trained import Trained
from tests.training.small_run import for_task, merged, settings, train

transformers = pytest.importorskip("transformers")
TEXTS = ["the cat sees a dog .", "my sister hears the bird at home ."]


@pytest.fixture(scope="module", params=["classification", "multilabel", "regression"])
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("classes")
    bert = {"preset": "bert", "width": 16, "layers": 2, "heads": 2, "length": 24, "vocabulary": "tokenizer"}
    task = for_task(request.param, folder)
    made = merged(settings(folder), task | {"model": {}})
    held = made | {"model": bert | {"output": "classification(transform=tanh)"}}
    held["training"] = held["training"] | {"budget": {"steps": 6}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attnlab.session.soundness.run_checks", lambda case, names=(): [])
        train(config_of(held), folder / "run")
    convert(folder / "run", folder / "theirs")
    return Trained.at(folder / "run"), folder


def test_transformers_predicts_the_same(run):
    trained, folder = run
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(folder / "theirs").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "theirs")
    said = trained.predict(TEXTS)
    with torch.no_grad():
        scores = [theirs(**tokenizer(text, return_tensors="pt")).logits[0] for text in TEXTS]
    for one, row in zip(said, scores, strict=True):
        if isinstance(one.answer, float):
            assert float(row[0]) == pytest.approx(one.answer, abs=1e-4)
            continue
        chances = row.softmax(-1) if isinstance(one.answer, str) else row.sigmoid()
        named = {theirs.config.id2label[n]: float(chance) for n, chance in enumerate(chances)}
        assert named == pytest.approx(dict(one.scores), abs=1e-5)


def test_it_comes_back_with_its_classes(run):
    trained, folder = run
    convert(folder / "theirs", folder / "back")
    back = Trained.at(folder / "back")
    assert back.labels.kind == trained.labels.kind and back.labels.names == trained.labels.names
    for one, other in zip(back.predict(TEXTS), trained.predict(TEXTS), strict=True):
        if isinstance(one.answer, float):
            assert one.answer == pytest.approx(other.answer, abs=1e-4)
        else:
            assert one.answer == other.answer and dict(one.scores) == pytest.approx(
                dict(other.scores), abs=1e-5
            )
