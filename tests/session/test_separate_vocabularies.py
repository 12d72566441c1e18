"""Sources and targets with vocabularies of their own: read, written, counted, saved, checked, or refused."""

import json
import shutil
from dataclasses import replace

import pytest
import torch

import attnlab as lab
from attnlab.checks.decoded_texts import DecodedTexts
from attnlab.config.files import config_of, identity, load, to_json
from attnlab.config.values import ConfigError
from attnlab.data.encode.texts import Translation
from attnlab.data.example import Example
from attnlab.model.counts import count
from attnlab.runs.faults import RunError
from attnlab.runs.findings import read_findings
from attnlab.session import baselines
from attnlab.session.baselines import split_frequencies
from attnlab.session.session import Session
from attnlab.session.trained import Trained
from tests.checks.cases import found, of
from tests.session.commands import answer, command
from tests.training.small_run import DOES, WHERE, WHO, config, merged, sentences, set_up, train

TARGET = {"kind": "word", "vocabulary": 40, "minimum_count": 1}
TRUNKS = {
    "transformer": {"heads": 2},
    "gru(attention=additive)": {},
    "lstm": {},
}
CODES = {
    part: f"{kind}{n}"
    for kind, of in zip("xyz", (WHO, DOES, WHERE), strict=True)
    for n, part in enumerate(of)
}


def coded(sentence):
    for part, code in CODES.items():
        sentence = sentence.replace(part, code)
    return sentence.removesuffix(" .")


def settings(folder, **changes):
    """Sentences, and a code for each of their parts: no word of one side is a word of the other."""
    if not (file := folder / "coded.jsonl").exists():
        lines = ({"text": s, "target": coded(s)} for s in dict.fromkeys(sentences(600)))
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    own = {
        "task": "seq2seq",
        "data": {
            "corpus": str(file),
            "encoding": "translation",
            "target_tokenizer": TARGET,
            "batching": {"kind": "bucketed", "tokens": 256},
        },
        "model": {"family": "encoder_decoder", "dropout": 0.1},
        "training": {"generate_every": "evaluation", "generate_examples": 20},
    }
    return merged(own, changes)


LEARNED = {
    "model": {"width": 32, "layers": 1, "dropout": 0.0},
    "training": {
        "budget": {"steps": 400},
        "evaluate_every": 200,
        "checkpoint_every": 200,
        "optimizer": {"kind": "adamw", "learning_rate": 1e-2},
    },
}


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """With every check."""
    folder = tmp_path_factory.mktemp("separate")
    train(config(folder, **settings(folder, **LEARNED)), folder / "run")
    return folder / "run"


# ---------------------------------------------------------------- the model
def models(trunk, source_rows=19, target_rows=11):
    """One with tables apart, and one that reads both with one table: the rows of targets, then of sources."""
    sizes = {"width": 16, "layers": 2, "trunk": trunk, **TRUNKS[trunk]}
    apart = (
        lab.encoder_decoder(vocabulary=target_rows, source_vocabulary=source_rows, **sizes).double().eval()
    )
    joined = lab.encoder_decoder(vocabulary=target_rows + source_rows, **sizes).double().eval()
    target, source = apart.trunk.tables()
    weights = {
        name: p for name, p in apart.named_parameters() if not name.endswith("embedding.tokens.weight")
    }
    joined.load_state_dict(weights, strict=False)
    with torch.no_grad():
        joined.trunk.tables()[0].weight.copy_(torch.cat([target.weight, source.weight]))
    return apart, joined


@pytest.mark.parametrize("trunk", TRUNKS)
def test_it_is_a_model_of_one_table_whose_sources_have_other_ids(trunk):
    """To the bit: each side looks its vectors up in its own rows, and scores are of targets alone."""
    apart, joined = models(trunk)
    source, ids = torch.randint(19, (3, 7)), torch.randint(11, (3, 5))
    assert torch.equal(apart.trunk(ids, source=source), joined.trunk(ids, source=source + 11))
    scores, expected = apart(ids, source=source), joined(ids, source=source + 11)[..., :11]
    assert scores.shape == (3, 5, 11) and torch.allclose(scores, expected, atol=1e-14)
    scores.square().sum().backward()
    expected.square().sum().backward()
    target, of_sources = (table.weight.grad for table in apart.trunk.tables())
    assert torch.allclose(torch.cat([target, of_sources]), joined.trunk.tables()[0].weight.grad, atol=1e-12)


