"""Checks of a training loop that is not ours: before its first step, at each evaluation, and at its end.

checks = LoopChecks("out", stop=True)
checks.before(model, data={"train": texts, "dev": others})
for batch in batches:
    loss_of(model, batch).backward()
    checks.stepping()            # gradients are there, the optimizer has not moved yet
    optimizer.step()
checks.evaluated(step, labels=labels, predicted=predicted)
checks.finish(step)

Under torchrun every process makes the same calls: the first checks the model and tells, all are compared.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence, Sized
from dataclasses import replace
from pathlib import Path
from typing import Any, ParamSpec

import numpy as np
import torch
from torch import Tensor, nn

from attnlab.checks.accumulation import Accumulation
from attnlab.checks.check import EARLY
from attnlab.checks.contamination import Contamination
from attnlab.checks.first_loss import FirstLoss
from attnlab.checks.inputs_matter import InputsMatter, mixed
from attnlab.checks.module_subject import Claim, claimed_mask, item_of, scores_of
from attnlab.checks.moved import Moved
from attnlab.checks.processes import Processes
from attnlab.checks.reload import Reload
from attnlab.checks.subject import UnaskableError
from attnlab.checks.targets import Targets, shifted
from attnlab.checks.word_baseline import WordBaseline
from attnlab.config.values import ConfigError
from attnlab.data.example import Example
from attnlab.interop.given_texts import contamination
from attnlab.interop.loop_processes import LoopProcesses
from attnlab.interop.module_checks import OF_MODULES, check_module, guarded_finding
from attnlab.interop.observing import FedTexts, Observer, Part, SeenCall, UnsoundWarning
from attnlab.model.isolation import undisturbed
from attnlab.model.losses import IGNORE
from attnlab.runs.faults import UnsoundError
from attnlab.runs.findings import (
    BAD,
    Finding,
    Findings,
    Outcome,
    When,
    failed_checks,
    merge_findings,
    save_findings,
)
from attnlab.targets.predictions import judge, provisional

NUMBERS = 4096
"""Numbers of each tensor that are remembered, to see what moved."""
ROWS = 16
LENGTH, WHOLE = 8, 64
KEY_BIASES = ("key.bias", "k_proj.bias", "k_lin.bias")
"""Biases that a softmax ignores: no gradient reaches them but rounding."""


LOOKS = (1000, 2000)
"""Texts after which it is asked whether what they are taught goes with their words."""
P = ParamSpec("P")


def harmless(method: Callable[P, Findings]) -> Callable[P, Findings]:
    """A moment of a loop, in which an error of attnlab's is warned of and ends nothing. With `stop` a failed
    check ends it, and so does a wrong setting."""

    @functools.wraps(method)
    def guarded(*args: P.args, **given: P.kwargs) -> Findings:
        try:
            return method(*args, **given)
        except Exception as error:
            if isinstance(error, ConfigError | UnsoundError) and getattr(args[0], "stop", False):
                raise
            message = f"attnlab could not check the training: {type(error).__name__}: {error}"
            warnings.warn(f"{message} The training goes on.", UnsoundWarning, stacklevel=2)
            return Findings()

    return guarded


class LoopChecks:
    """Checks of someone's own loop. `findings` has what they found, as has checks.json of the folder.

    With `stop` a check that fails before the first step raises UnsoundError, unless its name is in `allow`;
    otherwise it warns, and nothing that goes wrong in a check ends the loop. `vocabulary` is how many tokens
    the model knows, `forward(model, ids)` gives its scores, `mask` is what it claims to see: each is asked of
    the model where it is not given.
    """

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        stop: bool = False,
        allow: Collection[str] = (),
        vocabulary: int | None = None,
        mask: Claim | None = None,
        forward: Callable[[nn.Module, Tensor], Any] | None = None,
    ):
        self.folder = None if folder is None else Path(folder)
        self.stop, self.allow = stop, tuple(sorted(set(allow)))
        self.asked: dict[str, Any] = {"vocabulary": vocabulary, "mask": mask, "forward": forward}
        self.findings: Findings = Findings()
        self.observer = Observer()
        self.initial: dict[str, Tensor] = {}
        self.begun, self.steps, self.looks = False, 0, 0
        self.processes: LoopProcesses | None = None
        self.examples: int | None = None

    @harmless
    def before(
        self,
        model: nn.Module,
        *,
        tokenizer: Any = None,
        data: Mapping[str, Iterable[Any]] | None = None,
        pretrained: bool | None = None,
    ) -> Findings:
        """Before the loop begins: what the model depends on, padding and batch, cache, tokenizer, and what
        the given data sets share (train, dev, test: texts, or rows with `text` or `input_ids`)."""
        self.model, self.tokenizer = model, tokenizer
        self.pretrained = known_elsewhere(model) if pretrained is None else pretrained
        self.initial, self.begun, self.processes = samples(model), False, LoopProcesses.here()
        dev = None if data is None else data.get("dev")
        self.examples = len(dev) if isinstance(dev, Sized) else None
        findings = self._of_model() if self.tells else []
        if data is not None and self.tells:
            work = functools.partial(contamination, data, tokenizer)
            findings.append(guarded_finding(Contamination(), "before", work))
        self.observer.attach(model)
        if self.processes is not None:
            self.processes.attach(model)
        return self._add(findings)

    @property
    def tells(self) -> bool:
        """Whether this process checks the model, writes and warns: of several, the first."""
        return self.processes is None or self.processes.rank == 0

    def _of_processes(self, when: When, work: Callable[[LoopProcesses], Finding]) -> list[Finding]:
        """What is found by comparing this process with the others, where there are any."""
        if self.processes is None:
            return []
        return [guarded_finding(Processes(), when, functools.partial(work, self.processes))]

    def _of_model(self) -> list[Finding]:
        """What the model is found to do; where it cannot be asked as it is, why, and what to give."""
        given = {"tokenizer": self.tokenizer, "length": LENGTH, "whole": WHOLE, **self.asked}
        try:
            return check_module(self.model, **given)
        except ConfigError as error:
            if self.stop:
                raise
            message = f"The model is not checked: {error} The training goes on."
            warnings.warn(message, UnsoundWarning, stacklevel=5)
            return [check().unasked("before", UnaskableError(str(error))) for check in OF_MODULES]

    @harmless
    def stepping(self) -> Findings:
        """Right before the optimizer's step, when the gradients of all its batches are there. Of the first:
        targets, first loss, accumulation; later, once enough texts were seen, whether their labels go with
        their words."""
        self.steps += 1
        parts = self._parts()
        if self.begun:
            due = self.looks < len(LOOKS) and len(self.observer.fed.taught) >= LOOKS[self.looks]
            return self._labels() if due else Findings()
        self.begun = True
        words = [part for part in parts if part.taught.ndim > 1]
        mask = self.asked["mask"] or claimed_mask(self.model)
        findings = self._of_processes("before", lambda processes: processes.stepping())
        if self.tells:
            findings += [
                guarded_finding(Targets(), "before", lambda: targets(words, mask)),
                guarded_finding(FirstLoss(), "before", lambda: first_loss(parts, self.pretrained)),
                guarded_finding(Accumulation(), "before", lambda: accumulation(parts)),
            ]
        return self._add(findings)

    def _parts(self) -> list[Part]:
        """The batches of this step, where they were looked at: of several processes' those of some steps."""
        parts, self.observer.parts = self.observer.parts, []
        if self.observer.training:
            self.observer.training = self.processes is not None and self.processes.weigh(parts)
        return parts

    def _labels(self) -> Findings:
        """Whether what the texts were taught goes with their words, by those that were seen so far."""
        fed, self.looks = self.observer.fed, self.looks + 1
        work = functools.partial(labels_told, fed, self.tokenizer)
        return self._add([guarded_finding(WordBaseline(), "during", work)], self.steps)

    @harmless
    def evaluated(
        self,
        step: int,
        *,
        labels: Sequence[Hashable] | None = None,
        predicted: Sequence[Hashable] | None = None,
    ) -> Findings:
        """After an evaluation. Labels and predictions are those that the model was seen with, or given."""
        given = (labels or (), predicted or ())
        findings = self._of_processes(
            "evaluation", lambda processes: processes.evaluated(self.steps, *given, self.examples)
        )
        findings += self._of_processes("during", lambda processes: processes.read())
        if labels is None:
            labels, predicted = self._seen_predictions()
        if labels and predicted is not None and self.tells:
            findings += [provisional(finding) for finding in judge(labels, predicted)]
        if self.tells:
            findings.append(guarded_finding(InputsMatter(), "evaluation", lambda: self.inputs_matter(step)))
        self.observer.clear()
        return self._add(findings, step)

    def _seen_predictions(self) -> tuple[list[int], list[int]]:
        """Labels and predictions that the model was seen with, in all processes."""
        own = [
            torch.cat(seen).tolist() if seen else []
            for seen in (self.observer.labels, self.observer.predicted)
        ]
        every = [own] if self.processes is None else self.processes.gathered(own)
        labels, predicted = (
            [value for part in column for value in part] for column in zip(*every, strict=True)
        )
        return labels, predicted

    def inputs_matter(self, step: int) -> Finding:
        """The loss of a batch that was seen, with its own tokens, with shuffled ones, and with blank ones."""
        check = InputsMatter()
        if step < EARLY:
            return check.finding("evaluation", Outcome.NOT_APPLICABLE, "too_early", first=EARLY)
        seen = self.observer.held_out
        if seen is None or seen.labels is None:
            return check.finding("evaluation", Outcome.NOT_APPLICABLE, "not_seen")
        labels, seen = seen.labels[:ROWS], seen.rows(ROWS)
        ids = seen.ids
        blank = torch.full_like(ids, getattr(getattr(self.model, "config", None), "pad_token_id", None) or 0)
        others = {"with shuffled inputs": mixed(ids), "with blank inputs": blank}
        own = self._loss(seen)
        if own is None:
            return check.finding("evaluation", Outcome.NOT_APPLICABLE, "no_loss")
        losses = {name: self._loss(seen.with_ids(other)) or math.nan for name, other in others.items()}
        count = int((labels != IGNORE).sum())
        return check.judge("evaluation", own, losses, count, "words" if labels.ndim > 1 else "labels")

    def _loss(self, seen: SeenCall) -> float | None:
        with undisturbed(self.model) as model:
            loss = item_of(seen.answer(model), "loss")
        return None if loss is None else float(loss)

    @harmless
    def finish(self, step: int, *, reload: Callable[[], nn.Module] | None = None) -> Findings:
        """At the end: what moved, and whether the model that `reload` loads gives the same scores."""
        self.observer.detach()
        if not self.looks and self.observer.fed.taught:
            self._labels()
        findings = self._of_processes("during", lambda processes: processes.read())
        findings += self._of_processes("after", lambda processes: processes.finish(self.steps))
        if not self.tells:
            return self._add(findings, step)
        findings.append(guarded_finding(Moved(), "after", self.moved))
        if reload is not None:
            findings.append(guarded_finding(Reload(), "after", lambda: self.reloaded(reload)))
        return self._add(findings, step)

    def moved(self) -> Finding:
        if not self.begun:
            return Moved().finding("after", Outcome.NOT_APPLICABLE, "no_step")
        tuned = {name for name, parameter in self.model.named_parameters() if parameter.requires_grad}
        tables = {id(p) for m in self.model.modules() if isinstance(m, nn.Embedding) for p in m.parameters()}
        named = dict(self.model.named_parameters())
        barely = {name for name, p in named.items() if id(p) in tables or name.endswith(KEY_BIASES)}
        untaught = {name for name in named if name.endswith(KEY_BIASES)}
        return Moved().judge(
            "after", samples(self.model), self.initial, tuned, untaught=untaught, barely=barely
        )

    def reloaded(self, reload: Callable[[], nn.Module]) -> Finding:
        check = Reload()
        if self.observer.held_out is None:
            return check.finding("after", Outcome.NOT_APPLICABLE, "not_seen")
        seen = self.observer.held_out.rows(2).without_labels()
        device = next(self.model.parameters()).device
        try:
            built = reload().to(device)
        except Exception as error:  # whatever saving and loading raise
            return check.finding("after", Outcome.FAIL, "not_loaded", error=str(error))
        scores = []
        for model in (self.model, built):
            with undisturbed(model):
                output = scores_of(seen.answer(model))
            if output is None:
                return check.finding("after", Outcome.NOT_APPLICABLE, "no_scores")
            scores.append(output.cpu())
        return check.judge("after", scores[0], scores[1])

    @harmless
    def add(self, findings: Sequence[Finding]) -> Findings:
        """Findings from elsewhere, told and kept with the others."""
        return self._add(findings)

    def _add(self, given: Sequence[Finding], step: int = 0) -> Findings:
        findings = Findings(replace(finding, step=step) for finding in given)
        before = {(finding.when, finding.check): finding.outcome for finding in self.findings}
        self.findings = Findings(merge_findings(self.findings, findings))
        if self.folder is not None and self.tells:
            self.folder.mkdir(parents=True, exist_ok=True)
            save_findings(self.folder, self.findings, self.allow)
        failed = [f for f in findings if f.outcome is Outcome.FAIL and f.when == "before"]
        stopping = [f for f in failed if self.stop and f.check not in self.allow]
        if stopping:
            raise UnsoundError("\n".join(finding.sentence for finding in stopping))
        for finding in findings if self.tells else ():
            if finding.outcome in BAD and before.get((finding.when, finding.check)) != finding.outcome:
                warnings.warn(finding.sentence, UnsoundWarning, stacklevel=4)
        return findings

    @property
    def unsound(self) -> list[str]:
        return failed_checks(self.findings)


