"""Settings of older records are taken by today's names, wherever they stand, and no others are touched."""

import pytest

from attnlab.config.files import config_of, to_json
from attnlab.config.registry import table
from attnlab.config.upgrade import RENAMED, renamed, upgrade

OLD = {
    "objective": {"kind": "prefix", "least": 0.1, "most": 0.9},
    "data": {"batching": {"kind": "bucketed", "tokens": 96, "rows": 8, "step": 4}, "length": 24},
    "training": {
        "optimizer": {"kind": "muon", "rate": 0.003, "adamw_rate": 0.001, "decay": 0.02},
        "schedule": {"kind": "wsd", "warmup": 0.1, "decay": 0.3, "final": 0.0},
        "recompute": True,
    },
}


def test_an_old_record_is_read_by_the_names_of_today():
    new = config_of(renamed(OLD))
    assert str(new.task) == "prefix(least=0.1, most=0.9)" and new.training.gradient_checkpointing
    assert new.data.batching.options == {"tokens": 96, "batch_size": 8, "step": 4}
    kept = {"learning_rate": 0.003, "adamw_learning_rate": 0.001, "weight_decay": 0.02}
    assert kept.items() <= new.training.optimizer.options.items()


def test_taggers_that_cut_their_texts_read_them_whole_now():
    words = {"kind": "words", "cut": "end"}
    new = upgrade({"config": {"data": {"encoding": words}, "task": {"kind": "tagging"}}})
    assert "cut" not in config_of(new["config"]).data.encoding.options
    single = {"config": {"data": {"encoding": {"kind": "single", "cut": "start"}}}}
    assert upgrade(single) == single


def test_a_name_that_was_settled_in_one_place_stays_in_others():
    assert config_of(renamed(OLD)).training.schedule.options["decay"] == 0.3
    assert renamed({"rate": 1, "data": {"corpus": {"rows": 3}}}) == {
        "rate": 1,
        "data": {"corpus": {"rows": 3}},
    }


@pytest.mark.parametrize(("noted", "meant"), [({}, "tokenizer"), ({"vocabulary": 70}, 70)])
def test_a_vocabulary_that_was_recorded_and_not_used_is_not_used_now(noted, meant):
    old = {"config": OLD | {"model": {"vocabulary": 10_000}}, "identity": "a57f"} | noted
    new = upgrade(old)
    assert config_of(new["config"]).model.vocabulary == meant and new["identity"] == "a57f"
    again = upgrade({"config": new["config"] | {"model": {"vocabulary": 10_000}}})
    assert again["config"]["model"]["vocabulary"] == 10_000


def test_todays_records_stay_as_they_are():
    now = to_json(config_of(renamed(OLD)))
    assert renamed(now) == now


def test_every_new_name_exists_and_no_old_one_does():
    config = to_json(config_of({}))
    for old, new in RENAMED.items():
        *path, name = old.split(".")
        place = config
        for step in path:
            place = place[step]
        known = set(place)
        if "kind" in place:
            choices = table({"optimizer": "optimizers", "batching": "batching"}[path[-1]])
            known = {option for kind in choices for option in choices.options(kind)}
        assert new in known and name not in known
