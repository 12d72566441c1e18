"""What a trained model is worth: each number with its meaning, and none that means something else."""

import gzip
import json
import math

import pytest
import torch

from attnlab.data.errors import DataError
from attnlab.generation.decoder import Decoder
from attnlab.session.evaluating import evaluate_file, evaluate_split
from attnlab.session.sentence_probes import evaluate_probes
from attnlab.session.trained import Trained
from tests.session.commands import answer, command
from tests.training import small_run


def values_of(scored):
    return {name: one["value"] for name, one in scored["measures"].items()}


def intervals_of(scored):
    return {name: one["interval"] for name, one in scored["measures"].items() if "interval" in one}


def test_scores_have_definitions_and_are_recomputed(causal):
    folder = causal[0]
    trained = Trained.at(folder)
    scored = evaluate_split(trained, "dev", rows=8)
    values = values_of(scored)
    assert values["perplexity"] == pytest.approx(math.exp(values["loss"])) and values["targets"] > 100
    assert all(one["definition"] for one in scored["measures"].values())
    intervals = intervals_of(scored)
    assert values["texts"] > 20 and set(intervals) == {"loss", "perplexity", "bits_per_byte"}
    for name, (low, high) in intervals.items():
        assert low < values[name] < high
    assert intervals["perplexity"] == pytest.approx([math.exp(end) for end in intervals["loss"]])
    assert scored["honesty"]["sound"] and scored["honesty"]["largest"] < 1e-9
    assert scored["recomputed"]["outcome"] == "pass" and scored["recomputed"]["number"] < 1e-5
    shown = command("evaluate", folder, "--probe", "the cat sees a dog .").output
    assert (
        "Equal at every token" in shown
        and "Recomputed without the run" in shown
        and "Probe sentences" in shown
    )


def test_a_leak_is_called_one(leaking):
    scored = evaluate_split(Trained.at(leaking), "dev", rows=8)
    assert not scored["honesty"]["sound"] and "tokens that come later" in scored["honesty"]["meaning"]


def test_probes_and_texts_are_scored_by_hand(causal, masked, tmp_path):
    trained = Trained.at(causal[0])
    sentence = "the cat sees a dog ."
    ids = trained.tokenizer.form.single(trained.tokenizer.encode(sentence))
    with torch.no_grad():
        logs = trained.model(torch.tensor([ids]))[0].log_softmax(-1)
    by_hand = -float(sum(logs[i, token] for i, token in enumerate(ids[1:]))) / (len(ids) - 1)
    probe = evaluate_probes(trained, [sentence])[0]
    assert probe.loss == pytest.approx(by_hand, rel=1e-5) and probe.kind == "perplexity"
    hidden = Trained.at(masked)
    probe = evaluate_probes(hidden, [sentence])[0]
    assert probe.kind == "pseudo-perplexity" and probe.tokens == 6, "words alone, not what is round them"
    scored = evaluate_split(hidden, "dev", rows=8)
    assert scored.honesty is None and scored["pseudo"]["rows"] == 2
    low, high = scored["pseudo"]["interval"]
    assert low < scored["pseudo"]["perplexity"] < high
    assert "bits_per_byte" not in scored["measures"], "hidden tokens stand for a part of the text only"
    shown = command("evaluate", masked, "--probe", sentence).output
    assert "Pseudo-perplexity" in shown and "pseudo-perplexity" in shown
    file = tmp_path / "text.txt"
    file.write_text("the cat sees a dog . " * 30)
    measures = values_of(evaluate_file(trained, file))
    assert measures["targets"] == 180
    assert measures["bits_per_byte"] == pytest.approx(
        measures["loss"] * 180 / math.log(2) / file.stat().st_size
    )


def test_a_loss_of_two_parts_is_called_a_sum(spans):
    scored = answer("evaluate", spans)["split"]
    values, told = values_of(scored), scored["measures"]
    assert values["loss"] == pytest.approx(values["masked"] + values["boundary"])
    assert values["perplexity"] == pytest.approx(math.exp(values["masked"]))
    assert told["loss"]["definition"].startswith("masked + boundary, a sum of 2 losses")
    assert told["perplexity"]["definition"].startswith("e^masked of hidden tokens")
    low, high = told["perplexity"]["interval"]
    assert low < values["perplexity"] < high


