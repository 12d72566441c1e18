"""Faults of a recipe, put there on purpose: each is named, and its healthy counterpart is not."""

import copy
import json
import math
from dataclasses import replace
from functools import partial

import pytest
import torch

from attnlab.checks.check import run_checks
from attnlab.model.attention import rule as rules
from attnlab.model.attention.dot import Dot
from attnlab.model.losses import IGNORE, LossSum
from attnlab.tasks import TASKS
from attnlab.tasks.masked import Masked
from tests.checks.cases import case, config, found, of, shared
from tests.training import small_run
from tests.training.small_run import set_up, train


def changed(task, **changes):
    """The task with some things otherwise: each change is given what it changes, and its arguments."""
    other = copy.copy(task)
    for name, change in changes.items():
        setattr(other, name, partial(change, getattr(task, name)))
    return other


def with_targets(change):
    """A task whose targets are changed."""

    def prepare(own, batch, seed):
        prepared = own(batch, seed)
        return replace(prepared, targets=change(prepared, batch))

    return prepare


@pytest.mark.parametrize("task", TASKS)
def test_healthy_models_pass_every_check_before_training(task):
    about = case(task)
    outcomes = {one.check: (one.outcome, one.found) for one in run_checks(about)}
    alarms = {name for name, (outcome, _) in outcomes.items() if outcome in ("warn", "fail")}
    given_away = {"giveaway"} if task == "classification" else set()  # the class is a word of its text
    assert alarms == given_away, outcomes


def test_checks_leave_model_and_random_numbers_as_they_were():
    about = case()
    about.model.train()
    about.model.trunk.decoder.blocks[0].eval()
    before = {name: value.clone() for name, value in about.model.state_dict().items()}
    modes = [module.training for module in about.model.modules()]
    torch.manual_seed(5)
    state = torch.random.get_rng_state()
    first = run_checks(about)
    assert torch.equal(state, torch.random.get_rng_state())
    assert modes == [module.training for module in about.model.modules()]
    assert all(torch.equal(value, before[name]) for name, value in about.model.state_dict().items())
    assert all(parameter.grad is None for parameter in about.model.parameters())
    assert [replace(one, seconds=0) for one in run_checks(about)] == [
        replace(one, seconds=0) for one in first
    ]


# first loss


def test_targets_that_the_model_can_see_make_the_first_loss_too_low():
    about = case()
    task = changed(about.task, prepare=with_targets(lambda p, b: torch.where(b.real, p.ids, IGNORE)))
    with torch.no_grad():
        about.model.trunk.decoder.embedding.tokens.weight.mul_(3)  # a tied table scores its own word high
    finding = found("first_loss", replace(about, task=task))
    assert finding.outcome == "fail" and "visible in its input" in finding.meaning
    assert finding.number < math.log(about.dataset.tokenizer.size) - 0.5


def test_scores_that_are_too_large_make_the_first_loss_too_high():
    about = case()
    with torch.no_grad():
        about.model.trunk.decoder.embedding.tokens.weight.mul_(40)
    finding = found("first_loss", about)
    assert finding.outcome == "warn" and "scale" in finding.fix


def test_learnt_weights_are_not_expected_to_know_nothing():
    assert found("first_loss", case(pretrained=True)).outcome == "not applicable"


# overfitting


def blinded(stack):
    """An embedding that gives every token the same vector."""
    forward = stack.embedding.forward
    stack.embedding.forward = lambda ids, *rest: forward(torch.zeros_like(ids), *rest) * 0 + 1


def test_a_model_of_very_many_layers_is_not_tried_for_minutes():
    """Hundreds of steps of a thousand layers: it is said that they were not made."""
    deep = found("overfit", of(set_up(config(model={"layers": 101}))))
    assert deep.outcome == "not applicable" and "100 layers" in deep.found


@pytest.mark.parametrize("task", ["causal", "seq2seq"])
def test_an_input_that_does_not_arrive_cannot_be_overfitted(task):
    about = case(task)
    for stack in about.model.trunk.stacks().values():
        blinded(stack)
    finding = found("overfit", about)
    assert finding.outcome == "fail" and finding.number > 1.0


