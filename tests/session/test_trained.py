"""A run opened again: its tokenizer, its weights and its text."""

import json
import math

import pytest
import torch

from attnlab.config.values import ConfigError
from attnlab.generation.request import Request
from attnlab.generation.rules import Greedy
from attnlab.model.cache import KeyValues
from attnlab.runs.faults import RunError
from attnlab.session.trained import Trained
from attnlab.session.writing import text_of, usual_length, write
from tests.session.adapted import asked
from tests.session.commands import answer, command
from tests.training.small_run import train


def test_an_opened_run_is_the_model_that_was_trained(causal):
    folder, run = causal
    trained = Trained.at(folder)
    assert trained.step == 40 and trained.tokenizer.size == trained.model.head.vocabulary
    theirs = dict(run.model.named_parameters())
    assert all(torch.equal(p, theirs[name]) for name, p in trained.model.named_parameters())
    earlier = Trained.at(folder / "checkpoints" / "step-39")
    assert earlier.step == 39
    assert Trained.at(folder, which="best").step == run.state.best_step


def test_another_tokenizer_is_refused(causal, tmp_path):
    import shutil

    folder = tmp_path / "run"
    shutil.copytree(causal[0], folder)
    held = json.loads((folder / "tokenizer.json").read_text())
    words = list(held["model"]["vocab"])
    held["model"]["vocab"] = {word: i for i, word in enumerate([*words[:10], *reversed(words[10:])])}
    (folder / "tokenizer.json").write_text(json.dumps(held))
    with pytest.raises(RunError, match="not the tokenizer that this run was trained with"):
        Trained.at(folder)


def test_what_is_no_run_or_damaged_is_named(causal, tmp_path):
    import shutil

    with pytest.raises(ConfigError, match="holds no run"):
        Trained.at(tmp_path)
    folder = tmp_path / "run"
    shutil.copytree(causal[0], folder)
    weights = folder / "checkpoints" / "step-40" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-8])
    with pytest.raises(RunError, match=r"step 40 .* is damaged"):
        Trained.at(folder)
    shutil.rmtree(folder / "checkpoints")
    with pytest.raises(RunError, match="no checkpoint yet"):
        Trained.at(folder)


def test_written_text_goes_on_with_the_prompt(causal):
    trained = Trained.at(causal[0])
    text = write(trained, ["the cat sees"], Request(rule="greedy", length=6))[0]
    assert text.prompt[1:] == trained.tokenizer.encode("the cat sees")
    assert text_of(trained, text).startswith(" "), "words are apart"
    shown = command("generate", causal[0], "the cat sees", "--rule", "greedy", "--length", "6")
    assert shown.output.rstrip("\n") == f"the cat sees{text_of(trained, text)}{'' if text.stopped else ' …'}"
    assert trained.generate("a dog", length=5) == trained.generate("a dog", length=5)
    samples = answer("generate", causal[0], "the cat", "a dog", "--copies", "2", "--length", "5")
    assert [s["prompt"] for s in samples["samples"]] == ["the cat"] * 2 + ["a dog"] * 2
    assert samples["quality"]["n"] == 4 and samples["step"] == 40
    again = answer("generate", causal[0], "a dog", "--length", "5")
    assert again["samples"][0]["text"] == samples["samples"][2]["text"], "the same seed, whatever the batch"


def test_beams_are_written_for_many_prompts_at_once(causal, translating):
    """The same texts as one by one, the best first; for a model with a source too."""
    for folder, prompts in (
        (causal[0], ("the", "a dog")),
        (translating, ("the cat sees a dog .", "at home .")),
    ):
        settings = ("--beam", "3", "--copies", "2", "--length", "8")
        together = answer("generate", folder, *prompts, *settings)["samples"]
        assert [s["prompt"] for s in together] == [p for p in prompts for _ in range(2)]
        alone = [s for p in prompts for s in answer("generate", folder, p, *settings)["samples"]]
        assert alone == together and together[0]["text"] != together[1]["text"]


