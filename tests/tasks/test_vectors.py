"""A task whose rows hold vectors trains, resumes, is checked and predicts: words enter as numbers alone."""

import json
import zlib
from dataclasses import replace

import numpy as np
import pytest
import torch

import attnlab as lab
from attnlab.checks.inputs_matter import others
from attnlab.data.batch import collate
from attnlab.data.columns import Row
from attnlab.data.encode import ENCODINGS
from attnlab.data.encode.encoding import Shortened, cut_to
from attnlab.data.errors import DataError
from attnlab.data.rows import in_memory
from attnlab.data.shards import opened, write
from attnlab.runs.events import Stepped
from attnlab.runs.findings import read_findings
from attnlab.runs.record import read_record
from attnlab.session.trained import Trained
from attnlab.tasks import TASKS
from attnlab.tasks.classification import Classification
from attnlab.training.trace import batch_content
from tests.checks.cases import found, of
from tests.training.small_run import config, for_task, set_up, train

WIDTH = 6


def vector_of(word: str) -> np.ndarray:
    """A picture of a word, so to say."""
    return np.random.default_rng(zlib.crc32(word.encode())).normal(size=WIDTH).astype(np.float32)


class Pictures(Shortened):
    """Pictures: every word is the same token, and is told by its vector."""

    def chunk_rows(self, chunk, first):
        form, blank = self.tokenizer.form, self.tokenizer.specials.unknown
        for number, text in enumerate(self.tokenizer.encode_sized([e.text for e in chunk])):
            example = chunk[number]
            kept = form.single_sized(cut_to(text, self.room(form.single_room), self.cut, example))
            special = [token in self.tokenizer.special_ids for token in kept.ids]
            tokens = zip(kept.ids, special, strict=True)
            shown = [
                np.zeros(WIDTH) if own else vector_of(self.tokenizer.token(token)) for token, own in tokens
            ]
            ids = [token if own else blank for token, own in zip(kept.ids, special, strict=True)]
            self.cuts.count(len(text), 0)
            yield Row(ids, first + number, kept.sizes, vectors=np.stack(shown), **self.label(example))


class Seeing(Classification):
    """Seeing: a class for each row of vectors."""

    encodings = ("pictures",)


@pytest.fixture(scope="module", autouse=True)
def registered():
    ENCODINGS.register("pictures", Pictures)
    TASKS.register("seeing", Seeing)
    yield
    ENCODINGS.unregister("pictures")
    TASKS.unregister("seeing")