def test_unilm_is_scored_as_a_model_of_hidden_words(three_masks):
    scored = answer("evaluate", three_masks, "--probe", "the cat sees a dog .")
    told = scored["split"]["measures"]
    assert "hidden token" in told["loss"]["definition"] and "hidden" in told["targets"]["definition"]
    assert scored["split"]["pseudo"]["rows"] == 8
    assert scored["probes"][0]["kind"] == "pseudo-perplexity"
    trained = Trained.at(three_masks)
    words = ["the", "cat", "sees", "a", "dog", "."]
    hidden = [" ".join([*words[:n], "[MASK]", *words[n + 1 :]]) for n in range(len(words))]
    chances = [dict(trained.fill(text, top=100)[0]) for text in hidden]
    by_hand = [-math.log(chance[word]) for chance, word in zip(chances, words, strict=True)]
    assert scored["probes"][0]["loss"] == pytest.approx(sum(by_hand) / len(words), rel=1e-4)


def test_files_of_every_format_are_read_as_a_corpus_reads_them(causal, tmp_path):
    """One text a row, each token counted once; the same texts in any format give the same numbers."""
    trained = Trained.at(causal[0])
    texts = ["the cat sees a dog .", "my sister likes the bird at home .", "a dog hears the cat . " * 9]
    table, lines = tmp_path / "texts.csv", tmp_path / "texts.jsonl.gz"
    table.write_text("id,text\n" + "".join(f"{n},{text}\n" for n, text in enumerate(texts)))
    lines.write_bytes(gzip.compress("".join(json.dumps({"text": text}) + "\n" for text in texts).encode()))
    values = values_of(evaluate_file(trained, lines))
    assert values == values_of(evaluate_file(trained, table))
    assert values["texts"] == 3 and values["targets"] == sum(len(text.split()) for text in texts)
    alone = []
    for number, text in enumerate(texts):
        file = tmp_path / f"{number}.txt"
        file.write_text(text)
        alone.append(values_of(evaluate_file(trained, file)))
    assert values["loss"] * values["targets"] == pytest.approx(sum(v["loss"] * v["targets"] for v in alone))
    assert "interval" in answer("evaluate", causal[0], "--on", table)["text"]["measures"]["loss"]
    assert values_of(trained.evaluate(on=lines)) == values


def test_files_that_cannot_be_read_are_refused_as_a_corpus_refuses_them(causal, tmp_path):
    trained = Trained.at(causal[0])
    latin, table, columns = tmp_path / "latin.txt", tmp_path / "broken.csv", tmp_path / "columns.csv"
    latin.write_bytes("the caf\xe9 .".encode("latin-1"))
    table.write_text("text,label\nthe cat\nthe dog,1\n")
    columns.write_text("words\nthe cat\n")
    for file, words in ((latin, "--encoding latin-1"), (table, "1 of 2 rows"), (columns, "--text COLUMN")):
        with pytest.raises(DataError, match=words):
            evaluate_file(trained, file)
    assert answer("evaluate", causal[0], "--on", latin, "--encoding", "latin-1")["text"]["measures"]
    assert answer("evaluate", causal[0], "--on", columns, "--text", "words")["text"]["measures"]
    assert (
        answer("evaluate", causal[0], "--on", table, "--skip-bad")["text"]["measures"]["texts"]["value"] == 1
    )