def test_weights_that_do_not_learn_cannot_be_overfitted():
    about = case()
    for parameter in about.model.parameters():
        parameter.requires_grad_(False)
    about.model.trunk.decoder.blocks[0].residuals[0].norm.weight.requires_grad_(True)
    assert found("overfit", about).outcome == "fail"


def test_targets_of_other_inputs_cannot_be_overfitted():
    """Equal contexts with different targets are no fault; random targets for dropped-out inputs are."""
    about = case()
    torch.manual_seed(0)

    def loss(own, head, hidden, prepared, *, training):
        mixed = prepared.targets.clone()
        there = mixed != IGNORE
        mixed[there] = mixed[there][torch.randperm(int(there.sum()))]
        return own(head, hidden, replace(prepared, targets=mixed), training=training)

    assert found("overfit", replace(about, task=changed(about.task, head_loss=loss))).outcome == "fail"


# targets


def not_shifted(prepared, batch):
    return torch.where(batch.real, prepared.ids, IGNORE)


def shifted_twice(prepared, batch):
    return torch.cat([prepared.targets[:, 1:], torch.full_like(prepared.targets[:, :1], IGNORE)], 1)


def across_documents(prepared, batch):
    after = torch.cat([prepared.ids[:, 1:], torch.full_like(prepared.ids[:, :1], IGNORE)], 1)
    real = torch.cat([batch.real[:, 1:], torch.zeros_like(batch.real[:, :1])], 1)
    return torch.where(real, after, IGNORE)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (not_shifted, "the input itself"),
        (shifted_twice, "the token after the next"),
        (across_documents, "the next token"),
    ],
)
def test_targets_that_are_not_the_next_token_are_named(change, words):
    about = case()
    finding = found("targets", replace(about, task=changed(about.task, prepare=with_targets(change))))
    assert finding.outcome == "fail" and words in finding.found


def test_a_loss_that_shifts_again_is_named_by_the_model_that_copies():
    about = case()

    def again(own, head, hidden, prepared, *, training):
        shorter = replace(prepared, targets=prepared.targets[:, 1:])
        return own(head, hidden[:, :-1], shorter, training=training)

    finding = found("targets", replace(about, task=changed(about.task, head_loss=again)))
    assert finding.outcome == "fail" and "the token after the next" in finding.found


def test_a_loss_that_shifts_back_lets_the_copier_win():
    about = case()

    def back(own, head, hidden, prepared, *, training):
        shorter = replace(prepared, targets=prepared.targets[:, :-1])
        return own(head, hidden[:, 1:], shorter, training=training)

    finding = found("targets", replace(about, task=changed(about.task, head_loss=back)))
    assert finding.outcome == "fail" and "answers with the input itself" in finding.found


def test_masked_targets_must_be_the_hidden_tokens():
    about = case("masked")

    def visible(prepared, batch):
        return torch.where(prepared.targets != IGNORE, prepared.ids, IGNORE)

    assert found("targets", about).number == pytest.approx(0.1, abs=0.1)
    finding = found("targets", replace(about, task=changed(about.task, prepare=with_targets(visible))))
    assert finding.outcome == "fail"


def test_answers_that_stand_in_the_input_are_told():
    about = case("masked")
    shown = Masked(about.task.vocabulary, mask=0.2, random=0.0)
    finding = found("targets", replace(about, task=shown))
    assert finding.outcome == "warn" and finding.number > 0.5


# rows that see nothing, and parts of a batch


def test_a_softmax_over_nothing_is_named(monkeypatch):
    plain = Dot.forward

    def careless(self, q, k, v, pairs):
        scores = self.scores(q, k)
        if pairs.allowed is None:
            return plain(self, q, k, v, pairs)
        return scores.masked_fill(~pairs.allowed, -math.inf).softmax(-1) @ v

    monkeypatch.setattr(Dot, "forward", careless)
    finding = found("fully_masked", case())
    assert finding.outcome == "fail" and "NaN" in finding.found


