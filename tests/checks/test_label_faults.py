"""What goes wrong with labels is named by its check; healthy counterparts are not."""

import copy
import json
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlab.checks.check import run_checks
from attnlab.checks.inputs_matter import InputsMatter
from attnlab.data.rows import in_memory
from attnlab.evaluation.evaluator import Evaluator
from attnlab.tasks import TASKS
from attnlab.tasks.labelled import summed
from tests.checks.cases import case, config, found, of, shared
from tests.training import small_run
from tests.training.small_run import set_up, train

LABELLED = [name for name in TASKS if "classification" in TASKS[name].heads]
"""The tasks of one label a text; faults of answers are in test_answers.py."""


def judged(about, split="dev"):
    """The case after its model was asked for all of a split."""
    loader = about.dataset.loader(split, seed=0)
    task = about.task
    examples = Evaluator(model=about.model, task=task, loader=loader, seed=0)().examples
    return replace(about, examples=examples, predictions=task.target.predictions(examples, task.labels))


def with_task(about, **methods):
    """The case with a task that does some things otherwise."""
    task = copy.copy(about.task)
    task.__class__ = type(type(task).__name__, (type(task),), methods)
    return replace(about, task=task)


def oracle(said_for, skill=0.9):
    """Answers with what `said_for` makes of the right label, mostly."""

    def head_outputs(self, head, hidden, prepared):
        classes = self.labels.outputs
        draw = torch.Generator().manual_seed(int(prepared.ids.sum()))
        said = torch.tensor([said_for(label) for label in prepared.targets.tolist()])
        at_random = torch.rand(len(said), generator=draw) > skill
        said = torch.where(at_random, torch.randint(classes, said.shape, generator=draw), said)
        return {"probabilities": F.one_hot(said, classes) * 0.5 + 0.5 / classes}

    return head_outputs


# ---------------------------------------------------------------- what a model says


def test_a_collapsed_model_is_named():
    about = case("classification", when="after")
    with torch.no_grad():
        about.model.head.scores.weight.zero_()
        about.model.head.scores.bias.copy_(torch.tensor([0.0, 0.0, 3.0, 0.0, 0.0]))
    about = judged(about)
    name = about.task.labels.names[2]
    collapse, majority = found("collapse", about), found("majority", about)
    assert collapse.outcome == "fail" and f"1 of 5 classes are predicted: “{name}” 100%" in collapse.found
    assert majority.outcome == "fail" and "always predicting" in majority.found


@pytest.mark.parametrize("swap", [(1, 0, 2, 3, 4), (4, 3, 2, 1, 0)], ids=["two", "reversed"])
def test_a_label_swapped_model_is_named(swap):
    about = with_task(case("classification", when="after"), head_outputs=oracle(swap.__getitem__))
    finding = found("majority", judged(about, "train"))
    assert finding.outcome == "fail" and "swapped or permuted" in finding.meaning
    names = about.task.labels.names
    assert (
        f"“{names[0]}” → “{names[swap[0]]}”" in finding.found
        or f"“{names[swap[0]]}” → “{names[0]}”" in finding.found
    )


def test_a_score_below_chance_is_named():
    """Each class is always called the next one but one, or the one after that: no renaming mends it."""
    about = case("classification", when="after")
    turn = iter(range(10**6))
    about = with_task(about, head_outputs=oracle(lambda label: (label + 1 + next(turn) % 3) % 5, skill=1.0))
    finding = found("majority", judged(about))
    assert finding.outcome == "fail" and "than by chance" in finding.meaning


def test_a_skilled_model_passes():
    about = judged(with_task(case("classification", when="after"), head_outputs=oracle(int)))
    assert {found(name, about).outcome for name in ("majority", "collapse", "examples")} <= {
        "pass",
        "not applicable",
    }


def test_while_a_run_goes_on_it_is_told_and_at_the_end_it_fails():
    about = case("classification", when="evaluation")
    with torch.no_grad():
        about.model.head.scores.weight.zero_()
    about = judged(
        replace(
            about,
            evaluator=Evaluator(
                model=about.model, task=about.task, loader=about.dataset.loader("dev", seed=0), seed=0
            ),
        )
    )
    early, late = found("collapse", about), found("collapse", replace(about, when="after"))
    assert early.outcome == "warn" and early.meaning.startswith("So far") and late.outcome == "fail"


