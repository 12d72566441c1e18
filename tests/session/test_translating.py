"""Targets that a trained model writes for sources: by beams, in order, line by line, or a clear refusal."""

import shlex

import pytest
import torch

from attnlab.config.values import ConfigError
from attnlab.data.example import Example
from attnlab.generation import target_writer
from attnlab.generation.beam import beam_search
from attnlab.model.capture import capture
from attnlab.model.tokens import Tokens
from attnlab.session.trained import Trained
from attnlab.session.translating import Translator
from tests.session.commands import answer, command
from tests.training.small_run import config, for_task, merged, train
from tests.unchecked import checked_by


@pytest.fixture(scope="module")
def continuing(tmp_path_factory):
    """A decoder alone, whose row is source and target under a prefix mask."""
    folder = tmp_path_factory.mktemp("prefix")
    settings = merged(for_task("seq2seq", folder), {"model": {"family": "decoder", "mask": "prefix"}})
    settings = merged(settings, {"data": {"encoding": "prefix"}}) | {"task": "prefix"}
    with checked_by("decoding"):
        train(config(folder, **settings), folder / "run")
    return folder / "run"


@pytest.fixture(params=["translating", "continuing"])
def run(request):
    """Of two stacks, or of one."""
    return request.getfixturevalue(request.param)


TEXTS = ["the cat saw a dog", "a dog", "the dog saw the cat and a dog saw the cat", "cat"]


def log_probability(trained, source, candidate):
    """Of a target, and of its stop token if it has one, teacher-forced in one pass and added up."""
    form, (stop,) = trained.tokenizer.form, trained.stop
    ids = trained.tokenizer.encode(source)
    target = trained.tokenizer.encode(candidate.text) + [stop] * candidate.stopped
    model = trained.model.double().eval()
    with torch.no_grad():
        if trained.reads_source:
            read = torch.tensor([[trained.tokenizer.first, *target[:-1]]])
            logits = model(read, source=torch.tensor([form.single(ids)]))
        else:
            prompt = [*form.before, *ids, *form.middle]
            read = torch.tensor([[*prompt, *target[:-1]]])
            marked = torch.arange(read.shape[1])[None] < len(prompt)
            logits = model(read, Tokens.of(read.shape[1], source=marked))[:, len(prompt) - 1 :]
    model.float()
    return float(logits.log_softmax(-1)[0, range(len(target)), target].sum())


def varied(run):
    """The run with weights so far off that what it writes depends on the source."""
    trained = Trained.at(run)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in trained.model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 1.0)
    return trained


def test_scores_are_the_probabilities_of_what_was_written(run):
    trained, compared = varied(run), 0
    for source, candidates in zip(TEXTS, trained.candidates(TEXTS, best=3, penalty=0.6), strict=True):
        assert [c.score for c in candidates] == sorted((c.score for c in candidates), reverse=True)
        for candidate in candidates:
            if len(trained.tokenizer.encode(candidate.text)) == candidate.tokens:
                expected = log_probability(trained, source, candidate)
                assert candidate.log_probability == pytest.approx(expected, abs=1e-3)
                assert candidate.score == pytest.approx(
                    expected / (candidate.tokens + candidate.stopped) ** 0.6, abs=1e-3
                )
                compared += 1
    assert compared > 3


def test_texts_written_together_are_those_written_alone_and_in_order(run, monkeypatch):
    monkeypatch.setattr(target_writer, "ROWS", 2)
    trained = varied(run)
    together = trained.translate([*TEXTS, "", *TEXTS[::-1]])
    assert together == [*(trained.translate(text) for text in TEXTS), "", *together[5:]]
    assert together[5:] == together[3::-1] and len(set(together[:4])) > 1


def test_a_beam_of_one_stack_starts_after_its_source(continuing):
    trained = Trained.at(continuing)
    form = trained.tokenizer.form
    prompt = [*form.before, *trained.tokenizer.encode(TEXTS[0]), *form.middle]
    length = trained.config.longest_text - len(prompt)
    best, *_ = beam_search(trained.model, prompt, width=4, length=length, stop=trained.stop)
    assert trained.translate(TEXTS[0]) == trained.tokenizer.decode(best.new).strip()


