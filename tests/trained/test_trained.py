"""A run opened again: its tokenizer, its weights, its text and its scores."""

import json
import math

import pytest
import torch
from typer.testing import CliRunner

from attnlab.cli import app
from attnlab.config.values import ConfigError
from attnlab.experiment.run import train
from attnlab.experiment.scores import of_probes, of_split, of_text
from attnlab.experiment.trained import open_run
from attnlab.generation.rules import Greedy
from attnlab.training.errors import RunError
from tests.training.small import config, for_objective, merged

LONGER = {"training": {"budget": {"steps": 40}, "optimizer": {"kind": "adamw", "rate": 1e-2}}}


@pytest.fixture(scope="module")
def causal(tmp_path_factory):
    folder = tmp_path_factory.mktemp("causal")
    run = train(config(folder, **merged(LONGER, {"model": {"length": 24}})), folder / "run")
    return folder / "run", run


@pytest.fixture(scope="module")
def masked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("masked")
    train(config(folder, **merged(LONGER, for_objective("masked", folder))), folder / "run")
    return folder / "run"


@pytest.fixture(scope="module")
def leaking(tmp_path_factory):
    folder = tmp_path_factory.mktemp("leaking")
    zero = config(folder, **merged(LONGER, {"model": {"masking": "zero"}}))
    train(zero, folder / "run", allow=["dependency"])
    return folder / "run"


def command(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def answer(*arguments):
    result = command(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_an_opened_run_is_the_model_that_was_trained(causal):
    folder, run = causal
    trained = open_run(folder)
    assert trained.step == 40 and trained.tokenizer.size == trained.model.head.vocabulary
    theirs = dict(run.model.named_parameters())
    assert all(torch.equal(p, theirs[name]) for name, p in trained.model.named_parameters())
    earlier = open_run(folder / "checkpoints" / "step-39")
    assert earlier.step == 39
    assert open_run(folder, which="best").step == run.state.best_step


def test_another_tokenizer_is_refused(causal, tmp_path):
    import shutil

    folder = tmp_path / "run"
    shutil.copytree(causal[0], folder)
    held = json.loads((folder / "tokenizer.json").read_text())
    words = list(held["model"]["vocab"])
    held["model"]["vocab"] = {word: i for i, word in enumerate([*words[:10], *reversed(words[10:])])}
    (folder / "tokenizer.json").write_text(json.dumps(held))
    with pytest.raises(RunError, match="not the tokenizer that this run was trained with"):
        open_run(folder)


def test_what_is_no_run_or_damaged_is_named(causal, tmp_path):
    import shutil

    with pytest.raises(ConfigError, match="holds no run"):
        open_run(tmp_path)
    folder = tmp_path / "run"
    shutil.copytree(causal[0], folder)
    weights = folder / "checkpoints" / "step-40" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-8])
    with pytest.raises(RunError, match=r"step 40 .* is damaged"):
        open_run(folder)
    shutil.rmtree(folder / "checkpoints")
    with pytest.raises(RunError, match="no checkpoint yet"):
        open_run(folder)


def test_written_text_goes_on_with_the_prompt(causal):
    trained = open_run(causal[0])
    text = trained.write(["the cat sees"], rule=Greedy(), length=6)[0]
    assert text.prompt[1:] == trained.tokenizer.encode("the cat sees")
    assert trained.text(text).startswith(" "), "words are apart"
    shown = command("generate", causal[0], "the cat sees", "--rule", "greedy", "--length", "6")
    assert shown.output.strip() == f"the cat sees{trained.text(text)}"
    assert trained.generate("a dog", length=5) == trained.generate("a dog", length=5)
    samples = answer("generate", causal[0], "the cat", "a dog", "--copies", "2", "--length", "5")
    assert [s["prompt"] for s in samples["samples"]] == ["the cat"] * 2 + ["a dog"] * 2
    assert samples["quality"]["n"] == 4 and samples["step"] == 40
    again = answer("generate", causal[0], "a dog", "--length", "5")
    assert again["samples"][0]["text"] == samples["samples"][2]["text"], "the same seed, whatever the batch"
    beams = answer("generate", causal[0], "the", "--beam", "3", "--length", "5")
    assert len(beams["samples"]) == 1


