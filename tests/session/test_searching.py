"""Search in files with every family of model, from the command line and from Python."""

import json

import pytest
import torch

from attnlab.config.values import ConfigError
from attnlab.model.tokens import Tokens
from attnlab.session import soundness
from attnlab.session.embedding import Embedder
from attnlab.session.trained import Trained
from tests.session.commands import answer, command
from tests.training.small_run import config, for_task, merged, train

SHORT = {"training": {"budget": {"steps": 2}, "evaluate_every": 2, "checkpoint_every": 2}}
FAMILIES = ["masked", "causal", "seq2seq"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("families")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(soundness, "run_checks", lambda case, names=(): [])
        for task in FAMILIES:
            train(config(place, **merged(for_task(task, place), SHORT)), place / task)
    return place


@pytest.fixture
def notes(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "one.txt").write_text("the cat sees a dog .\n\nmy sister likes the old man .\n")
    (folder / "two.md").write_text("a bird hears the small child on the hill .\n")
    (folder / "photo.png").write_bytes(bytes(range(256)) * 20)
    return folder


def by_hand(run, text, pooling):
    """The vector of a text, the slow way."""
    ids = torch.tensor([run.tokenizer.form.single(run.tokenizer.encode(text))])
    with torch.no_grad():
        tokens, trunk = Tokens.of(ids.shape[1]), run.model.eval().trunk
        hidden = trunk.encoder(ids, tokens) if trunk.reads_source else trunk(ids, tokens)
    vector = {"mean": hidden.mean(1), "first": hidden[:, 0], "last": hidden[:, -1]}[pooling][0]
    return vector / vector.norm()


@pytest.mark.parametrize("task", FAMILIES)
def test_every_family_gives_vectors(runs, task):
    run = Trained.at(runs / task)
    texts = ["the cat sees a dog .", "my sister", "a bird hears the small child on the hill ."]
    for pooling in ("mean", "first", "last"):
        found = run.embed(texts, pooling=pooling, batch=2)
        for vector, text in zip(found, texts, strict=True):
            assert torch.allclose(vector, by_hand(run, text, pooling), atol=1e-5)
    assert torch.equal(run.embed(texts), run.embed(texts, pooling="mean"))


@pytest.mark.parametrize("task", FAMILIES)
def test_every_family_searches(runs, notes, task):
    run = Trained.at(runs / task)
    hits = run.search("the cat sees a dog .", inside=notes, top=2)
    assert hits[0].score == pytest.approx(1.0, abs=1e-5) and hits[0].text == "the cat sees a dog ."
    assert hits[0].file.endswith("one.txt") and hits[0].where == "line 1" and len(hits) == 2


def test_the_command_names_what_it_leaves_out(runs, notes):
    shown = command("search", runs / "masked", "the old man", "--in", notes)
    assert (
        "photo.png: it is a binary file" in shown.stderr and "Indexed 3 passages of 3 files" in shown.stderr
    )
    assert "one.txt" in shown.stdout and "line 3" in shown.stdout
    again = answer("search", runs / "masked", "the old man", "--in", notes)
    assert again["index"]["embedded"] == 0 and len(again["index"]["skipped"]) == 1
    assert [hit["score"] for hit in again["queries"][0]["hits"]] == sorted(
        (hit["score"] for hit in again["queries"][0]["hits"]), reverse=True
    )


def test_another_model_has_an_index_of_its_own(runs, notes, tmp_path):
    for task in FAMILIES:
        assert Trained.at(runs / task).search("a dog", inside=notes)
    assert len(list((tmp_path / "cache" / "attnlab").glob("index-*"))) == 3
    Trained.at(runs / "masked").search("a dog", inside=notes, index=tmp_path / "index")
    with pytest.raises(ConfigError, match="another model"):
        Trained.at(runs / "causal").search("a dog", inside=notes, index=tmp_path / "index")


def test_weights_length_and_pooling_decide_the_identity(runs):
    run = Trained.at(runs / "masked")
    one = Embedder.of(run)
    assert (
        one.identity == Embedder.of(Trained.at(runs / "masked")).identity != Embedder.of(run, "last").identity
    )
    with torch.no_grad():
        next(run.model.parameters())[0, 0] += 1
    assert Embedder.of(run).identity != one.identity


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "Say where and what"),
        (["x", "--in", "NOTES", "--score", "FILE"], "leave out QUERY"),
        ([" ", "--in", "NOTES"], "query is empty"),
        (["x", "--in", "NOTES/none"], "no folder or file"),
        (["x", "--in", "NOTES/photo.png"], "it is a binary file"),
        (["x", "--in", "NOTES", "--pooling", "max"], "must be one of trained"),
        (["x", "--in", "NOTES", "--pair", "passage"], "columns of --score"),
        (["--score", "NOTES/two.md"], "has no passage in 1 of 1 rows"),
    ],
)
def test_wrong_use_is_told(runs, notes, words, told):
    given = [word.replace("NOTES", str(notes)) for word in words]
    assert told in str(command("search", runs / "masked", *given).exception)


def test_it_is_scored_beside_bm25(runs, tmp_path):
    rows = [{"question": f"who sees {n} ?", "context": f"the cat sees {n} dogs ."} for n in range(12)]
    file = tmp_path / "pairs.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows * 2))
    found = answer("search", runs / "masked", "--score", file)
    assert found["queries"] == 24 and found["passages"] == 12
    mrr = found["measures"]["reciprocal_rank"]
    assert mrr["bm25"]["value"] == 1.0 and 0 < mrr["model"]["value"] <= 1
    assert mrr["difference"]["value"] == pytest.approx(mrr["model"]["value"] - 1)
    (finding,) = found["checks"]
    assert finding["outcome"] == "warn" and "24 are equal to a passage or another query" in finding["found"]
    assert "BM25" in command("search", runs / "masked", "--score", file).stdout