def test_numbers_no_better_than_the_mean_are_named():
    about = case("regression", when="after")
    with torch.no_grad():
        about.model.head.scores.weight.zero_()
        about.model.head.scores.bias.zero_()
    finding = found("majority", judged(about))
    assert finding.outcome == "fail" and "always predicting the mean" in finding.meaning

    def backwards(self, head, hidden, prepared):
        return {"predicted_number": self.in_unit(-prepared.targets)}

    opposed = found("majority", judged(with_task(about, head_outputs=backwards)))
    assert opposed.outcome == "fail" and "may belong to other rows" in opposed.meaning

    def right(self, head, hidden, prepared):
        return {"predicted_number": self.in_unit(prepared.targets) + 0.1}

    assert found("majority", judged(with_task(about, head_outputs=right))).outcome == "pass"


# ---------------------------------------------------------------- leaks


def test_test_rows_among_the_training_rows_are_named(tmp_path):
    rows = [json.loads(line) for line in small_run.labelled(shared()).read_text().splitlines()]
    files = {"train": rows, "dev": rows[:40], "test": rows[40:70]}
    for name, held in files.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in held))
    chosen = config(
        "classification", data={"corpus": {"kind": "files", "path": str(tmp_path), "label": "verb"}}
    )
    finding = found("contamination", of(set_up(chosen)))
    assert finding.outcome == "fail" and "the same text" in finding.meaning
    assert "40 of 40 texts are equal" in finding.found and "30 of 30 texts are equal" in finding.found


class Company(nn.Module):
    """A head whose scores depend on the rest of the batch: normalised over its rows."""

    scores_words = False

    def __init__(self, inner):
        super().__init__()
        self.inner, self.classes = inner, inner.classes

    def forward(self, hidden, tokens):
        scores = self.inner(hidden, tokens)
        return scores - 0.1 * scores.mean(0)

    def flops(self, positions):
        return self.inner.flops(positions)


class Padded(Company):
    """A head that takes its mean over padding too."""

    def forward(self, hidden, tokens):
        return self.inner.scores(hidden.mean(1))


@pytest.mark.parametrize("head", [Company, Padded])
@pytest.mark.parametrize("task", LABELLED)
def test_scores_that_depend_on_the_batch_are_named(head, task):
    about = case(task)
    about.model.head = head(about.model.head)
    finding = found("invariance", about)
    assert finding.outcome == "fail" and "depends on the batch" in finding.meaning
    assert found("recomputed_loss", about).outcome == "fail"


# ---------------------------------------------------------------- labels and losses


@pytest.mark.parametrize("task", LABELLED)
def test_labels_shifted_by_one_row_are_named(task):
    about = case(task)
    dataset = copy.copy(about.dataset)
    examples = list(dataset.splits.read("train"))
    moved = [replace(a, label=b.label) for a, b in zip(examples, examples[1:] + examples[:1], strict=True)]
    rows = in_memory(dataset._encoding().rows(moved), vocabulary=dataset.tokenizer.size)
    dataset._rows = {**dataset._rows, "train": rows}
    finding = found("targets", replace(about, dataset=dataset))
    assert finding.outcome == "fail" and "labels of other texts" in finding.meaning and finding.number > 0.1


def halved(self, scores, prepared, training):
    found = type(self).__mro__[1].score_loss(self, scores, prepared, training)
    return replace(found, total=found.total / 2, each=None if found.each is None else found.each / 2)


def of_means(self, scores, prepared, training):
    """A mean over the batch where a sum is due: batches of other sizes weigh too much."""
    found = type(self).__mro__[1].score_loss(self, scores, prepared, training)
    return replace(found, total=found.total / len(scores))


@pytest.mark.parametrize("fault", [halved, of_means])
@pytest.mark.parametrize("task", LABELLED)
def test_a_loss_that_divides_wrongly_is_named(task, fault):
    finding = found("recomputed_loss", with_task(case(task), score_loss=fault))
    assert finding.outcome == "fail" and "not the cross-entropy" in finding.meaning


def smoothed(self, scores, prepared, training):
    return summed(F.cross_entropy(scores, prepared.targets, reduction="none", label_smoothing=0.1))


def smoothed_in_training(self, scores, prepared, training):
    if training:
        return smoothed(self, scores, prepared, training)
    return summed(F.cross_entropy(scores, prepared.targets, reduction="none"))