def test_a_long_source_is_refused_with_its_number_or_loses_its_end(translating):
    trained = Trained.at(translating)
    room = Translator(trained).room
    long = "cat " * (room + 3)
    with pytest.raises(ConfigError, match=rf"1 text of 2 has more than the {room} tokens.*text 2 \(") as told:
        trained.translate(["cat", long])
    assert "--cut end" in str(told.value)
    with pytest.warns(UserWarning, match="1 of 1 texts cut"):
        shortened = trained.translate(long, cut="end")
    ids = trained.tokenizer.encode(long.strip())[:room]
    translator = Translator(trained, cut="start")
    assert translator._ids([Example(long)])[0] == trained.tokenizer.encode(long.strip())[-room:]
    assert shortened == trained.translate(trained.tokenizer.decode(ids))


def test_lines_of_a_file_stay_in_their_places(translating, tmp_path):
    file, to = tmp_path / "lines.txt", tmp_path / "out.txt"
    file.write_text(f"{TEXTS[0]}\n\n{TEXTS[1]}\n   \n{TEXTS[2]}")
    assert answer("predict", translating, "--data", file, "--out", to)["rows"] == 5
    trained = Trained.at(translating)
    expected = [trained.translate(TEXTS[0]), "", trained.translate(TEXTS[1]), "", trained.translate(TEXTS[2])]
    assert to.read_text() == "\n".join(expected) + "\n"


def test_lines_that_cannot_be_read_are_told_before_anything_is_written(translating, tmp_path):
    file, to = tmp_path / "lines.txt", tmp_path / "out.txt"
    file.write_bytes(b"cat\n\xff\n" + b"dog " * 200 + b"\ndog\n")
    result = command("predict", translating, "--data", file, "--out", to)
    told = str(result.exception)
    assert result.exit_code and "lines.txt line 2: not utf-8" in told and not to.exists()
    assert "lines.txt line 3: it has" in told and "2 of 4 rows" in told
    summary = answer("predict", translating, "--data", file, "--out", to, "--skip-bad")
    assert summary["skipped"] == 2 and to.read_text().split("\n")[1:3] == ["", ""]


def test_a_file_may_lose_the_ends_of_long_lines_and_what_is_odd_is_told(translating, tmp_path):
    file, to = tmp_path / "lines.txt", tmp_path / "out.txt"
    file.write_text(f"the cat\n{'dog ' * 200}\nthe кот 猫 .\n")
    refused = command("predict", translating, "--data", file, "--out", to)
    assert refused.exit_code and "line 2: it has 200 tokens" in str(refused.exception)
    assert "--cut end" in str(refused.exception)
    told = command("predict", translating, "--data", file, "--out", to, "--cut", "end").stdout
    told = " ".join(told.split())
    assert "Predictions of 3 rows" in told and "1 of 3 texts cut" in told
    assert "(Cyrillic, CJK): “к о т 猫”" in told
    trained = Trained.at(translating)
    with pytest.warns(UserWarning, match="cut"):
        assert to.read_text().splitlines()[1] == trained.translate("dog " * 200, cut="end")
    summary = answer("predict", translating, "--data", file, "--out", tmp_path / "again.txt", "--cut", "end")
    candidates = trained.candidates(["the cat", "the кот 猫 ."], best=1)
    unended = sum(not best[0].stopped for best in candidates)
    assert summary["unseen"] == list("кот猫") and summary["unended"] in (unended, unended + 1)


def test_a_table_is_not_read_as_lines(translating, tmp_path):
    file, to = tmp_path / "rows.tsv", tmp_path / "out.txt"
    file.write_text("text\tnumber\nthe cat\t1\n")
    refused = command("predict", translating, "--data", file, "--out", to)
    assert refused.exit_code and "rows.tsv is a table" in str(refused.exception) and not to.exists()


def test_to_cut_texts_is_for_translators(tmp_path):
    with checked_by():
        rows = "".join(f"the cat {n},a\na dog {n},b\n" for n in range(40))
        (tmp_path / "rows.csv").write_text(f"text,label\n{rows}")
        data = {"corpus": str(tmp_path / "rows.csv"), "encoding": "single", "batching": "bucketed"}
        small = config(tmp_path, task="classification", model={"family": "encoder"}, data=data)
        train(small, tmp_path / "classifier")
    refused = command("predict", tmp_path / "classifier", "cat", "--cut", "end")
    assert refused.exit_code and "for models that translate" in str(refused.exception)


def test_a_table_gets_a_column(translating, tmp_path):
    file, to = tmp_path / "rows.tsv", tmp_path / "out.tsv"
    file.write_text("id\tsource\ttarget\n7\tthe cat\tx\n8\ta dog\ty\n")
    answer("predict", translating, "--data", file, "--out", to)
    rows = [line.split("\t") for line in to.read_text().splitlines()]
    trained = Trained.at(translating)
    assert rows[0][:4] == ["id", "source", "target", "prediction"]
    assert [row[3] for row in rows[1:]] == trained.translate(["the cat", "a dog"])


