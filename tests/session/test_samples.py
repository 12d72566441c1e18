"""What runs write at each evaluation."""

import pytest
import torch

from attnlab.data.dataset import Dataset
from attnlab.generation.sample_file import until
from attnlab.session import training
from attnlab.session.trained import Trained
from tests.training.small_run import config, for_task, train


def test_samples_are_written_at_each_evaluation_and_come_again_after_a_kill(causal):
    """The same seed at every step; a run that goes on at step 20 forgets what stood after it."""
    text = (causal[0] / "samples.txt").read_text()
    steps = [line for line in text.splitlines() if line.startswith("step ")]
    assert steps == [f"step {n}" for n in range(4, 41, 4)]
    assert "".join(until(text, 40)) == text
    kept = "".join(until(text, 20))
    assert text.startswith(kept) and kept.count("step ") == 5
    last = text.split("step 40")[1]
    assert "1. " in last and "3. " in last


def test_an_encoder_decoder_answers_the_same_sources_at_each_evaluation(translating, three_masks):
    text = (translating / "samples.txt").read_text()
    blocks = [block.splitlines() for block in text.split("step ")[1:]]
    assert [int(block[0]) for block in blocks] == list(range(4, 41, 4))
    trained = Trained.at(translating)
    rows = Dataset(trained.config.data).rows("dev")
    for number, shown in enumerate(blocks[-1][1:4]):
        source, target = shown.removeprefix(f"{number + 1}. ").split(" → ")
        assert source == trained.tokenizer.decode(rows.ragged("ids", number)) and target
    assert {line.split(" → ")[0] for block in blocks for line in block[1:4]} == {
        line.split(" → ")[0] for line in blocks[0][1:4]
    }
    assert not (three_masks / "samples.txt").exists(), "a masked model does not go on"


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("task", ["seq2seq", "denoising"])
def test_samples_draw_no_number_of_training(tmp_path, monkeypatch, task):
    settings = config(tmp_path, **for_task(task, tmp_path))
    with_samples = train(settings, tmp_path / "with")
    text = (tmp_path / "with" / "samples.txt").read_text()
    assert "→" in text and ("<MASK>" in text) == (task == "denoising"), "the source as it was read"
    monkeypatch.setattr(training, "sample_files", lambda *_, **about: [])
    without = train(settings, tmp_path / "without")
    theirs = dict(without.model.named_parameters())
    assert all(torch.equal(p, theirs[name]) for name, p in with_samples.model.named_parameters())