@pytest.mark.parametrize("fault", [smoothed, smoothed_in_training])
def test_smoothing_in_a_reported_loss_is_named(fault):
    finding = found("recomputed_loss", with_task(case("classification"), score_loss=fault))
    assert finding.outcome == "fail" and "keep smoothing" in finding.fix


@pytest.mark.parametrize("options", [{"smoothing": 0.2}, {"class_weights": "balanced"}])
def test_smoothing_and_weights_as_they_should_be_pass(options):
    settings = small_run.for_task("classification", shared())
    about = of(
        set_up(small_run.config(shared(), **settings | {"task": {"kind": "classification", **options}}))
    )
    for name in ("recomputed_loss", "first_loss", "accumulation"):
        assert found(name, about).outcome == "pass", name


def test_an_untrained_model_loses_as_much_as_one_that_knows_nothing():
    about = case("classification")
    finding = found("first_loss", about)
    assert finding.outcome == "pass" and "expected before training 1.61" in finding.found  # ln 5
    with torch.no_grad():
        about.model.head.scores.weight.mul_(100)
    assert found("first_loss", about).outcome == "warn"


def told_the_answer(self, head, hidden, prepared):
    return 20.0 * F.one_hot(prepared.targets, self.labels.outputs).to(hidden) + 0 * hidden.sum()


def test_an_answer_in_sight_is_named():
    finding = found("first_loss", with_task(case("classification"), scores=told_the_answer))
    assert finding.outcome == "fail" and "the target is visible" in finding.meaning


# ---------------------------------------------------------------- inputs and saving


class Deaf(Company):
    """A head that the text does not reach."""

    def forward(self, hidden, tokens):
        return self.inner(torch.ones_like(hidden), tokens)


@pytest.mark.parametrize("task", LABELLED)
def test_an_input_that_does_not_arrive_is_named(task):
    about = case(task)
    about.model.head = Deaf(about.model.head)
    finding = found("overfit", about)
    assert finding.outcome == "fail" and "an input that does not reach the model" in finding.fix
    after = found("inputs_matter", replace(about, when="after", step=400))
    assert after.outcome == "warn" and "how often labels occur" in after.meaning


def test_many_labels_are_learnt_by_heart(tmp_path):
    """More classes than a row has places."""
    rows = [{"text": f"{small_run.WHO[n % 6]} {n}", "who": [f"c{n % 25}", f"d{n % 3}"]} for n in range(150)]
    file = tmp_path / "many.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    corpus = {"kind": "files", "path": str(file), "label": "who"}
    about = of(set_up(config("multilabel", data={"corpus": corpus})))
    assert about.task.labels.outputs == 28 and found("overfit", about).outcome == "pass"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifier") / "run"
    longer = {"training": {"budget": {"steps": 30}, "optimizer": {"kind": "adamw", "learning_rate": 1e-2}}}
    made = train(config("classification", **longer), folder)
    return of(made.session, when="after", folder=folder, step=made.state.step)


def test_a_healthy_run_is_quiet(trained):
    names = ("reload", "tensors", "tokenizer", "recomputed_loss", "majority", "collapse", "parameters")
    findings = run_checks(judged(trained), names)
    assert {one.check: one.outcome for one in findings} == dict.fromkeys(names, "pass")


def test_a_head_that_is_lost_on_reload_is_named(trained):
    broken = copy.deepcopy(trained.model)
    broken.head.scores.weight = nn.Parameter(broken.head.scores.weight.detach() + 0.25)  # never saved
    finding = found("reload", replace(trained, model=broken))
    assert finding.outcome == "fail" and "differ by up to" in finding.found


def test_swapped_labels_are_not_said_to_be_an_input_that_does_not_matter():
    """The input matters: what was learned of it is the opposite."""
    check = InputsMatter()
    others = {"with shuffled inputs": 1.0, "with blank inputs": 0.9}
    swapped = check.judge("after", 3.0, others, 64, "labels")
    assert (swapped.outcome, swapped.kind) == ("warn", "misleading") and "`majority`" in swapped.fix
    assert check.judge("after", 0.95, others, 64, "labels").kind == "ignored"
    assert check.judge("after", 0.2, others, 64, "labels").kind == "used"
