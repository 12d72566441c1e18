"""`attnlab train --watch`: one prompt over the steps of a run, which does not feel it."""

import json

import pytest
import torch

import attnlab as lab
from attnlab.config.files import config_of, parse_override
from attnlab.config.values import ConfigError
from attnlab.runs.events import Ended, Started, Stepped
from attnlab.runs.folder import RunFolder
from attnlab.session.prompt_watch import PromptWatch
from attnlab.session.session import Session
from attnlab.session.training import train
from tests.session.commands import command
from tests.training.small_run import settings

PROMPT = "the cat"


def trained(tmp_path, name, *, watch, steps=12):
    changed = settings(tmp_path)
    changed["training"]["budget"]["steps"] = steps
    session, folder, told = Session(config_of(changed)), tmp_path / name, []
    listeners = [PromptWatch(session, folder, PROMPT, told.append)] if watch else []
    train(session, folder, listeners=listeners)
    return session, folder, told


def test_a_watched_run_is_the_same_run_bit_for_bit(tmp_path, unchecked):
    plain, one, _ = trained(tmp_path, "plain", watch=False)
    watched, other, told = trained(tmp_path, "watched", watch=True)
    for (name, mine), (_, theirs) in zip(
        plain.model.named_parameters(), watched.model.named_parameters(), strict=True
    ):
        assert torch.equal(mine, theirs), name
    losses = [
        [json.loads(line).get("loss") for line in RunFolder(folder).metrics.read_text().splitlines()]
        for folder in (one, other)
    ]
    assert losses[0] == losses[1] and len(losses[0]) > 12
    held = json.loads((other / "watch.json").read_text())
    assert [moment["step"] for moment in held["moments"]] == [0, 1, 10, 12] and len(told) == 4
    assert not (one / "watch.json").exists() and "the cat" in (other / "watch.html").read_text()
    check_last_moment(watched, held["moments"][-1])


def check_last_moment(session, moment):
    """Token by token, each by a forward of its own."""
    tokenizer, model = session.tokenizer, session.model.eval()
    ids = [*tokenizer.form.before, *tokenizer.encode(PROMPT)]
    logs, new = [], []
    with torch.no_grad():
        for _ in range(12):
            chances = model(torch.tensor([[*ids, *new]]))[0, -1].double().softmax(-1)
            if not new:
                assert moment["next"][0][1] == pytest.approx(float(chances.max()), rel=1e-5)
            new.append(int(chances.argmax()))
            logs.append(float(chances.max().log()))
            if new[-1] == tokenizer.specials.stop:
                break
    assert moment["each"] == pytest.approx(torch.tensor(logs).mean().exp().item(), rel=1e-5)
    assert moment["continuation"] == tokenizer.written(new)


def test_a_resumed_run_goes_on_with_what_was_seen_of_the_same_prompt(tmp_path, unchecked):
    session, folder, _ = trained(tmp_path, "run", watch=True)
    again = PromptWatch(session, folder, PROMPT, lambda line: None)
    again(Started(step=10, parameters=1))
    assert [moment.step for moment in again.moments] == [0, 1, 10]
    other = PromptWatch(session, folder, "a dog", lambda line: None)
    other(Started(step=10, parameters=1))
    assert other.moments == []
    facts = {"loss": 0.0, "learning_rate": 0.0, "gradient": 0.0, "tokens": 0, "flops": 0, "seconds": 0.0}
    other(Stepped(step=101, progress=0.0, epoch=0.0, **facts))
    assert other.moments == []
    other(Stepped(step=100, progress=0.0, epoch=0.0, **facts))
    other(Ended(step=100, reason="budget"))
    assert [moment.step for moment in other.moments] == [100]


def test_what_cannot_be_watched_is_told_before_any_work(tmp_path):
    changed = settings(tmp_path)
    with pytest.raises(ConfigError, match="--watch has no words"):
        PromptWatch(Session(config_of(changed)), tmp_path, " ", print)
    changed["task"], changed["model"]["family"] = "masked", "encoder"
    with pytest.raises(ConfigError, match="does not write from left to right"):
        PromptWatch(Session(config_of(changed)), tmp_path, PROMPT, print)


def test_the_command_and_python_take_it(tmp_path, unchecked):
    changes = ["data.corpus=" + str(settings(tmp_path)["data"]["corpus"]["path"]), "training.budget.steps=2"]
    small = ["model.width=16", "model.layers=1", "data.tokenizer=word", "data.corpus.unit=line"]
    words = [word for change in (*changes, *small) for word in ("--set", change)]
    done = command("train", "mini-gpt", *words, "--watch", PROMPT, "--out", tmp_path / "run")
    assert done.exit_code == 0 and "watch, step 1: 'the cat' → " in done.output, done.output
    given = dict(map(parse_override, (*changes, *small)))
    lab.train("mini-gpt", set=given, out=tmp_path / "own", watch=PROMPT, progress=False)
    assert (tmp_path / "own" / "watch.html").exists()
