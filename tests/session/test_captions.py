"""Captions: text that is written for a picture, against the scores of the same text read whole."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from attnlab.checks import decoded_texts
from attnlab.checks.decoded_texts import DecodedTexts
from attnlab.config.files import load
from attnlab.config.streams import stream_seed
from attnlab.config.values import ConfigError
from attnlab.data.batch import collate
from attnlab.data.corpora.shapes import Shapes
from attnlab.data.images.decoding import pixels_of, png_of
from attnlab.evaluation.written_texts import ids_of, of_texts
from attnlab.generation import target_writer
from attnlab.generation.beam import beam_searches
from attnlab.generation.decoder import Decoder, placed
from attnlab.generation.generate import generate
from attnlab.generation.rules import Sample
from attnlab.generation.target_writer import pictures_of
from attnlab.metrics.metric import Examples
from attnlab.model.tokens import Tokens
from attnlab.session.session import Session
from attnlab.session.trained import Trained
from attnlab.session.training import train
from tests.session.commands import answer, command

SMALL = {
    "data.corpus.examples": 64,
    "model.inputs": "image(size=8, patch=4)",
    "model.width": 16,
    "model.layers": 2,
    "model.heads": 2,
}
KINDS = {
    "two stacks": {},
    "two stacks, rotary": {"model.positions": "rotary"},
    "prefix": {
        "task": "prefix",
        "data.encoding": "image_prefix",
        "model.family": "decoder",
        "model.mask": "prefix",
    },
}
KINDS["prefix, sinusoidal"] = KINDS["prefix"] | {"model.positions": "sinusoidal"}
KINDS["prefix, late"] = KINDS["prefix"] | {
    "model.inputs": ["image(size=8, patch=4)", "text"],
    "model.fusion": "late(layers=1)",
}


def trained_of(kind, folder, **changes):
    """A model as it is before its first step, in float64."""
    session = Session(load("image-caption-mini", set=SMALL | KINDS[kind] | changes))
    dataset, model = session.dataset, session.model.eval()
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():  # no bias is zero, as after training
        parameter.data.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return Trained(session.config, folder, tokenizer=dataset.tokenizer, labels=dataset.labels, model=model)


def read_whole(trained, count):
    """The scores of each target token after the right ones before it, as training reads a batch."""
    batch = collate(trained.dataset.rows("dev"), list(np.arange(count)[:, None]), pad=trained.tokenizer.pad)
    prepared = trained.task.prepare(batch, 0)
    with torch.no_grad():
        scores = trained.model(**prepared.inputs)
    return [
        (scores[row][prepared.targets[row] >= 0], prepared.targets[row][prepared.targets[row] >= 0])
        for row in range(count)
    ]


def prompts_of(trained, count):
    writer = trained.writer("dev")
    sources = [writer.source(row) for row in range(count)]
    prompts, read = writer.prompts(sources)
    return prompts, read, pictures_of(sources)


@pytest.mark.parametrize("kind", KINDS)
def test_cached_scores_are_those_of_the_same_caption_read_whole(kind, tmp_path):
    """Token by token beside each other, with rows that are reordered as beams are."""
    trained = trained_of(kind, tmp_path)
    trained.model.double()
    right = read_whole(trained, 3)
    prompts, read, pictures = prompts_of(trained, 3)
    with torch.inference_mode():
        writing = Decoder(trained.model, prompts, sources=read, pictures=pictures)
        order = [0, 1, 2]
        for step in range(min(len(targets) for _, targets in right) - 1):
            for row, number in enumerate(order):
                assert torch.allclose(writing.next[row], right[number][0][step], atol=1e-9), (step, number)
            if step == 2:
                order = [2, 0, 0]
                writing.select(torch.tensor(order))
            writing.step(torch.stack([right[number][1][step] for number in order]))


@pytest.mark.parametrize("kind", ["two stacks", "prefix"])
def test_a_beam_is_worth_what_its_tokens_are_read_whole(kind, tmp_path):
    trained = trained_of(kind, tmp_path)
    prompts, read, pictures = prompts_of(trained, 2)
    about = {"sources": read, "pictures": pictures}
    searches = beam_searches(trained.model.double(), prompts, width=3, length=5, **about)
    for row, texts in enumerate(searches):
        own = {name: [value[row]] for name, value in about.items() if value is not None}
        for text in texts:
            total = 0.0
            for place, token in enumerate(text.new):  # read anew for each token, without its cache
                before = [[*prompts[row], *text.new[:place]]]
                marked = prompts[row] if kind == "prefix" else None
                with torch.no_grad():
                    scores = alone(trained.model, before, own, marked)
                total += float(scores.log_softmax(-1)[token])
            assert text.total == pytest.approx(total, abs=1e-6)
    other = beam_searches(trained.model, prompts[:1], width=3, length=5, **others(about))
    assert [text.total for text in other[0]] != [text.total for text in searches[0]]


def alone(model, before, own, marked):
    """(V) of the token after a text, by the model's own forward."""
    ids = torch.tensor(before)
    if marked is None:
        (source,) = own["sources"]
        patch, vectors = placed([source], own["pictures"], side="right")
        tokens = Tokens.of(len(source), patch=patch)
        return model(ids, source=torch.tensor([source]), source_tokens=tokens, vectors=vectors)[0, -1]
    patch, vectors = placed(before, own["pictures"], side="left")
    source = (torch.arange(ids.shape[1]) < len(marked))[None]
    return model(ids, Tokens.of(ids.shape[1], patch=patch, source=source), vectors=vectors)[0, -1]