@pytest.mark.parametrize("trunk", TRUNKS)
def test_it_is_counted_in_closed_form(trunk):
    apart, _ = models(trunk)
    counts = count(apart, length=8, source_length=8, batch=1)
    assert counts.total == counts.closed_form
    tables = {term.name: (term.formula, term.count) for term in counts.parameters if "tokens" in term.name}
    assert tables == {
        "encoder.embedding.tokens": ("V'·D", 19 * 16),
        "decoder.embedding.tokens": ("V·D", 11 * 16),
    }


def test_the_counts_of_a_config_name_both_vocabularies():
    shown = command(
        "explain", "counts", "translator-mini", "--set", "data.target_tokenizer=bpe(vocabulary=500)"
    )
    assert "V'·D" in shown.stdout and "V' vocabulary of sources" in " ".join(shown.stdout.split())


# ---------------------------------------------------------------- a run
def test_it_learns_and_every_check_is_quiet(learned):
    run = Trained.at(learned)
    source, target = run.tokenizer, run.tokenizer.target
    assert [table.num_embeddings for table in run.model.trunk.tables()] == [target.size, source.size]
    assert source.id("garden") is not None and source.id("x1") is None
    assert target.id("garden") is None and target.id("x1") is not None
    loud = [f for f in read_findings(learned) if f.outcome in ("fail", "warn")]
    assert not loud, loud
    texts = [example.text for example in run.dataset.texts("dev")[:40]]
    right = sum(run.translate(text) == coded(text) for text in texts)
    assert right > 0.9 * len(texts), right