def labels_told(fed: FedTexts, tokenizer: Any) -> Finding:
    """Whether the classes that texts were taught go with their words, or with their ids where those cannot be
    decoded."""
    decode = getattr(tokenizer, "decode", None)
    texts = [decode(list(ids)) if decode else " ".join(map(str, ids)) for ids in fed.taught]
    labels = np.array([*fed.taught.values()])
    return WordBaseline().judge_labels(
        "during", [Example(text) for text in texts], labels, classes=fed.classes
    )


def known_elsewhere(model: nn.Module) -> bool:
    """Whether its first weights were learnt before: models of transformers name where they are from."""
    return bool(getattr(getattr(model, "config", None), "_name_or_path", ""))


def samples(model: nn.Module) -> dict[str, Tensor]:
    """Some numbers of each parameter and the mean of all, which moves when any of them does."""
    numbers = {}
    for name, parameter in model.named_parameters():
        flat = parameter.detach().flatten()
        step = max(flat.numel() // NUMBERS, 1)
        mean = flat.double().mean()[None] if flat.numel() else flat.double()
        numbers[name] = torch.cat([flat[::step][:NUMBERS].double(), mean]).cpu()
    return numbers


def targets(parts: Sequence[Part], mask: Claim) -> Finding:
    """What the first step teaches at each place: the next token, or the label that stands there."""
    check = Targets()
    if not parts:
        return check.finding("before", Outcome.NOT_APPLICABLE, "no_words_or_scores")
    part = parts[0]
    given = part.labels if part.labels is not None and part.labels.shape == part.taught.shape else None
    if mask == "causal" and part.ids is not None and part.ids.shape == part.taught.shape:
        return check.judge_taught("before", part.ids, part.taught, shifted(part.ids, 1), "next")
    if given is None:
        return check.finding("before", Outcome.NOT_APPLICABLE, "labels_not_seen")
    return check.judge_taught("before", given, part.taught, given, "labels")


def first_loss(parts: Sequence[Part], pretrained: bool) -> Finding:
    check = FirstLoss()
    if pretrained:
        return check.finding("before", Outcome.NOT_APPLICABLE, "learned_weights")
    if not parts or not parts[0].count or parts[0].classes < 2:
        return check.finding("before", Outcome.NOT_APPLICABLE, "no_class_scores")
    return check.judge("before", parts[0].loss, math.log(parts[0].classes), parts[0].count)


def accumulation(parts: Sequence[Part]) -> Finding:
    check = Accumulation()
    weights = [part.weight for part in parts if part.count]
    known = [weight for weight in weights if weight is not None]
    if len(known) < len(weights) or not weights:
        return check.finding("before", Outcome.NOT_APPLICABLE, "unequal_weights")
    return check.judge("before", known, [part.count for part in parts if part.count])