def others(about):
    return {name: None if value is None else [value[1]] for name, value in about.items()}


@pytest.mark.parametrize("kind", ["two stacks", "prefix"])
def test_captions_of_other_pictures_are_found(kind, tmp_path, monkeypatch):
    """Injected: each row's caption is written for another picture. The check writes each one again."""
    trained = trained_of(kind, tmp_path)
    for name, parameter in trained.model.named_parameters():  # what is written hangs on what is read
        parameter.data.mul_(30 if ".vectors." in name else 3)
    short = replace(trained.writer("dev"), context=24)
    monkeypatch.setattr(decoded_texts, "score", without_stop)

    def judged():
        columns = short(8).columns
        ids = [tuple(ids)[:3] for ids in columns["written_ids"]]
        columns["written_ids"] = ids_of(ids)
        columns["generated"] = of_texts([trained.tokenizer.target.decode(list(own)).strip() for own in ids])
        columns["stopped"] = np.ones(8, bool)
        return DecodedTexts().judge("evaluation", short, Examples(columns))

    monkeypatch.setattr(decoded_texts, "greedy", first_three)
    assert judged().outcome == "pass"
    whole = target_writer.pictures_of
    monkeypatch.setattr(target_writer, "pictures_of", lambda sources: negatives(whole(sources)))
    assert judged().outcome == "fail"


def negatives(pictures):
    return [replace(picture, vectors=-picture.vectors) for picture in pictures]


def first_three(model, source, *, most):
    new = []
    while len(new) < 3:
        new.append(int(decoded_texts.log_probabilities(model, source, new)[-1].argmax()))
    return new


def without_stop(model, source, new, penalty):
    logs = decoded_texts.log_probabilities(model, source, new)
    return sum(float(logs[place, token]) for place, token in enumerate(new))


# ---------------------------------------------------------------- commands
@pytest.fixture(scope="module", params=["two stacks", "prefix"])
def run(request, tmp_path_factory):
    changes = SMALL | KINDS[request.param] | {"training.budget": {"steps": 4}, "training.evaluate_every": 2}
    folder = tmp_path_factory.mktemp("caption") / "run"
    train(Session(load("image-caption-mini", set=changes)), folder, allow=["overfit"])
    return folder


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    for number, example in enumerate(Shapes(task="caption", examples=64).read("train")):
        if number < 3:
            (folder / f"{number}.png").write_bytes(png_of(pixels_of(example.image, 32)))
    return folder


def test_captions_are_scored_in_training(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    scores = [line["scores"] for line in lines if line.get("event") == "evaluated"]
    assert scores and all({"bleu", "rouge1", "exact_text"} <= set(each) for each in scores)


def test_samples_name_the_picture_what_is_right_and_what_was_written_for_it(run):
    """The last ones are those of the last weights, drawn for each picture with the file's own chance."""
    blocks = [part.splitlines() for part in (run / "samples.txt").read_text().split("step ")[1:]]
    assert [block[0] for block in blocks] == ["2", "4"]
    trained = Trained.at(run, which="last")
    examples = list(Shapes(task="caption", examples=64).read("dev"))[:3]
    sources = [trained.writer("dev").source(row) for row in range(3)]
    prompts, read = trained.writer("dev").prompts(sources)
    again = generate(
        trained.model,
        prompts,
        sources=read,
        pictures=pictures_of(sources),
        rule=Sample(temperature=0.8, top_p=0.95),
        length=min(40, 32 - len(prompts[0])),
        stop=trained.stop,
        seed=stream_seed(0, "samples"),
    )
    for number, (example, text) in enumerate(zip(examples, again, strict=True), start=1):
        said = trained.tokenizer.target.written(text.new).strip() + ("" if text.stopped else " …")
        assert blocks[-1][number] == f"{number}. {example.place} (right: {example.target}) → {said}"


def test_the_same_caption_by_every_way(run, pictures):
    files = sorted(pictures.iterdir())
    trained = Trained.at(run)
    captions = trained.caption(files)
    assert trained.caption(files[0]) == trained.caption(files[0].read_bytes()) == captions[0]
    assert trained.candidates(files, best=2)[1][0].text == captions[1]
    told = answer("caption", run, *files)
    assert [each["best"][0]["text"] for each in told["texts"]] == captions
    rows = answer("predict", run, "--data", pictures)
    assert [row["answer"] for row in rows] == captions and rows[0]["image"].endswith("0.png")
    assert [row["answer"] for row in answer("predict", run, *files)] == captions


def test_what_cannot_be_described_is_answered(run, pictures, tmp_path):
    trained = Trained.at(run)
    (tmp_path / "broken.png").write_bytes(b"no picture")
    broken = tmp_path / "broken.png", "broken.png cannot be described"
    for file, reason in (broken, ("none.png", "no such file")):
        told = command("caption", run, file)
        assert told.exit_code and reason in str(told.exception)
    for method, given in ((trained.translate, "a text"), (trained.generate, "a text")):
        with pytest.raises(ConfigError, match=r"describes pictures.*attnlab caption RUN FILE"):
            method(given)
    told = command("predict", run, "--data", tmp_path)
    assert told.exit_code and "broken.png" in str(told.exception)