def test_the_usual_length_is_what_the_context_leaves(causal):
    trained = Trained.at(causal[0])
    assert usual_length(trained, ["the cat"]) == 24 - 3 and usual_length(trained, ["the " * 30]) == 1
    assert trained.generate("the cat") == trained.generate("the cat", length=21)
    assert answer("generate", causal[0], "the cat", "--rule", "greedy")["samples"][0]["tokens"] <= 21
    window = answer("generate", causal[0], "the cat", "--beyond", "window", "--length", "60")
    assert window["samples"]


def test_several_texts_grow_in_a_terminal(causal, monkeypatch):
    """What is drawn while they are written is taken away again; what stays is what a pipe would get."""
    import io

    from attnlab.cli import generate
    from attnlab.documents.terminal import PlainConsole

    arguments = ("generate", causal[0], "the cat", "a dog", "--length", "6")
    plain = command(*arguments).output
    drawn, seen = io.StringIO(), []
    console = PlainConsole(file=drawn, force_terminal=True, color_system=None, width=80, height=24)
    monkeypatch.setattr(generate, "out", console)
    passage = generate.passage
    monkeypatch.setattr(generate, "passage", lambda *a: seen.append(len(a[2].new)) or passage(*a))
    assert command(*arguments).exit_code == 0
    *_, last = drawn.getvalue().split("\x1b[2K")
    assert last.replace("\x1b[?25h", "").split() == plain.split()
    assert seen[0] == 0 and len(seen) > 4, "drawn from the first moment on"


def test_weights_in_fewer_bits_say_that_they_are_approximate(causal):
    exact = answer("generate", causal[0], "the cat", "--rule", "greedy", "--length", "5")
    assert exact["weights"] == {"kind": "float32"}
    for kind, most in (("float16", 1e-5), ("int8", 1e-2)):
        arguments = ("generate", causal[0], "the cat", "--rule", "greedy", "--length", "5", "--weights", kind)
        result = command(*arguments, "--json")
        found = json.loads(result.stdout)["weights"]
        assert found["kind"] == kind and 0 < found["divergence"] < most and found["largest_difference"] > 0
        assert f"{kind} weights are approximate" in result.stderr.replace("\n", " ")


def test_stop_strings_end_a_text_and_stay_in_it(causal):
    whole = answer("generate", causal[0], "the", "--rule", "greedy", "--length", "9")["samples"][0]
    word = whole["text"].split()[1]
    cut = answer("generate", causal[0], "the", "--rule", "greedy", "--length", "9", "--stop", word)[
        "samples"
    ][0]
    assert cut["stopped"] and cut["text"] == whole["text"][: whole["text"].index(word) + len(word)]


def test_a_masked_model_fills_in(masked):
    found = answer("generate", masked, "--fill", "the cat [MASK] the [MASK] .")
    places = found["places"]
    assert len(places) == 2 and all(len(place) == 5 for place in places)
    best = [place[0]["token"] for place in places]
    assert found["filled"] == f"the cat {best[0]} the {best[1]} ." and found["step"] == 40
    chances = [entry["probability"] for entry in places[0]]
    assert chances == sorted(chances, reverse=True) and 0 < sum(chances) <= 1
    assert "nothing to fill in" in str(command("generate", masked, "--fill", "the cat").exception)
    assert found["filled"] in command("generate", masked, "--fill", "the cat [MASK] the [MASK] .").output


def test_no_special_token_is_offered_and_small_chances_are_not_none(masked):
    trained = Trained.at(masked)
    tokenizer = trained.tokenizer
    with torch.no_grad():
        trained.model.head.table.weight[sorted(tokenizer.special_ids)] *= 100  # now likely, some of them
    (offered,) = trained.fill("the [MASK] .", top=1000)
    words = {token for token, _ in offered}
    assert len(offered) == tokenizer.size - len(tokenizer.special_ids) and min(p for _, p in offered) >= 0
    assert not words & {tokenizer.token(special) for special in tokenizer.special_ids}


def test_small_chances_are_shown_as_small(masked, monkeypatch):
    from attnlab.session.trained import Trained

    monkeypatch.setattr(Trained, "fill", lambda *_: [[("cat", 0.9), ("dog", 0.0004)]])
    shown = command("generate", masked, "--fill", "the [MASK] .").output
    assert "the cat ." in shown and "0.900" in shown and "< 0.001" in shown and "0.000" not in shown


