"""Names of other projects are answered with ours, wherever they are written, by a command that works."""

import re
import shlex

import pytest

from attnlab import decoder
from attnlab.config.elsewhere import ELSEWHERE
from attnlab.config.files import config_of, load
from attnlab.config.upgrade import RENAMED
from attnlab.config.values import ConfigError
from attnlab.studies.study_files import study_of

GIVEN = {  # a value that each of our settings can have
    "model.width": 256,
    "model.heads": 8,
    "model.projections": 2,
    "model.dropout": 0.1,
    "model.attention_dropout": 0.1,
    "model.output.tied": False,
    "training.optimizer.betas": [0.8, 0.9],
    "training.schedule.warmup": 0.1,
    "training.compile": True,
    "training.gradient_checkpointing": True,
    "training.listeners": "tensorboard",
    "task": "masked",
}
CHOICES = {"hidden_act": "silu", "activation_function": "gelu_new", "lr_scheduler_type": "linear"}
CHOICES |= {
    "lr_scheduler": "constant",
    "dtype": "bfloat16",
    "torch_dtype": "bfloat16",
    "bf16": True,
    "fp16": True,
}


def value_of(name):
    return CHOICES.get(name, GIVEN.get(next(iter(ELSEWHERE[name].settings), ""), 64))


PLACES = {
    "the top level": lambda name, value: config_of({name: value}),
    "[model]": lambda name, value: config_of({"model": {name: value}}),
    "[data]": lambda name, value: config_of({"data": {name: value}}),
    "[training]": lambda name, value: config_of({"training": {name: value}}),
    "[training.budget]": lambda name, value: config_of({"training": {"budget": {"tokens": 9, name: value}}}),
    "an optimizer": lambda name, value: config_of(
        {"training": {"optimizer": {"kind": "adamw", name: value}}}
    ),
    "an attention": lambda name, value: config_of({"model": {"attention": {"kind": "dot", name: value}}}),
    "a nested choice": lambda name, value: load(
        set={"model.attention": {"kind": "group", "inner": {"kind": "dot", name: value}}}
    ),
    "--set": lambda name, value: load("mini-gpt", set={name: value}),
    "--set model.": lambda name, value: load("mini-gpt", set={f"model.{name}": value}),
    "--set training.optimizer.": lambda name, value: load(
        "mini-gpt", set={f"training.optimizer.{name}": value}
    ),
    "Python": lambda name, value: decoder(**{name: value}),
    "a study": lambda name, value: study_of({"question": "?", "arms": {"a": {}}, name: value}, name="mine"),
}
OWN = {  # names that are ours in that place
    "[training]": {"gradient_checkpointing"},
    "[training.budget]": {"steps", "epochs"},
    "an optimizer": {"learning_rate", "weight_decay", "betas", "eps"},
    "--set training.optimizer.": {"learning_rate", "weight_decay", "betas", "eps"},
}


@pytest.mark.parametrize("place", PLACES)
def test_every_name_is_answered_wherever_it_is_written(place):
    for name in ELSEWHERE.keys() - OWN.get(place, set()):
        with pytest.raises(ConfigError) as error:
            PLACES[place](name, value_of(name))
        said = str(error.value)
        assert f'there is no "{name}"; ' in said and ELSEWHERE[name].answer(value_of(name)) in said


@pytest.mark.parametrize("name", [name for name, ours in ELSEWHERE.items() if ours.settings])
def test_the_command_that_is_given_works(name):
    ours, value = ELSEWHERE[name], value_of(name)
    words = shlex.split(ours.answer(value).partition(": ")[2])
    changes = words[1::2]
    assert set(words[::2]) == {"--set"}
    assert tuple(change.partition("=")[0] for change in changes) == ours.settings
    shows_an_example = ours.written(value) == ours.example
    assert shows_an_example or load(set=changes) != load()


def test_what_older_versions_called_a_setting_is_answered_too():
    assert {old.rpartition(".")[2] for old in RENAMED} <= ELSEWHERE.keys()


def test_a_name_without_a_setting_says_why_there_is_none():
    assert all(ours.note for ours in ELSEWHERE.values() if not ours.settings)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("n_embd=256", "it is called model.width here: --set model.width=256"),
        ("training.lr=3e-4", "it is called training.optimizer.learning_rate here"),
        ("training.lr=3e-4", "--set training.optimizer.learning_rate=0.0003"),
        ("model.n_positions=64", "--set model.length=64 --set data.length=64"),
        ("num_key_value_heads=2", "--set 'model.projections=grouped(shared=2)'"),
        ("intermediate_size=512", "a multiple of model.width: --set model.feedforward.expand=4"),
        ("tie_word_embeddings=false", "--set model.output.tied=false"),
        ("hidden_act=silu", "--set model.feedforward=swiglu"),
        ("hidden_act=quick_gelu", "--set model.feedforward=gelu"),
        ("bf16=true", "--set training.precision=bfloat16"),
        ("bf16=false", "--set training.precision=float32"),
        ("betas=[0.9, 0.98]", "--set 'training.optimizer.betas=[0.9, 0.98]'"),
        ("grad_clip=0.0", "--set training.clip=off"),
        ("lr.value=3", "training.optimizer.learning_rate=…"),
        ("logging_steps=10", "every step is written to metrics.jsonl"),
        ("training.optimizer.rate=1e-3", "--set training.optimizer.learning_rate=0.001"),
    ],
)
def test_the_value_is_the_persons_own(written, told):
    with pytest.raises(ConfigError, match=re.escape(told)):
        load("mini-gpt", set=[written])


def test_a_word_of_a_schedules_own_is_not_taken_for_an_optimizers():
    with pytest.raises(ConfigError, match=r'options of cosine: there is no "decay"\. .*Known: warmup, final'):
        load(set=["training.schedule=cosine(decay=0.3)"])