def test_an_average_of_padding_is_named(monkeypatch):
    def finite(scores, allowed):
        return scores.softmax(-1) if allowed is None else scores.masked_fill(~allowed, -1e9).softmax(-1)

    monkeypatch.setattr(rules, "masked_softmax", finite)
    finding = found("fully_masked", of(set_up(config(model={"attention": "additive"}))))
    assert finding.outcome == "fail" and "nothing may be seen" in finding.found


@pytest.mark.parametrize("attention", ["dot", "additive", "argmax", "linear", "group", "window(size=3)"])
def test_every_rule_gives_zeros_where_nothing_may_be_seen(attention):
    assert found("fully_masked", of(set_up(config(model={"attention": attention})))).outcome == "pass"


def test_a_mean_of_means_is_named():
    about = case()

    def mean(own, *given, training):
        loss = own(*given, training=training)
        return LossSum(loss.total / loss.count * 100, loss.count)

    finding = found("accumulation", replace(about, task=changed(about.task, head_loss=mean)))
    assert finding.outcome == "fail" and finding.number > 0.01


def test_a_loop_that_averages_micro_batches_is_named(monkeypatch):
    def averaged(model, task, batches, **named):
        for batch in batches:
            (task.loss(model, batch).mean / len(batches)).backward()

    monkeypatch.setattr("attnlab.checks.accumulation.backward", averaged)
    assert found("accumulation", case()).outcome == "fail"


# heads


def test_unscaled_scores_are_told_before_training():
    finding = found("attention", of(set_up(config(model={"attention": "dot(scale=1.0)", "width": 64}))))
    assert finding.outcome == "warn" and "saturation" in finding.meaning and finding.number < 0.5


def test_sharp_heads_of_a_pretrained_model_are_told_and_no_fault():
    about = of(set_up(config(model={"attention": "dot(scale=1.0)", "width": 64})))
    assert found("attention", about).outcome == "warn"
    finding = found("attention", replace(about, pretrained=True))
    assert finding.outcome == "pass" and "attend to few tokens, as trained heads may" in finding.found


@pytest.mark.parametrize("positions", ["alibi", "rotary", "relative", "bucketed", "none"])
@pytest.mark.parametrize("attention", ["dot", "additive"])
def test_healthy_heads_are_not(attention, positions):
    about = of(set_up(config(model={"attention": attention, "positions": positions})))
    assert found("attention", about).outcome == "pass"


@pytest.mark.parametrize("projections", ["shared_qk", "grouped(shared=2)"])
def test_other_projections_are_healthy_too(projections):
    assert found("attention", of(set_up(config(model={"projections": projections})))).outcome == "pass"


def test_linear_passes_and_argmax_is_left_alone():
    assert found("attention", of(set_up(config(model={"attention": "linear"})))).outcome == "pass"
    assert found("attention", of(set_up(config(model={"attention": "argmax"})))).outcome == "not applicable"


def test_a_dead_head_is_named():
    about = case()
    with torch.no_grad():
        about.model.trunk.decoder.blocks[1].residuals[0].inner.output.weight[:, :8].zero_()
    finding = found("attention", about)
    assert finding.outcome == "warn" and "layer 1, head 0" in finding.found


def test_heads_that_score_everything_alike_are_dead():
    about = case()
    with torch.no_grad():
        about.model.trunk.decoder.blocks[0].residuals[0].inner.projections.query.weight.zero_()
    assert "dead" in found("attention", about).found


def test_most_heads_saturated_after_training_is_told():
    about = case(when="after", step=300)
    assert found("attention", about).outcome == "pass"
    with torch.no_grad():
        for layer in about.model.trunk.decoder.attentions():
            layer.projections.query.weight.mul_(2000)
    assert found("attention", about).outcome == "warn"