def test_bits_per_byte_say_where_words_were_unknown(causal, tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("the cat sees a zebra .")
    told = answer("evaluate", causal[0], "--on", file)["text"]["measures"]
    assert told["unknown_share"]["value"] == pytest.approx(1 / 6)
    assert "16.7% of the targets are unknown words" in told["bits_per_byte"]["definition"]
    assert "comparable across tokenizers" not in told["bits_per_byte"]["definition"]
    known = answer("evaluate", causal[0])["split"]["measures"]
    assert (
        known["unknown_share"]["value"] == 0
        and "comparable across tokenizers" in known["bits_per_byte"]["definition"]
    )


def test_python_scores_what_the_command_scores(causal):
    trained = Trained.at(causal[0])
    ours = trained.evaluate("dev", probes=["the cat ."])
    theirs = answer("evaluate", causal[0], "--probe", "the cat .")
    assert ours["measures"] == theirs["split"]["measures"] and ours["probes"] == theirs["probes"]


@torch.no_grad()
def test_a_target_is_probed_after_its_source(translating):
    """Against the decoder, token by token."""
    pair = "the cat sees a dog . => . dog a sees cat the"
    trained = Trained.at(translating)
    tokenizer = trained.tokenizer
    source, target = (tokenizer.encode(part) for part in pair.split(" => "))
    decoder = Decoder(trained.model, [[tokenizer.first]], sources=[tokenizer.form.single(source)])
    nats = 0.0
    for token in (*target, tokenizer.specials.stop):
        nats -= float(decoder.next.log_softmax(-1)[0, token])
        decoder.step(torch.tensor([token]))
    (probe,) = answer("evaluate", translating, "--probe", pair)["probes"]
    assert probe["tokens"] == 7 and probe["loss"] == pytest.approx(nats / 7, rel=1e-5)
    for wrong, words in (("the cat .", "source => target"), (f"{'the ' * 40} => the", "longer than the 24")):
        assert words in str(command("evaluate", translating, "--probe", wrong).exception)


# ---------------------------------------------------------------- counting words
@pytest.fixture(scope="module")
def short_and_long(tmp_path_factory):
    """A run that has learned nothing yet and one that has: 2 and 60 steps of the same config."""
    folder = tmp_path_factory.mktemp("learned")
    settings = small_run.settings(folder)
    settings["training"] |= {"optimizer": {"kind": "adamw", "learning_rate": 0.02}, "evaluate_batches": "all"}
    file = folder / "small.json"
    file.write_text(json.dumps(settings))
    ended = {}
    for name, steps in (("short", 2), ("long", 60)):
        budget = f"training.budget.steps={steps}"
        ended[name] = command("train", file, "--set", budget, "--out", folder / name)
    return folder, ended


def test_a_run_that_has_not_learned_says_so_first_in_training_evaluation_and_comparison(short_and_long):
    folder, ended = short_and_long
    assert ended["short"].exit_code == ended["long"].exit_code == 0
    assert ended["short"].stdout.startswith("Not trained long enough: loss ")
    assert ended["long"].stdout.startswith("Done after 60 steps")
    told = "Counting words of the training text gives dev losses of "
    for name in ("short", "long"):
        assert ended[name].stderr.count(told) == 1 and "unigram" in ended[name].stdout
    scored = {name: answer("evaluate", folder / name)["split"] for name in ("short", "long")}
    assert scored["short"]["learned"]["outcome"] == "warn" and scored["long"]["learned"]["outcome"] == "pass"
    kept = json.loads((folder / "short" / "baselines.json").read_text())["dev"]
    assert scored["short"]["baselines"] == scored["long"]["baselines"] == kept
    unigram, bigram, frequent = kept
    values = [answer["measures"]["loss"]["value"] for answer in scored.values()]
    assert values[1] < unigram["value"] < values[0] and bigram["value"] < unigram["value"]
    assert frequent["metric"] == "accuracy" and 0 < frequent["value"] < 1
    assert command("evaluate", folder / "short").stdout.startswith("Not trained long enough: ")
    compared = answer("compare", folder / "short", folder / "long")
    assert compared["baselines"] == [kept, kept]
    (note,) = [one for one in compared["notes"] if "not trained long enough" in one]
    assert note.startswith(str(folder / "short"))
    shown = command("compare", folder / "short", folder / "long").stdout
    assert shown.count("baseline, dev loss") == 2 and f"{unigram['value']:.4f}" in shown


def test_other_text_is_compared_with_counts_of_the_training_text(short_and_long):
    folder, _ = short_and_long
    (folder / "other.txt").write_text("\n".join(small_run.sentences(50, seed=9)))
    scored = answer("evaluate", folder / "long", "--on", folder / "other.txt")["text"]
    assert [one["name"] for one in scored["baselines"]] == ["unigram", "bigram"]
    assert scored["learned"]["values"]["unigram"] == scored["baselines"][0]["value"]
