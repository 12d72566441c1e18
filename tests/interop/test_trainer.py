"""The callback for transformers' Trainer: faults that are put into a training are found by it, and sound ones
pass. Each training has a few steps of a tiny model."""

from __future__ import annotations

import json
import warnings

import pytest
import torch
from transformers import (
    BertForSequenceClassification,
    GPT2LMHeadModel,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from attnlab.config.values import ConfigError
from attnlab.interop.loop_checks import UnsoundWarning
from attnlab.interop.transformers import Soundness
from attnlab.runs.faults import UnsoundError
from attnlab.runs.findings import read_findings
from tests.parity.theirs import ALL, V

LENGTHS = (6, 9, 14, 7, 12, 8)


def texts(count, seed=0):
    drawn = torch.Generator().manual_seed(seed)
    return [torch.randint(5, V, (LENGTHS[n % len(LENGTHS)],), generator=drawn).tolist() for n in range(count)]


def rows_of_words(count=24, seed=0, labels=lambda ids: list(ids)):
    return [{"input_ids": ids, "labels": labels(ids)} for ids in texts(count, seed)]


def padded(rows):
    """Rows padded on the right, as collators do it; a label of a text stays as it is."""
    longest = max(len(row["input_ids"]) for row in rows)
    ids = torch.tensor([row["input_ids"] + [0] * (longest - len(row["input_ids"])) for row in rows])
    real = torch.tensor([[n < len(row["input_ids"]) for n in range(longest)] for row in rows])
    if isinstance(rows[0]["labels"], int):
        labels = torch.tensor([row["labels"] for row in rows])
    else:
        labels = torch.tensor([row["labels"] + [-100] * (longest - len(row["labels"])) for row in rows])
    return {"input_ids": ids, "attention_mask": real.long(), "labels": labels}


def trained(folder, model, rows, dev=None, callback=None, steps=2, told=None, **settings):
    """A Trainer's run with the callback; its findings by check (the worst of each). `told` gets what it
    warned of."""
    checks = callback or Soundness()
    options = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 4,
        "max_steps": steps,
        "learning_rate": 1e-3,
        "report_to": [],
        "save_strategy": "no",
        "disable_tqdm": True,
        "use_cpu": True,
        "dataloader_pin_memory": False,
        "logging_strategy": "no",
        "eval_strategy": "no" if dev is None else "steps",
        "eval_steps": steps,
    }
    trainer = Trainer(
        model=model,
        args=TrainingArguments(**options | settings),
        train_dataset=rows,
        eval_dataset=dev,
        data_collator=padded,
        callbacks=[checks],
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.manual_seed(1)
        trainer.train()
    if told is not None:
        told += [str(one.message) for one in caught if one.category is UnsoundWarning]
    if not isinstance(checks, Soundness):
        return {}
    order = ("fail", "warn", "pass", "not applicable")
    ranked = sorted(checks.findings, key=lambda one: -order.index(one.outcome))
    return {one.check: one for one in ranked}


@pytest.fixture
def gpt2():
    """A GPT-2 as it begins, with padding that it knows."""
    torch.manual_seed(0)
    model = ALL["gpt2"].make(resid_pdrop=0.1)
    model.apply(model._init_weights)
    return model


def test_a_sound_training_passes_every_check_and_leaves_them_in_checks_json(gpt2, tmp_path):
    found = trained(
        tmp_path, gpt2, rows_of_words(), rows_of_words(8, 1), gradient_accumulation_steps=3, steps=3
    )
    outcomes = {name: one.outcome for name, one in found.items()}
    for name in ("dependency", "invariance", "decoding", "targets", "first_loss", "accumulation", "moved"):
        assert outcomes[name] == "pass", found[name]
    assert outcomes["reload"] == outcomes["contamination"] == "pass", found
    held = json.loads((tmp_path / "checks.json").read_text())
    assert held["sound"] is True and held["unsound"] == []
    assert {one.check for one in read_findings(tmp_path)} == set(outcomes)
    assert "3 texts in 3 arrangements" in found["invariance"].found


def losses_of(folder, model, *callbacks):
    torch.manual_seed(1)
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=str(folder), max_steps=4, per_device_train_batch_size=4, report_to=[], use_cpu=True
        ),
        train_dataset=rows_of_words(),
        data_collator=padded,
        callbacks=list(callbacks),
    )
    trainer.train()
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def test_the_callback_changes_no_bit_of_the_training(gpt2, tmp_path):
    twin = type(gpt2)(gpt2.config)
    twin.load_state_dict(gpt2.state_dict())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, watched = losses_of(tmp_path, gpt2), losses_of(tmp_path, twin, Soundness())
    assert all(torch.equal(plain[name], watched[name]) for name in plain)