def test_all_commands_read_with_the_one_and_write_with_the_other(learned, tmp_path):
    text, right = "the cat sees a dog in the garden .", "x0 y0 x1 z0"
    assert command("translate", learned, text).stdout.strip() == right
    assert command("generate", learned, text, "--rule", "greedy").stdout.strip().endswith(right)
    best = answer("translate", learned, text, "--best", 3)["texts"][0]["best"]
    assert best[0]["text"] == right and len(best) == 3
    (tmp_path / "lines.txt").write_text(f"{text}\n\na dog likes my sister .\n")
    answer("predict", learned, "--data", tmp_path / "lines.txt", "--out", tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_text() == f"{right}\n\nx1 y1 x3\n"
    maps = Trained.at(learned).attention(text)
    assert {"garden", "sees"} <= set(maps.layers[maps.chosen.layer].keys)
    assert {"x0", "z0"} <= set(maps.layers[maps.chosen.layer].queries)
    lab.average(learned, tmp_path / "mean", last=2)
    assert command("translate", tmp_path / "mean", text).stdout.strip() == right


def test_evaluation_scores_what_is_written_and_counts_words_of_targets(learned):
    split = answer("evaluate", learned)["split"]
    assert split["measures"]["exact_text"]["value"] > 0.9


def test_the_most_frequent_word_is_one_of_targets(learned, monkeypatch):
    run = Trained.at(learned)
    token = run.tokenizer.target.id("x3")

    def counted(*given):
        return replace(split_frequencies(*given), most_frequent=(token, 9))

    monkeypatch.setattr(baselines, "split_frequencies", counted)
    baseline = next(b for b in baselines.word_baselines(run, "dev") if b.name == "most frequent token")
    assert "“x3”" in baseline.definition


def test_a_probe_is_read_with_the_one_and_scored_with_the_other(learned):
    """The pair that was learned is likely, whatever ids its target has among sources."""
    source = "the cat sees the bird ."
    right, wrong = (f"{source} => {target}" for target in (coded(source), coded("a dog hears my sister .")))
    probes = Trained.at(learned).evaluate("dev", probes=[right, wrong])["probes"]
    losses = [probe["loss"] for probe in probes]
    assert losses[0] < 0.5 < losses[1] and probes[0]["unknown"] == 0


def test_words_are_unknown_to_the_tokenizer_of_sources(learned):
    """Those of targets are; those of sources are not, though the one of targets does not know them."""
    assert "Unknown" in command("translate", learned, "x0 sees x1").stderr
    told = command("translate", learned, "the кот sees a dog").stderr
    assert "Cyrillic" in told and "garden" not in told
    assert not command("translate", learned, "the cat sees a dog .").stderr


def test_a_source_is_measured_by_its_own_tokenizer(learned):
    trained = Trained.at(learned)
    room = trained.config.longest_text - trained.tokenizer.form.single_room
    assert trained.translate(" ".join(["cat"] * room)) is not None
    with pytest.raises(ConfigError, match=f"{room + 1} tokens"):
        trained.translate(" ".join(["cat"] * (room + 1)))


def test_a_vector_that_no_target_has_is_no_output(learned):
    """Ids beyond the smaller vocabulary are read, on both sides."""
    run = Trained.at(learned)
    encoding = Translation(run.tokenizer, 24)
    [row] = encoding.rows([Example("the garden", target="z4 x5")])
    assert row.ids == run.tokenizer.form.single(run.tokenizer.alone.encode("the garden"))
    assert row.target[1:-1] == run.tokenizer.target.encode("z4 x5") and max(row.target) < run.model.vocabulary


# ---------------------------------------------------------------- on disk
def test_both_are_saved_and_neither_may_be_another(learned, tmp_path):
    record = json.loads((learned / "run.json").read_text())
    both = record["tokenizer_identity"]
    assert both["source"]["fingerprint"] != both["target"]["fingerprint"]
    assert record["tokenizer"] == both["fingerprint"]
    assert set(record["tokenizer_text"]) == {"source", "target"}
    assert record["tokenizer_text"]["target"]["source"] == "the targets of train"
    for number, (name, other) in enumerate(
        [
            ("target_tokenizer.json", "tokenizer.json"),
            ("tokenizer.json", "target_tokenizer.json"),
        ]
    ):
        copied = shutil.copytree(learned, tmp_path / f"run-{number}")
        shutil.copyfile(learned / other, copied / name)
        with pytest.raises(RunError, match="not the tokenizer that this run was trained with"):
            Trained.at(copied)
    swapped = shutil.copytree(learned, tmp_path / "swapped")
    shutil.copyfile(learned / "tokenizer.json", swapped / "target_tokenizer.json")
    shutil.copyfile(learned / "target_tokenizer.json", swapped / "tokenizer.json")
    with pytest.raises(RunError, match=r"tokenizer\.json with target_tokenizer\.json is not"):
        Trained.at(swapped)
    (swapped / "target_tokenizer.json").unlink()
    with pytest.raises(ConfigError, match=r"target_tokenizer\.json"):
        Trained.at(swapped)


@pytest.mark.parametrize("trunk", ["transformer", "gru(attention=dot)"])
def test_it_resumes_to_the_bit_and_not_with_another_tokenizer(trunk, tmp_path, unchecked):
    own = {"model": {"trunk": trunk, "heads": 2 if trunk == "transformer" else 4}}

    def of_steps(steps, **changes):
        training = {"budget": {"steps": steps}, "schedule": "constant"}
        return config(tmp_path, **merged(settings(tmp_path, **own, training=training), changes))

    train(of_steps(9), tmp_path / "whole")
    train(of_steps(5), tmp_path / "parted")
    for other in ({"target_tokenizer": TARGET | {"vocabulary": 20}}, {"target_tokenizer": "shared"}):
        with pytest.raises(ConfigError, match=r"cannot be resumed.*data\.target_tokenizer"):
            train(of_steps(9, data=other), tmp_path / "parted", resume=True)
    train(of_steps(9), tmp_path / "parted", resume=True)
    whole, parted = (Trained.at(tmp_path / name, which="last").model for name in ("whole", "parted"))
    for p, q in zip(whole.parameters(), parted.parameters(), strict=True):
        assert torch.equal(p, q)


@pytest.mark.parametrize("side", ["tokenizer", "target_tokenizer"])
def test_a_file_that_changed_between_is_noticed(side, tmp_path, unchecked, learned):
    for name in ("tokenizer", "target_tokenizer"):
        shutil.copyfile(learned / f"{name}.json", tmp_path / f"{name}.json")
    files = {name: str(tmp_path / f"{name}.json") for name in ("tokenizer", "target_tokenizer")}
    given = config(tmp_path, **settings(tmp_path, data=files, training={"budget": {"steps": 4}}))
    train(given, tmp_path / "run")
    other = Session(config(tmp_path, **settings(tmp_path, data={"tokenizer": TARGET | {"vocabulary": 30}})))
    made = other.tokenizer.alone if side == "tokenizer" else other.tokenizer.target
    made.inner.add_special_tokens(["<other>"])
    made.save(tmp_path / f"{side}.json")
    with pytest.raises((ConfigError, RunError), match="the tokenizer changed"):
        train(given, tmp_path / "run", resume=True)


def test_a_run_that_begins_from_it_has_both(learned, tmp_path, unchecked):
    data = {"corpus": str(learned.parent / "coded.jsonl"), "length": 24}
    again = config_of({"start": str(learned), "task": "seq2seq", "data": data})
    session, start = Session(again), Trained.at(learned, which="last")
    assert session.tokenizer.fingerprint == start.tokenizer.fingerprint
    own, theirs = (dict(one.model.named_parameters()) for one in (session, start))
    assert own.keys() == theirs.keys() and all(torch.equal(own[name], theirs[name]) for name in own)
    train(again, tmp_path / "further")
    assert Trained.at(tmp_path / "further").tokenizer.target.id("x0") is not None
    foreign = merged(to_json(again), {"data": {"target_tokenizer": TARGET | {"vocabulary": 11}}})
    with pytest.raises(ConfigError, match="ids would mean other words"):
        Session(config_of(foreign))


def test_its_encoder_alone_has_the_one_of_sources(learned, tmp_path):
    rows = [{"text": s, "label": "cat" if "cat" in s else "none"} for s in sentences(200)]
    (tmp_path / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = {"corpus": str(tmp_path / "labels.jsonl"), "length": 24}
    reader = Session(config_of({"start": str(learned), "task": "classification", "data": data}))
    start = Trained.at(learned, which="last")
    assert reader.model.vocabulary == reader.tokenizer.size == start.tokenizer.size
    assert torch.equal(
        reader.model.trunk.tables()[0].weight, start.model.trunk.encoder.embedding.tokens.weight
    )


# ---------------------------------------------------------------- faults
def test_tokenizers_that_were_swapped_are_noticed(learned, tmp_path):
    """In rows, in the run's folder, and in the text that is scored."""
    session = set_up(Trained.at(learned).config)
    about = of(session, when="after", folder=learned, step=400)
    assert found("tokenizer", about).outcome == found("source_rows", about).outcome == "pass"
    own = session.dataset.tokenizer
    session.dataset.tokenizer = own.target.with_target(own.alone)
    assert found("tokenizer", about).outcome == "fail"
    rows = set_up(config(tmp_path, **settings(tmp_path)))
    swapped = rows.dataset.tokenizer
    rows.dataset.tokenizer = swapped.target.with_target(swapped.alone)
    _ = rows.dataset.rows("train"), rows.dataset.rows("dev")
    rows.dataset.tokenizer = swapped
    rows.__dict__.pop("model", None)
    finding = found("source_rows", of(rows))
    assert finding.outcome == "fail", finding


def test_text_that_the_tokenizer_of_sources_decoded_is_noticed(learned):
    run = Trained.at(learned)
    writer = run.writer("dev")
    texts = writer(6)
    assert DecodedTexts().judge("after", writer, texts).outcome == "pass"
    texts["generated"][:] = [run.tokenizer.alone.decode(ids) for ids in texts["written_ids"]]
    finding = DecodedTexts().judge("after", writer, texts)
    assert finding.outcome == "fail" and finding.kind == "other_text"


def test_one_table_for_both_is_noticed(tmp_path):
    equal = {"kind": "word", "vocabulary": 22, "minimum_count": 1}
    session = set_up(
        config(tmp_path, **settings(tmp_path, data={"tokenizer": equal, "target_tokenizer": equal}))
    )
    assert found("parameters", of(session)).outcome == "pass"
    encoder, decoder = session.model.trunk.encoder.embedding, session.model.trunk.decoder.embedding
    assert encoder.tokens.weight.shape == decoder.tokens.weight.shape
    encoder.tokens = decoder.tokens
    finding = found("parameters", of(session))
    assert finding.outcome == "fail" and "one table" in finding.found


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_ids_that_share_a_vector_are_noticed_on_both_sides(side, tmp_path):
    session = set_up(config(tmp_path, **settings(tmp_path)))
    about = of(session)
    assert found("token_ids", about).outcome == "pass"
    table = getattr(session.model.trunk, side).embedding.tokens
    with torch.no_grad():
        table.weight[-1] = table.weight[-2]  # ids that the other side does not have, where it is smaller
    assert found("token_ids", about).outcome == "fail"


# ---------------------------------------------------------------- refusals and defaults
REFUSED = {
    "a decoder": ({"task": "causal"}, 'encoding "document"'),
    "a prefix": (
        {"task": "prefix", "data": {"encoding": "prefix"}, "model": {"mask": "prefix"}},
        'encoding "prefix"',
    ),
    "an encoder": ({"task": "masked", "model": {"family": "encoder"}}, 'family "encoder"'),
    "holes": ({"task": "denoising", "model": {"family": "encoder_decoder"}}, 'task "denoising"'),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_have_two_is_refused_before_text_is_read(case):
    given, rule = REFUSED[case]
    whole = merged({"data": {"target_tokenizer": TARGET, "corpus": "nowhere.txt"}}, given)
    with pytest.raises(ConfigError) as refused:
        Session(config_of(whole))
    told = str(refused.value)
    assert "data.target_tokenizer is word(" in told and rule in told and 'to "shared"' in told


def test_tables_that_are_too_small_or_for_nothing_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"model\.source_vocabulary is 9.*family is decoder.*leave it out"):
        lab.decoder(vocabulary=9, source_vocabulary=9)
    small = config(tmp_path, **settings(tmp_path, model={"source_vocabulary": 12}))
    with pytest.raises(ConfigError, match=r"source_vocabulary is 12, but the tokenizer of sources has \d+"):
        _ = Session(small).model


def test_a_name_that_is_no_tokenizer_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match=r"data\.target_tokenizer"):
        load("translator-mini", set={"data.target_tokenizer": "bpq"})


def test_no_layout_of_others_holds_two(learned, tmp_path):
    refused = command("convert", learned, tmp_path / "theirs")
    assert refused.exit_code and "data.target_tokenizer=shared" in str(refused.exception)


@pytest.mark.slow
def test_onnx_holds_two(learned, tmp_path):
    """Its scores are compared on the run's own pairs, whose sides have other lengths."""
    pytest.importorskip("onnxruntime")
    written = command("convert", learned, tmp_path / "model.onnx")
    assert written.exit_code == 0, written.output


def test_shared_is_what_it_was():
    """Recorded nowhere, however it is written: old runs resume, and identities stay."""
    plain, written = (load("translator-mini", set=s) for s in ({}, {"data.target_tokenizer": "shared"}))
    assert plain == written and identity(plain) == identity(written)
    assert "target_tokenizer" not in to_json(plain)["data"]
    assert "source_vocabulary" not in to_json(plain)["model"]