def test_the_command_gives_lines_or_the_best_with_scores(translating):
    trained = Trained.at(translating)
    plain = command("translate", translating, *TEXTS[:2])
    assert plain.stdout.splitlines() == trained.translate(TEXTS[:2])
    options = "--beam", 5, "--penalty", 0
    best = answer("translate", translating, TEXTS[0], "--best", 3, *options)["texts"][0]
    assert best == answer("translate", translating, TEXTS[0], "--n-best", 3, *options)["texts"][0]
    assert [c["text"] for c in best["best"]] == [
        c.text for c in trained.candidates(TEXTS[0], best=3, beam=5, penalty=0)[0]
    ]
    sums = [c["log_probability"] for c in best["best"]]
    assert [c["score"] for c in best["best"]] == pytest.approx(sums) and sums == sorted(sums)[::-1]
    wide = command("translate", translating, "cat", "--best", 9)
    assert wide.exit_code and "--beam 9" in str(wide.exception)


def test_a_plain_text_is_summarised_as_a_whole_and_a_table_row_by_row(translating, tmp_path):
    (tmp_path / "note.txt").write_text("the cat\n\nsaw a dog\n")
    (tmp_path / "notes.jsonl").write_text('{"text": "the cat"}\n{"text": "a dog"}\n')
    trained = Trained.at(translating)
    whole = command("summarise", translating, "--data", tmp_path / "note.txt")
    assert whole.stdout.splitlines() == [trained.summarise("the cat\n\nsaw a dog")]
    rows = command("summarise", translating, "--data", tmp_path / "notes.jsonl")
    assert rows.stdout.splitlines() == trained.summarise(["the cat", "a dog"])


@pytest.mark.parametrize(
    ("fixture", "fitting"), [("causal", "attnlab generate RUN"), ("masked", "attnlab generate RUN --fill")]
)
def test_runs_of_other_tasks_are_told_their_command(request, fixture, fitting):
    run = request.getfixturevalue(fixture)
    folder = run[0] if isinstance(run, tuple) else run
    for name in ("translate", "summarise"):
        result = command(name, folder, "cat")
        assert result.exit_code and f"cannot {name}" in str(result.exception)
        assert fitting in str(result.exception), shlex.quote(str(result.exception))
    with pytest.raises(ConfigError, match="not on pairs"):
        Trained.at(folder).translate("cat")


def test_a_script_that_the_training_text_never_had_is_told(translating):
    result = command("translate", translating, "the кот")
    assert "Cyrillic" in result.stderr and "к о т" in result.stderr
    assert "Cyrillic" not in command("translate", translating, "the cat").stderr


def test_an_alignment_has_what_is_written_in_rows_and_the_source_in_columns(translating):
    trained = varied(translating)
    maps = trained.attention(TEXTS[0])
    target = trained.tokenizer.encode(trained.translate(TEXTS[0]))
    cross = maps.layers[maps.chosen.layer]
    form, (stop,) = trained.tokenizer.form, trained.stop
    words = trained.reading.words
    assert maps.chosen.name.crosses and list(cross.queries) == words([*target, stop])
    assert list(cross.keys) == words(form.single(trained.tokenizer.encode(TEXTS[0])))
    # the row of a token holds the weights by which it was chosen: those after the tokens before it
    inputs = {"source": torch.tensor([form.single(trained.tokenizer.encode(TEXTS[0]))])}
    place = maps.chosen.name.heads.replace("heads", "attention.weights")
    with capture(trained.model, place) as seen:
        trained.model(torch.tensor([[trained.tokenizer.first, *target[:2]]]), **inputs)
    expected = seen[place][0, maps.chosen.name.number, 2]
    assert torch.allclose(cross.weights[maps.chosen.name.number, 2], expected, atol=1e-5)


def test_the_alignment_is_drawn_below_the_translation(translating, continuing):
    shown = command("translate", translating, TEXTS[0], "--alignment").stdout
    assert shown.splitlines()[0] == Trained.at(translating).translate(TEXTS[0])
    assert "Alignment by cross-attention layer" in shown and "Without this head" in shown
    cut = command("translate", translating, "dog " * 200, "a dog", "--cut", "end", "--alignment")
    assert cut.exit_code == 0 and "Text 1 was cut" in cut.stderr
    assert cut.stdout.count("Alignment by cross-attention layer") == 1
    refused = command("translate", continuing, TEXTS[0], "--alignment")
    assert refused.exit_code and "explain attention" in str(refused.exception)