def test_python_writes_what_the_command_writes(causal):
    trained = Trained.at(causal[0])
    prompts = ["the cat", "a dog"]
    for options in (
        {"length": 5, "copies": 2},
        {"length": 6, "rule": "greedy"},
        {"length": 6, "beam": 3, "copies": 2, "penalty": 0.5},
        {"length": 9, "stop": "the", "seed": 3},
        {"length": 60, "beyond": "window"},
    ):
        named = [part for name, value in options.items() for part in (f"--{name}", value)]
        theirs = answer("generate", causal[0], *prompts, *named)["samples"]
        assert trained.generate(prompts, **options) == [sample["text"] for sample in theirs]
    assert trained.generate(["the cat"], length=5) == [trained.generate("the cat", length=5)]
    assert len(trained.generate("the cat", length=5, copies=3)) == 3 and trained.generate([]) == []
    assert trained.generate("the", length=6, rule=Greedy()) == trained.generate(
        "the", length=6, rule="greedy"
    )


@pytest.mark.parametrize(
    ("prompts", "options", "words"),
    [
        (5, {}, "The prompt is 5; give a text, or a list of texts"),
        (["the", 5], {}, "give a text, or a list of texts"),
        ("the", {"length": "5"}, "length is '5'; it must be a whole number of at least 1"),
        ("the", {"copies": 0}, "copies is 0"),
        ("the", {"stop": 3}, "stop is 3; give a text"),
        ("the", {"beyond": "never"}, "refuse or window"),
        ("the", {"lenght": 5}, 'Did you mean "length"'),
        ("the", {"beam": 2, "rule": "greedy"}, "leave out --rule"),
    ],
)
def test_wrong_requests_are_told_in_a_sentence(causal, prompts, options, words):
    with pytest.raises(ConfigError) as told:
        Trained.at(causal[0]).generate(prompts, **options)
    assert words in str(told.value)


def test_a_source_and_its_target_are_shown_apart(translating):
    source = "the cat sees a dog ."
    (sample,) = answer("generate", translating, source, "--rule", "greedy", "--length", "6")["samples"]
    alone = command("generate", translating, source, "--rule", "greedy", "--length", "6").output
    assert alone.startswith(f"{source} → {sample['text'].strip()}")
    both = command("generate", translating, source, "at home .", "--rule", "greedy", "--length", "6").output
    assert both.startswith(f"{source} → {sample['text'].strip()}") and "\nat home . → " in both
    told = command("generate", translating).exception
    assert isinstance(told, ConfigError) and "from a source text, and none was given" in str(told)


def test_unknown_words_of_a_prompt_are_named_once(causal, masked):
    result = command("generate", causal[0], "the zebra sees", "a zebra , the gnu", "--length", "3")
    assert "read as <UNK>: zebra, ,, gnu." in result.stderr and "zebra" in result.stdout
    assert result.stderr.count("Unknown to the tokenizer") == 1
    filled = command("generate", masked, "--fill", "the zebra [MASK] the cat .")
    assert "read as <UNK>: zebra." in filled.stderr
    assert command("generate", causal[0], "the cat", "--length", "3").stderr == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("generate", "RUN", "--rule", "sampel"), 'Did you mean "sample"?'),
        (("generate", "RUN", "--rule", "sample(temperature=0)"), "use greedy"),
        (("generate", "RUN", "the", "--length", "500"), "trained on 24"),
        (("generate", "RUN", "--beyond", "never"), "refuse or window"),
        (("generate", "RUN", "--fill", "a [MASK]"), "Only a masked language model"),
        (("generate", "RUN", "the cat " * 20), "shorten the prompt"),
        (("generate", "RUN", "the", "--fill", "a [MASK]"), "either prompts"),
        (("generate", "RUN", "the", "--stop", ""), "--stop is empty"),
        (("generate", "RUN", "the", "--beam", "2", "--rule", "greedy"), "leave out --rule"),
        (("generate", "RUN", "the", "--beam", "2", "--stop", "a"), "leave out --stop"),
        (("generate", "RUN", "the", "--beam", "2", "--copies", "3"), "widen it"),
        (("generate", "RUN", "the", "--beam", "2", "--length", "500"), "trained on 24"),
        (("generate", "MASKED", "the"), "--fill"),
        (("generate", "RUN", "the", "--weights", "int4"), "float16 or int8"),
        (("generate", "MASKED", "--fill", "a [MASK]", "--weights", "int8"), "either prompts"),
        (("generate", "MASKED", "--fill", "[MASK] " * 30), "reads at most 24"),
        (("evaluate", "RUN", "--split", "tset"), "no split"),
        (("evaluate", "RUN", "--probe", ""), "no text to score"),
        (("evaluate", "RUN", "--on", "missing.txt"), 'There is no file "missing.txt"'),
        (("evaluate", "RUN", "--encoding", "latin-1"), "--encoding says how the files of --on are read"),
    ],
)
def test_mistakes_are_named(causal, masked, arguments, words):
    runs = {"RUN": causal[0], "MASKED": masked}
    result = command(*(runs.get(a, a) for a in arguments))
    assert isinstance(result.exception, ValueError) and words in str(result.exception)