def seeing(folder, family="encoder"):
    given = for_task("classification", folder)
    steps = {
        "budget": {"steps": 160},
        "evaluate_every": 40,
        "evaluate_batches": "all",
        "checkpoint_every": 20,
    }
    rate = {"optimizer": {"kind": "adamw", "learning_rate": 1e-2}}
    return config(
        folder,
        task="seeing",
        data=given["data"] | {"encoding": "pictures"},
        model=given["model"] | {"vectors": WIDTH, "family": family},
        training=steps | rate,
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeing")
    return train(seeing(folder), folder / "run")


def test_it_learns_from_vectors_alone_and_is_checked(run):
    assert run.reason == "budget" and run.unsound == (), run.failures
    outcomes = {one.check: one.outcome for one in read_findings(run.folder)}
    for name in ("targets", "overfit", "recomputed_loss", "invariance", "reload", "majority", "dependency"):
        assert outcomes[name] == "pass", name
    told = Trained.at(run.folder).evaluate("dev")
    assert told["measures"]["accuracy"]["value"] > 0.9


def test_it_predicts_from_new_texts(run):
    texts = ["the cat hears my sister .", "a dog sees the bird ."]
    said = [one.answer for one in Trained.at(run.folder).predict(texts)]
    assert said == ["hears", "sees"]


def test_a_run_that_was_killed_goes_on_to_the_same_bits(run, tmp_path, unchecked):
    def kill(event):
        if isinstance(event, Stepped) and event.step == 30:
            raise KeyboardInterrupt

    wanted = replace(run.session.config)
    with pytest.raises(KeyboardInterrupt):
        train(wanted, tmp_path / "run", listeners=[kill])
    again = train(wanted, tmp_path / "run", resume=True)
    assert again.state.trace == run.state.trace
    assert read_record(tmp_path / "run")["trace"] == read_record(run.folder)["trace"]
    other = dict(again.session.model.named_parameters())
    assert all(torch.equal(value, other[name]) for name, value in run.session.model.named_parameters())


def test_the_trace_and_the_batch_hold_the_vectors(tmp_path):
    first, second = np.ones((3, 2)), np.full((1, 2), 3.0)
    rows = [Row([5, 6, 7], 0, [1] * 3, vectors=first), Row([8], 1, [1], vectors=second)]
    held, lines = in_memory(rows, vocabulary=10), [np.array([0]), np.array([1])]
    right, left = (collate(held, lines, pad=0, side=side) for side in ("right", "left"))
    assert right.vectors.dtype == torch.float32 and right.vectors.shape == (2, 3, 2)
    assert right.vectors[1].tolist() == [[3.0, 3.0], [0.0, 0.0], [0.0, 0.0]]
    assert left.vectors[1].tolist() == [[0.0, 0.0], [0.0, 0.0], [3.0, 3.0]]
    assert batch_content(right) != batch_content(right.changed(vectors=right.vectors + 1))
    write(rows, tmp_path / "shards", vocabulary=10, fingerprint="f")
    stored, _ = opened(tmp_path / "shards", "f")
    again = collate(stored, lines, pad=0)
    assert batch_content(again) == batch_content(right)


def test_vectors_that_do_not_fit_are_named():
    rows = in_memory([Row([5, 6], 0, [1, 1], vectors=np.ones((1, 2)))], vocabulary=10)
    with pytest.raises(DataError, match="A row of 2 tokens has 1 vectors"):
        collate(rows, [np.array([0])], pad=0)
    with pytest.raises(DataError, match="Rows have pictures, which is not a column"):
        in_memory([Row([5], 0, [1], pictures=[1])], vocabulary=10)
    with pytest.raises(ValueError, match="reads no vectors"):
        lab.encoder(vocabulary=10, width=8, layers=1, heads=1)(
            torch.tensor([[1]]), vectors=torch.ones(1, 1, 2)
        )


def test_inputs_are_shuffled_and_blanked_with_their_vectors(tmp_path):
    session = set_up(seeing(tmp_path))
    batch = next(iter(session.dataset.loader("train", seed=0)))
    prepared = session.task.prepare(batch, 0)
    dealt, empty = others(prepared, 0).values()
    assert not torch.equal(dealt.vectors, prepared.vectors) and not empty.vectors.any()
    sums = [one.vectors.double().sum((0, 1)) for one in (dealt, prepared)]
    torch.testing.assert_close(*sums)


class Mixing(torch.nn.Module):
    """An entrance that mixes the vectors of a row: a leak that no id shows."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.in_features, self.out_features = inner.in_features, inner.out_features

    def forward(self, vectors):
        return self.inner(vectors + vectors.flip(1))


def test_a_leak_among_vectors_is_named(tmp_path):
    """Of a decoder: ids alone would not show it, they are all the same and pass by the entrance."""
    session = set_up(seeing(tmp_path, family="decoder"))
    assert found("dependency", of(session)).outcome == "pass"
    embedding = session.model.trunk.decoder.embedding
    embedding.vectors = Mixing(embedding.vectors)
    assert found("dependency", of(session)).outcome == "fail"


def test_the_config_of_a_model_without_vectors_is_as_it_was(tmp_path):
    from attnlab.config.files import to_json

    assert "vectors" not in json.dumps(to_json(config(tmp_path)))
    assert to_json(seeing(tmp_path))["model"]["vectors"] == WIDTH
