"""Checks of a training by transformers' Trainer: `Trainer(..., callbacks=[Soundness()])`."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sized
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel, TrainerCallback

from attnlab.checks.contamination import Contamination
from attnlab.checks.module_subject import Claim, Forward
from attnlab.interop.given_texts import contamination
from attnlab.interop.loop_checks import LoopChecks, harmless
from attnlab.interop.module_checks import guarded_finding
from attnlab.runs.findings import Finding, Findings


class Soundness(TrainerCallback):
    """Checks a Trainer's run: before the first step, at each evaluation, and at its end.

    What is found stands in checks.json of the output folder, and what is bad is warned of. With `stop` a
    check that fails before the first step raises UnsoundError, unless its name is in `allow`; without it
    nothing that goes wrong in a check ends the training. `data` are the data sets to compare (train, dev,
    test) where they are not the Trainer's own. A module of your own may need `vocabulary` (how many tokens it
    knows), `forward(model, ids)`, which gives its scores, and the `mask` that it claims.
    """

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        stop: bool = False,
        allow: Collection[str] = (),
        vocabulary: int | None = None,
        mask: Claim | None = None,
        forward: Forward | None = None,
        data: Mapping[str, Iterable[Any]] | None = None,
        pretrained: bool | None = None,
    ):
        self.folder, self.data, self.pretrained = folder, data, pretrained
        self.stop = stop
        self.settings: dict[str, Any] = {"stop": stop, "allow": allow, "mask": mask}
        self.settings |= {"vocabulary": vocabulary, "forward": forward}
        self.checks: LoopChecks | None = None
        self.compared = data is not None

    @property
    def findings(self) -> Findings:
        return Findings() if self.checks is None else self.checks.findings

    @property
    def unsound(self) -> list[str]:
        """The checks that failed."""
        return [] if self.checks is None else self.checks.unsound

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        place = args.output_dir if self.folder is None else self.folder
        self.checks = LoopChecks(place, **self.settings)
        self.checks.before(
            given["model"],
            tokenizer=given.get("processing_class"),
            data=self.data,
            pretrained=self.pretrained,
        )

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        if self.checks is not None:
            self.checks.stepping()

    def on_evaluate(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self._evaluated(int(state.global_step), given)

    @harmless
    def _evaluated(self, step: int, given: Mapping[str, Any]) -> Findings:
        if self.checks is None:
            return Findings()
        if not self.compared and self.checks.tells:
            self.compared = True
            self.checks.add(self._compared(given))
        return self.checks.evaluated(step)

    def _compared(self, given: Mapping[str, Any]) -> list[Finding]:
        """The Trainer's own data sets, once an evaluation has shown the second."""
        loaders = {"train": given.get("train_dataloader"), "dev": given.get("eval_dataloader")}
        sets = {name: getattr(loader, "dataset", None) for name, loader in loaders.items()}
        data = {name: rows_of(rows) for name, rows in sets.items() if isinstance(rows, Sized)}
        with torch.random.fork_rng():  # rows may be made with random numbers
            work = partial(contamination, data, given.get("processing_class"))
            return [guarded_finding(Contamination(), "before", work)]

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        if self.checks is None:
            return
        model = given["model"]
        reload = saved_and_loaded(model) if isinstance(model, PreTrainedModel) else None
        self.checks.finish(int(state.global_step), reload=reload)


def rows_of(rows: Any) -> Iterator[Any]:
    """The rows of a data set that may only be indexed."""
    return (rows[number] for number in range(len(rows)))


def saved_and_loaded(model: PreTrainedModel) -> Any:
    """Saves the model as transformers does, and gives what it loads from there."""

    def reload() -> nn.Module:
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            loaded: nn.Module = type(model).from_pretrained(folder)
            return loaded

    return reload
