"""Label words: classes scored by the probability of their words, without any training."""

import json

import numpy as np
import pytest
import torch

import attnlab as lab
from attnlab.config.values import ConfigError
from attnlab.data.example import Example
from attnlab.evaluation.label_words import LabelWords
from attnlab.session.baselines import Wording
from attnlab.session.trained import Trained
from tests.session.adapted import RATE, adapt
from tests.session.commands import answer, command

TEXTS = ["the cat sees a dog", "my sister likes the bird near the river", "a dog"]


@pytest.fixture(scope="module", params=["gpt", "bert"])
def language_model(request, home):
    return Trained.at(home / request.param)


def scorer(run, names, **changes):
    return LabelWords(run.model, run.tokenizer, 24, tuple(names), **{"template": "{text} {label}"} | changes)


def chance(run, text, word):
    """log p of a word after a text, or where masks stand for it: row by row, all scores, in float64."""
    form, words, read = run.tokenizer.form, run.tokenizer.encode(word), run.tokenizer.encode(text)
    model = run.model.double()
    if run.model.writes:
        ids = [*form.before, *read, *words]
        at = range(len(ids) - len(words) - 1, len(ids) - 1)
    else:
        ids = [*form.before, *read, *[run.tokenizer.specials.mask] * len(words), *form.end]
        at = range(len(form.before) + len(read), len(form.before) + len(read) + len(words))
    with torch.no_grad():
        chances = model(torch.tensor([ids])).log_softmax(-1)[0]
    model.float()
    return sum(float(chances[place, token]) for place, token in zip(at, words, strict=True))


@pytest.mark.parametrize("names", [("cat", "dog", "garden"), ("old man", "cat", "the old dog")])
def test_scores_are_the_probabilities_of_the_words(language_model, names):
    """Of one token each, which share a row, and of several, in one padded batch and one by one."""
    expected = [[chance(language_model, text, name) for name in names] for text in TEXTS]
    shares = torch.tensor(expected, dtype=torch.float64).softmax(-1).numpy()
    examples = [Example(text) for text in TEXTS]
    for size in (1, 32):
        found = scorer(language_model, names).probabilities(examples, batch_size=size)
        np.testing.assert_allclose(found, shares, atol=1e-5)
    other = scorer(language_model, ("a", "b", "c"), words=dict(zip("abc", names, strict=True)))
    np.testing.assert_allclose(other.probabilities(examples), shares, atol=1e-5)


def test_text_after_the_label_is_read_by_a_masked_model_alone(home):
    masked, causal = Trained.at(home / "bert"), Trained.at(home / "gpt")
    form = "{text} {label} in the garden"
    example = [Example("the cat sees")]
    plain = scorer(masked, ("cat", "dog")).probabilities(example)
    assert not np.allclose(scorer(masked, ("cat", "dog"), template=form).probabilities(example), plain)
    with pytest.raises(ConfigError, match=r"a decoder reads only what stands before; end it with \{label\}"):
        scorer(causal, ("cat", "dog"), template=form)


def test_a_long_text_loses_its_end_and_never_the_label(language_model):
    long = " ".join(["the cat sees a dog near the river"] * 9)
    found = scorer(language_model, ("cat", "dog"))
    assert max(len(one.ids) for one in found._asked([Example(long)])) <= 24
    cut = " ".join(long.split()[: len(long.split())])
    assert np.isfinite(found.probabilities([Example(cut)])).all()
    with pytest.raises(ConfigError, match="leaves no room for text"):
        scorer(language_model, ("cat " * 30, "dog")).probabilities([Example("the cat")])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"template": "{text} is"}, r"must hold \{label\}, \{text\}, each once"),
        ({"template": "{text} {label} {label}"}, "each once"),
        ({"template": "{text} {mood} {label}"}, "no other name"),
        ({"pairs": True}, r"\{label\}, \{pair\}, \{text\}"),
        ({"words": {"cow": "moo"}}, 'a label word for "cow", and the classes are cat, dog'),
    ],
)
def test_wrong_wording_is_told(home, changes, said):
    with pytest.raises(ConfigError, match=said):
        scorer(Trained.at(home / "gpt"), ("cat", "dog"), **changes)