def test_labels_that_were_shifted_before_are_found_at_the_first_step(gpt2, tmp_path):
    shifted = rows_of_words(labels=lambda ids: [*ids[1:], -100])  # the model shifts them again
    found = trained(tmp_path, gpt2, shifted)["targets"]
    assert found.outcome == "fail" and "100% are the token after the next" in found.found
    with pytest.raises(UnsoundError, match="the token after the next"):
        trained(tmp_path / "stopped", gpt2, shifted, callback=Soundness(stop=True))
    trained(tmp_path / "allowed", gpt2, shifted, callback=Soundness(stop=True, allow=["targets"]))
    assert json.loads((tmp_path / "allowed" / "checks.json").read_text())["unsound"] == ["targets"]


class Averaged(GPT2LMHeadModel):
    """Divides by the targets of each batch by itself, whatever the loop says of the step."""

    def forward(self, input_ids=None, attention_mask=None, labels=None, use_cache=None):
        return super().forward(input_ids=input_ids, attention_mask=attention_mask, labels=labels)


def test_a_mean_of_means_is_found_where_a_step_has_several_batches(gpt2, tmp_path):
    model = Averaged(gpt2.config)
    rows = sorted(rows_of_words(), key=lambda row: len(row["input_ids"]))
    settings = {"gradient_accumulation_steps": 3, "train_sampling_strategy": "sequential"}
    found = trained(tmp_path, model, rows, **settings)["accumulation"]
    assert found.outcome == "fail" and "never average means" in found.fix
    assert trained(tmp_path, gpt2, rows, **settings)["accumulation"].outcome == "pass"


def test_a_leaking_mask_stops_before_the_first_step(gpt2, tmp_path, monkeypatch):
    from transformers.models.gpt2 import modeling_gpt2

    def everything(inputs_embeds, **_):
        rows, length = inputs_embeds.shape[:2]
        return inputs_embeds.new_zeros(rows, 1, length, length)

    monkeypatch.setattr(modeling_gpt2, "create_causal_mask", everything)
    before = gpt2.transformer.wte.weight.detach().clone()
    with pytest.raises(UnsoundError, match=r"The check dependency failed: output \d+"):
        trained(tmp_path, gpt2, rows_of_words(), callback=Soundness(stop=True))
    assert torch.equal(before, gpt2.transformer.wte.weight)
    assert json.loads((tmp_path / "checks.json").read_text())["sound"] is False


def rows_of_classes(count, label, seed=0):
    return [{"input_ids": ids, "labels": label(n)} for n, ids in enumerate(texts(count, seed))]


@pytest.fixture
def bert():
    torch.manual_seed(0)
    return BertForSequenceClassification(ALL["bert, classes"].make().config)


def test_collapse_and_majority_are_told_at_the_evaluation(bert, tmp_path):
    always = rows_of_classes(40, lambda n: 0)
    dev = rows_of_classes(40, lambda n: n % 3, seed=1)
    found = trained(tmp_path, bert, always, dev, steps=30, learning_rate=5e-3)
    assert found["collapse"].outcome == found["majority"].outcome == "warn"
    assert found["collapse"].meaning.startswith("So far: The model predicts the same class")
    assert found["targets"].outcome == "not applicable" and found["reload"].outcome == "pass"


def test_dev_rows_that_are_train_rows_are_found(bert, tmp_path):
    rows = rows_of_classes(60, lambda n: n % 3)
    found = trained(tmp_path, bert, rows, rows[:30])["contamination"]
    assert found.outcome == "fail" and "30 of 30 texts are equal" in found.found


class Cut(torch.nn.Module):
    """A pooler that passes nothing on, and that no config knows of."""

    def forward(self, hidden):
        return torch.zeros_like(hidden[:, 0])


def test_what_is_not_taught_and_what_is_not_saved_are_found_at_the_end(bert, tmp_path):
    bert.bert.pooler = Cut()
    found = trained(tmp_path, bert, rows_of_classes(8, lambda n: n % 3))
    assert found["moved"].outcome == "warn" and "have not moved" in found["moved"].found
    assert found["reload"].outcome == "fail" and "after loading" in found["reload"].found


class Own(torch.nn.Module):
    """A module of one's own: it returns a dictionary, and no config says what it knows. It is causal, or
    reads one token ahead."""

    def __init__(self, rows=V, diagonal=0):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.out = torch.nn.Embedding(rows, 8), torch.nn.Linear(8, V)
        self.diagonal = diagonal

    def forward(self, input_ids, attention_mask=None, labels=None):
        x = self.table(input_ids)
        seen = torch.ones(x.shape[1], x.shape[1], dtype=x.dtype).tril(self.diagonal)
        scores = self.out(seen / seen.sum(-1, keepdim=True) @ x)
        if labels is None:
            return {"logits": scores}
        loss = torch.nn.functional.cross_entropy(scores[:, :-1].mT, labels[:, 1:])
        return {"loss": loss, "logits": scores}


