"""Explanations of stored models: with their own tokenizer, and over texts."""

import pytest
import torch

from attnlab.cli import console
from attnlab.config.values import ConfigError
from attnlab.data.corpora.own_files import Files
from attnlab.evaluation.documents import document_losses
from attnlab.model.capture import capture
from attnlab.session.evaluating import evaluator_of_texts
from attnlab.session.trained import Trained
from tests.session.commands import answer, command


def test_heads_are_worth_what_the_loss_loses_without_their_columns(causal, tmp_path):
    """By hand: the columns of the output map set to 0, the loss of each text again."""
    file = tmp_path / "texts.txt"
    file.write_text(
        "\n".join(["the cat sees a dog .", "my sister likes the bird at home .", "a dog hears ."])
    )
    trained = Trained.at(causal[0])
    found = trained.heads(file, unit="line")
    assert found.texts == 3 and len(found.heads) == 4
    changes = [head.change.value for head in found.ranked]
    assert changes == sorted(changes, reverse=True)
    by_hand = Trained.at(causal[0])
    texts = list(Files(path=str(file), unit="line").read("train"))
    usual = document_losses(evaluator_of_texts(by_hand, texts)[0])
    with torch.no_grad():
        by_hand.model.trunk.main.attentions()[1].output.weight[:, :8] = 0
    without = document_losses(evaluator_of_texts(by_hand, texts)[0])
    expected = (without.nats.sum() - usual.nats.sum()) / usual.targets.sum()
    head = next(head for head in found.heads if str(head.name) == "layer 1, head 0")
    assert head.change.value == pytest.approx(expected, abs=1e-6)
    assert head.change.low < head.change.value < head.change.high


def test_the_command_gives_the_same_numbers_on_the_runs_own_dev_split(causal):
    told = answer("explain", "heads", causal[0], "--texts", 5)
    found = Trained.at(causal[0]).heads(texts=5)
    assert told["texts"] == 5 and told["on"] == "the dev split"
    assert [head["change"] for head in told["heads"]] == pytest.approx([h.change.value for h in found.ranked])


def test_a_masked_model_hides_the_same_tokens_with_and_without_a_head(masked):
    """Or changes would be of the masks: without a head that adds nothing the loss is the same."""
    trained = Trained.at(masked)
    with torch.no_grad():
        trained.model.trunk.main.attentions()[1].output.weight[:, :8] = 0
    changes = {str(head.name): head.change.value for head in trained.heads(texts=6).heads}
    assert changes["layer 1, head 0"] == 0 and changes["layer 1, head 1"] != 0


@pytest.mark.parametrize("fixture", ["masked", "spans", "three_masks", "translating"])
def test_attention_of_every_kind_of_run(fixture, request):
    folder = request.getfixturevalue(fixture)
    pair = ["--pair", "garden the sees cat"] if fixture == "translating" else []
    told = answer("explain", "attention", folder, "--text", "the cat sees a dog", *pair)
    assert len(told["heads"]) == 2 * len(told["layers"]) == (12 if pair else 4)
    assert all("cat" in layer["keys"] for layer in told["layers"])
    assert all(head["without_it"] > 0 for head in told["heads"])


def test_a_pair_reads_both_texts(masked):
    row = Trained.at(masked).reading.row("the cat", "a dog")
    assert row.words[-2] == "dog" and "the" in row.words
    assert row.delimiters[-1] and not row.delimiters[1]


def test_the_picture_fits_eighty_columns(causal, monkeypatch):
    monkeypatch.setattr(console.out, "_width", 80)
    shown = command("explain", "attention", causal[0], "--text", "the cat sees a dog near the river .")
    assert shown.exit_code == 0, shown.output
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert "→" in shown.stdout and "█" in shown.stdout


def test_what_cannot_be_read_is_said(causal, translating):
    with pytest.raises(ConfigError, match="no tokens"):
        Trained.at(causal[0]).reading.row("")
    with pytest.raises(ConfigError, match="reads at most 24"):
        Trained.at(causal[0]).reading.row("the cat " * 30)
    with pytest.raises(ConfigError, match="give both"):
        Trained.at(translating).reading.row("the cat")


def test_the_keys_of_a_head_are_those_that_flow_and_a_query_selects_one(causal):
    subject = Trained.at(causal[0]).reading
    found = subject.keys("the cat sees", 1, 1)
    inputs = subject.row("the cat sees").inputs
    with torch.no_grad(), capture(subject.model, "layers.1.attention.keys") as seen:
        subject.model(inputs["ids"])
    torch.testing.assert_close(
        torch.tensor(found.keys).float(), seen["layers.1.attention.keys"][0, 1], rtol=1e-5, atol=1e-6
    )
    assert found.scale == pytest.approx(8**-0.5) and found.words[1] == "the"
    options = ["--model", causal[0], "--text", "the cat sees", "--layer", 1, "--head", 1]
    told = answer("explain", "query", *options, "--target", "all")
    assert told["targets"][0]["how"] == "exact" and told["scale"] == pytest.approx(8**-0.5)
    with pytest.raises(ConfigError, match="no head 2"):
        subject.keys("the cat", 0, 2)


def test_from_python_the_run_is_asked(causal):
    run = Trained.at(causal[0])
    assert len(run.attention("the cat sees").heads) == 4
    assert "<iframe" in run.attention("the cat sees")._repr_html_()
    losses = run.heads(texts=4)
    page = losses._repr_html_()
    assert losses.texts == 4 and all(f"layer {n // 2}, head {n % 2}" in page.lower() for n in range(4))