def test_a_cache_that_mixes_up_rows_is_told_when_a_run_is_opened(causal, leaking, translating, monkeypatch):
    """Also where it broke after the run's own checks; a leak is another failure, and told as such."""
    assert Trained.at(causal[0]).unsound == [] == Trained.at(translating).unsound
    assert Trained.at(leaking).unsound == ["dependency", "honesty"]

    def select(self, rows):
        if self.keys is not None:
            self.keys = self.keys[rows]
            self.values = self.values[torch.arange(len(rows)) % len(self.values)]

    monkeypatch.setattr(KeyValues, "select", select)
    assert Trained.at(causal[0]).unsound == ["decoding"] == Trained.at(translating).unsound
    shown = command("generate", causal[0], "the cat", "--length", "3")
    assert "decoding" in shown.output


def test_a_text_that_is_too_long_is_embedded_only_as_one_says(masked):
    trained = Trained.at(masked)
    words = ["the cat sees the dog"] * 40
    long, room = " ".join(words), trained.config.model.length - trained.tokenizer.form.single_room
    with pytest.raises(ConfigError, match=rf"longer than the {room} that this model reads; split it"):
        trained.embed(["the cat", long])
    ids = trained.tokenizer.encode(long)
    ends = {"end": ids[:room], "start": ids[-room:]}
    for cut, kept in ends.items():
        alone = trained.embed([trained.tokenizer.decode(kept)])
        torch.testing.assert_close(trained.embed([long], cut=cut), alone)
    assert not torch.allclose(trained.embed([long], cut="end"), trained.embed([long], cut="start"))


def test_one_text_that_cannot_be_read_loses_no_other(home, tmp_path, unchecked):
    """Its own prediction says why; those of the others are what they are without it."""
    train(asked(home, set=["training.budget.steps=2", "training.evaluate_every=2"]), tmp_path / "run")
    run = Trained.at(tmp_path / "run")
    texts = ["the cat sees a dog .", "", "my sister likes the old cat .", math.nan, " \n", "a\0b", None]
    with pytest.warns(UserWarning, match=r"5 of 7 texts have no prediction \(text 2: it is empty, text 4"):
        found = run.predict(texts)
    alone = run.predict([texts[0], texts[2]])
    assert [found[0], found[2]] == alone and alone[0] != alone[1]
    assert [each.answer for n, each in enumerate(found) if n not in (0, 2)] == [None] * 5
    assert [found[n].unread for n in (1, 3, 4, 6)] == [
        "it is empty",
        "it is nan, not text",
        "it is empty",
        "it is None, not text",
    ]
    assert "NUL" in found[5].unread
    with pytest.warns(UserWarning, match="1 of 1 texts"):
        assert run.predict([""])[0].unread
    with pytest.raises(ConfigError, match="classifies single texts, and a pair was given"):
        run.predict([("a", "b")])
    said = answer("predict", tmp_path / "run", "the cat", "", "--allow", "majority", "--allow", "collapse")
    assert [row["unread"] for row in said] == ["", "it is empty"] and said[1]["answer"] is None
    shown = command("predict", tmp_path / "run", "the cat", "")
    assert "no prediction: it is empty" in shown.output