# after training


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run that learns its small corpus."""
    changes = {
        "training": {
            "budget": {"steps": 250},
            "optimizer": {"kind": "adamw", "learning_rate": 5e-3},
            "evaluate_every": 250,
            "checkpoint_every": 250,
        }
    }
    folder = tmp_path_factory.mktemp("run") / "run"
    run = train(small_run.config(shared(), **changes), folder)
    return of(run.session, when="after", folder=folder, step=run.state.step)


def test_a_healthy_run_passes_what_comes_after(trained):
    outcomes = {one.check: (one.outcome, one.found) for one in run_checks(trained)}
    assert {name for name, (outcome, _) in outcomes.items() if outcome in ("warn", "fail")} == set(), outcomes


def test_an_input_that_does_not_matter_is_told(trained):
    assert found("inputs_matter", trained).number > 0.5
    blind = copy.deepcopy(trained.model)
    stack = blind.trunk.decoder
    forward = stack.embedding.forward
    stack.embedding.forward = lambda ids, *rest: forward(torch.zeros_like(ids), *rest)
    finding = found("inputs_matter", replace(trained, model=blind))
    assert finding.outcome == "warn" and finding.number < 0.05


def test_a_source_that_is_never_read_is_told():
    about = case("seq2seq", when="after", step=300)
    with torch.no_grad():
        for block in about.model.trunk.decoder.blocks:
            block.residuals[1].inner.output.weight.zero_()
    finding = found("inputs_matter", about)
    assert finding.outcome == "warn" and "another source" in finding.meaning


def test_weights_that_stayed_and_frozen_ones_that_moved_are_named(trained):
    initial = trained.initial
    still = copy.deepcopy(trained.model)
    name = "trunk.decoder.blocks.0.residuals.1.inner.part.up.weight"
    with torch.no_grad():
        dict(still.named_parameters())[name].copy_(dict(initial().named_parameters())[name])
    finding = found("moved", replace(trained, model=still))
    assert finding.outcome == "warn" and name in finding.found
    frozen = copy.deepcopy(trained.model)
    dict(frozen.named_parameters())[name].requires_grad_(False)
    finding = found("moved", replace(trained, model=frozen))
    assert finding.outcome == "fail" and name in finding.found
    assert found("moved", replace(trained, model=initial())).outcome == "fail"


def test_what_an_argmax_cannot_teach_may_stay(tmp_path):
    run = train(config(model={"attention": "argmax"}), tmp_path / "run")
    assert found("moved", of(run.session, when="after", step=12)).outcome == "pass"


def metrics(folder, norms):
    step = {"event": "stepped", "loss": 2.0, "tokens": 9, "seconds": 0.1, "progress": 0.5}
    lines = (json.dumps(step | {"step": n, "gradient": norm}) + "\n" for n, norm in enumerate(norms))
    (folder / "metrics.jsonl").write_text("".join(lines))
    return folder


@pytest.mark.parametrize(
    ("norms", "words"),
    [
        ([0.5] * 49 + [400.0], "exploded"),
        ([1e-9] * 50, "vanished"),
        ([25.0, 31.0] * 25, "cut to a fraction"),
    ],
)
def test_gradients_out_of_range_are_named(tmp_path, norms, words):
    finding = found("ranges", case(when="during", folder=metrics(tmp_path, norms), step=50))
    assert finding.outcome == "warn" and words in finding.meaning


def test_gradients_that_shrink_as_labels_are_learnt_are_no_explosion(tmp_path):
    norms = [8.0] * 20 + [1e-3] * 100
    about = case("classification", when="during", folder=metrics(tmp_path, norms), step=120)
    assert found("ranges", about).outcome == "pass"
    metrics(tmp_path, [*norms, 900.0])
    assert "exploded" in found("ranges", about).meaning


def test_usual_gradients_pass_and_the_share_of_clipped_steps_is_told(tmp_path):
    finding = found("ranges", case(when="during", folder=metrics(tmp_path, [0.5, 1.5] * 50), step=100))
    assert finding.outcome == "pass" and "50% clipped" in finding.found


def test_huge_and_dead_activations_are_named():
    about = case(when="during")
    part = about.model.trunk.decoder.blocks[1].residuals[1].inner.part
    with torch.no_grad():
        part.up.weight.mul_(1e6)
    assert found("ranges", about).outcome == "warn"
    with torch.no_grad():
        part.up.weight.zero_()
    finding = found("ranges", about)
    assert finding.outcome == "warn" and "blocks.1.residuals.1" in finding.found