def test_a_masked_model_fills_in(masked):
    places = answer("generate", masked, "--fill", "the cat [MASK] the [MASK] .")
    assert len(places) == 2 and all(len(place) == 5 for place in places)
    chances = [entry["probability"] for entry in places[0]]
    assert chances == sorted(chances, reverse=True) and 0 < sum(chances) <= 1
    assert "nothing to fill in" in str(command("generate", masked, "--fill", "the cat").exception)


def test_scores_have_definitions_and_the_honest_loss(causal):
    folder = causal[0]
    trained = open_run(folder)
    scored = of_split(trained, "dev", rows=8)
    values = {name: value for name, value, _ in scored["measures"]}
    assert values["perplexity"] == pytest.approx(math.exp(values["loss"])) and values["targets"] > 100
    assert all(definition for _, _, definition in scored["measures"])
    assert scored["honesty"]["sound"] and abs(scored["honesty"]["difference"]) < 1e-4
    shown = command("evaluate", folder, "--probe", "the cat sees a dog .").output
    assert "each token is scored from its past alone" in shown and "Probe sentences" in shown


def test_a_leak_is_called_one(leaking):
    scored = of_split(open_run(leaking), "dev", rows=8)
    assert not scored["honesty"]["sound"] and "sees what comes after" in scored["honesty"]["meaning"]


def test_probes_and_texts_are_scored_by_hand(causal, masked, tmp_path):
    trained = open_run(causal[0])
    sentence = "the cat sees a dog ."
    ids = trained.tokenizer.form.single(trained.tokenizer.encode(sentence))
    with torch.no_grad():
        logs = trained.model(torch.tensor([ids]))[0].log_softmax(-1)
    by_hand = -float(sum(logs[i, token] for i, token in enumerate(ids[1:]))) / (len(ids) - 1)
    probe = of_probes(trained, [sentence])[0]
    assert probe["loss"] == pytest.approx(by_hand, rel=1e-5) and probe["kind"] == "perplexity"
    assert of_probes(open_run(masked), [sentence])[0]["kind"] == "pseudo-perplexity"
    file = tmp_path / "text.txt"
    file.write_text("the cat sees a dog . " * 30)
    measures = {name: value for name, value, _ in of_text(trained, file)["measures"]}
    assert measures["targets"] == 180
    assert measures["bits_per_byte"] == pytest.approx(
        measures["loss"] * 180 / math.log(2) / file.stat().st_size
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("generate", "RUN", "--rule", "sampel"), 'Did you mean "sample"?'),
        (("generate", "RUN", "--rule", "sample(temperature=0)"), "use greedy"),
        (("generate", "RUN", "the", "--length", "500"), "trained on 24"),
        (("generate", "RUN", "--beyond", "never"), "refuse or window"),
        (("generate", "RUN", "--fill", "a [MASK]"), "Only a masked model"),
        (("evaluate", "RUN", "--split", "tset"), "no split"),
        (("evaluate", "RUN", "--on", "missing.txt"), "cannot be read"),
    ],
)
def test_mistakes_are_named(causal, arguments, words):
    result = command(*(causal[0] if a == "RUN" else a for a in arguments))
    assert isinstance(result.exception, ValueError) and words in str(result.exception)


def test_samples_are_written_at_each_evaluation_and_come_again_after_a_kill(causal):
    """The same seed at every step; a run that goes on at step 20 forgets what stood after it."""
    from attnlab.experiment.samples import until

    text = (causal[0] / "samples.txt").read_text()
    steps = [line for line in text.splitlines() if line.startswith("step ")]
    assert steps == [f"step {n}" for n in range(4, 41, 4)]
    assert "".join(until(text, 40)) == text
    kept = "".join(until(text, 20))
    assert text.startswith(kept) and kept.count("step ") == 5
    last = text.split("step 40")[1]
    assert "1. " in last and "3. " in last