def test_they_stand_beside_the_tuned_score(home, tmp_path, unchecked):
    """As a baseline with its n and interval, by adapt, by evaluate in the same words, and from Python."""
    out = tmp_path / "run"
    asked = ["--template", "{text} {label}", "--label-words", "cat=cat,dog=bird", "--set", RATE]
    ended = adapt(home, *asked, "--out", str(out), "--set", "training.budget.epochs=2")
    said = " ".join(ended.output.split())
    assert "Baselines (accuracy, n = " in said and ", label words 0." in said, said
    held = {one["name"]: one for one in json.loads((out / "baselines.json").read_text())["dev"]}
    words = held["label words"]
    assert (
        words["n"] == held["majority"]["n"] and words["interval"][0] < words["value"] < words["interval"][1]
    )
    scored = answer("evaluate", out)["split"]
    assert {one["name"]: one for one in scored["baselines"]} == held, "asked in the words of the run"
    assert held["majority"]["value"] == scored["majority"]["share"]
    assert "label words" in command("evaluate", out).output

    run = Trained.at(out)
    rows = [line.split(",") for line in (home / "reviews.csv").read_text().splitlines()[1:]]
    wording = {"template": "{text} {label}", "words": {"dog": "bird"}}
    found = lab.label_words(home / "bert", [row[0] for row in rows], ["cat", "dog"], **wording)
    right = [one.answer == row[1] for one, row in zip(found, rows, strict=True)]
    everything = run.evaluate(on=home / "reviews.csv", text="body", label="who")
    by_name = {one["name"]: one["value"] for one in everything["baselines"]}
    assert by_name["label words"] == pytest.approx(np.mean(right))


def test_a_start_that_is_no_language_model_has_none(home, tmp_path, unchecked):
    first = adapt(home, "--adapter", "head", "--set", RATE, "--out", str(tmp_path / "one"))
    again = command(
        *("adapt", tmp_path / "one", "--data", home / "reviews.csv", "--text", "body", "--label", "who"),
        *("--adapter", "head", "--set", RATE, "--out", tmp_path / "two"),
    )
    assert "label words" in first.output and "label words" not in again.output
    with pytest.raises(ConfigError, match="for decoders and masked language models"):
        lab.label_words(tmp_path / "one", ["a cat"], ["cat", "dog"])


@pytest.mark.parametrize("template", ["{", "{text} }{label}", "{text!x"])
def test_what_is_no_template_is_refused_before_anything_is_trained(template):
    with pytest.raises(ConfigError, match=r"cannot be read .*; write {text} and {label}"):
        Wording(template)


def test_a_template_has_names_and_nothing_beside_them(language_model):
    """A width of a thousand million characters among it."""
    with pytest.raises(ConfigError, match=r"must hold {label}, {text}, each once, and no other name"):
        scorer(language_model, ["a", "b"], template="{text:>1000000000} {label}")
    with pytest.raises(ConfigError, match="There are no labels to choose from"):
        scorer(language_model, [])


def test_where_the_usual_template_has_no_room_there_are_none_and_the_run_is_whole(home, tmp_path, unchecked):
    """Nobody asked for it: a run that was trained ended in an error, and failed in a study."""
    short = ("--adapter", "head", "--set", RATE, "--set", "data.length=5")
    ended = adapt(home, *short, "--out", str(tmp_path / "one"))
    assert "Done after" in ended.output and "majority" in ended.output
    assert "label words" not in ended.output and ended.exit_code in (0, 1)
    asked = adapt(home, *short, "--template", "{text} Label: {label}", "--out", str(tmp_path / "two"))
    assert isinstance(asked.exception, ConfigError) and "leaves no room for text" in str(asked.exception)
