"""A recurrent model from the command line: each command serves it, or says why not."""

import json

import pytest

from tests.training.small_run import for_task, merged, settings


@pytest.fixture(scope="module")
def translator(attnlab, tmp_path_factory):
    """(its config, its run): three steps of a GRU with attention."""
    folder = tmp_path_factory.mktemp("recurrent")
    own = {"model": {"trunk": "gru(attention=additive)", "heads": 4}, "training": {"budget": {"steps": 3}}}
    file = folder / "config.json"
    file.write_text(json.dumps(merged(merged(settings(folder), for_task("seq2seq", folder)), own)))
    trained = attnlab("train", file, "--out", folder / "run", checked=False)
    assert trained.code == 0, trained.said
    return file, folder / "run"


def test_its_run_is_scored_checked_and_writes(attnlab, translator):
    _, run = translator
    scored = attnlab("evaluate", run, "--json")
    assert scored.code == 0 and '"honesty"' in scored.said, scored.said
    written = attnlab("generate", run, "the cat sees the dog .", "--beam", 3)
    assert written.code == 0 and "→" in written.said, written.said
    assert attnlab("check", run).code == 0


def test_it_is_explained_where_that_has_a_meaning(attnlab, translator):
    file, run = translator
    counted = attnlab("explain", "counts", file)
    assert counted.code == 0 and "decoder.recurrence.state map" in counted.said
    pair = ("--text", "the cat sees the dog .", "--pair", ". dog the sees cat the")
    aligned = attnlab("explain", "attention", run, *pair)
    assert aligned.code == 0 and "Alignment by cross-attention layer 1, head 0" in aligned.said
    for command in ("reach", "scores"):
        refused = attnlab("explain", command, run)
        assert refused.code != 0 and "the model's trunk is a Gru" in refused.said
    drawn = attnlab("explain", "mask", file)
    assert drawn.code != 0 and "the model's trunk is a Gru" in drawn.said


def test_what_it_does_not_use_is_named_before_any_work(attnlab, translator, tmp_path):
    file, _ = translator
    refused = attnlab("train", file, "--set", "model.heads=2", "--out", tmp_path / "run")
    assert refused.code == 2 and "model.heads is 2" in refused.said
    assert "set it to 4, which it is by default" in " ".join(refused.said.split())