def test_a_module_of_ones_own_that_returns_a_dictionary_is_checked(tmp_path):
    """Its vocabulary is read off the table that its scores are as wide as."""
    rows = rows_of_words()
    found = trained(tmp_path, Own(), rows, rows_of_words(8, 1), steps=2)
    for name in ("dependency", "targets", "first_loss", "moved"):
        assert found[name].outcome == "pass", found[name]
    leak = trained(tmp_path, Own(diagonal=1), rows)["dependency"]
    assert leak.outcome == "fail" and leak.values["ahead"] == 1
    with pytest.raises(UnsoundError, match="joined in the code of Own"):
        trained(tmp_path, Own(diagonal=1), rows, callback=Soundness(stop=True))


def test_a_module_whose_vocabulary_is_not_known_is_trained_and_told_what_to_give(tmp_path):
    """More rows than scores: it does not say how many tokens it knows."""
    model, checks = Own(rows=V + 3), Soundness()
    before = model.out.weight.detach().clone()
    trained(tmp_path, model, rows_of_words(), callback=checks, told=(told := []))
    assert told[0].startswith("The model is not checked: Say how many tokens the model knows: vocabulary=…")
    assert not torch.equal(before, model.out.weight)
    outcomes = {one.check: one.outcome for one in checks.findings}
    assert outcomes["dependency"] == "not applicable" and outcomes["targets"] == "pass"
    with pytest.raises(ConfigError, match="vocabulary=…"):
        trained(tmp_path, Own(rows=V + 3), rows_of_words(), callback=Soundness(stop=True))
    given = Soundness(vocabulary=V, forward=lambda model, ids: model(ids)["logits"])
    assert trained(tmp_path, Own(rows=V + 3), rows_of_words(), callback=given)["dependency"].outcome == "pass"


def fail(*_, **__):
    raise RuntimeError("a fault of ours")


FAULTS = {
    "model": "attnlab.interop.loop_checks.samples",
    "a check of the model": "attnlab.checks.dependency.probe_subject",
    "targets": "attnlab.interop.loop_checks.targets",
    "a batch": "attnlab.interop.observing.ids_of",
    "a gradient": "attnlab.interop.observing.part_of",
    "data": "attnlab.interop.transformers.rows_of",
    "evaluation": "attnlab.interop.loop_checks.mixed",
    "file": "attnlab.interop.loop_checks.save_findings",
    "end": "attnlab.interop.loop_checks.Moved.judge",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_without_stop_no_fault_of_attnlab_ends_a_training(gpt2, tmp_path, monkeypatch, fault):
    """The same weights come out as without the callback, and somebody is told."""
    twin = type(gpt2)(gpt2.config)
    twin.load_state_dict(gpt2.state_dict())
    rows, dev = rows_of_words(), rows_of_words(8, 1)
    trained(tmp_path, twin, rows, dev, callback=TrainerCallback())
    monkeypatch.setattr(FAULTS[fault], fail)
    monkeypatch.setattr("attnlab.interop.loop_checks.EARLY", 1)
    trained(tmp_path, gpt2, rows, dev, callback=Soundness(), told=(told := []))
    assert any("a fault of ours" in message for message in told)
    assert all(
        torch.equal(mine, other) for mine, other in zip(gpt2.parameters(), twin.parameters(), strict=True)
    )


def test_a_bad_finding_is_warned_of_once(bert, tmp_path):
    checks = Soundness()
    bert.bert.pooler = Cut()
    trained(tmp_path, bert, rows_of_classes(8, lambda n: n % 3), callback=checks)
    with pytest.warns(UnsoundWarning, match=r"The check moved warns: .* have not moved"):
        checks.checks.findings.clear()
        checks.checks.add([one for one in read_findings(tmp_path) if one.check == "moved"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checks.checks.add([one for one in read_findings(tmp_path) if one.check == "moved"])


def rows_by_words(count, moved, seed=3):
    """Texts that each hold a few tokens of their class among others, and labels `moved` by so many rows."""
    drawn = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (count,), generator=drawn).tolist()
    rows = []
    for n, label in enumerate(labels):
        own = torch.randint(5 + 8 * label, 13 + 8 * label, (4,), generator=drawn).tolist()
        other = torch.randint(5, V, (5,), generator=drawn).tolist()
        rows.append({"input_ids": own + other, "labels": labels[(n + moved) % count]})
    return rows


@pytest.mark.parametrize("moved", [0, 1])
def test_labels_that_were_moved_against_their_texts_are_named_before_anything_is_evaluated(
    bert, tmp_path, moved
):
    told = []
    rows = rows_by_words(1600, moved)
    found = trained(tmp_path, bert, rows, steps=6, per_device_train_batch_size=250, told=told)["bag_of_words"]
    assert found.outcome == ("warn" if moved else "pass") and (found.when, found.step) == ("during", 4)
    assert any("labels may not belong to these texts" in str(one) for one in told) == bool(moved)
