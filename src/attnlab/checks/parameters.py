"""What a model's parameters are, against what its config declares."""

from __future__ import annotations

from typing import ClassVar

from torch import nn

from attnlab.checks.check import Case, Check
from attnlab.checks.tensors import saved
from attnlab.config.schema import Config
from attnlab.model.counts import parameter_terms
from attnlab.model.model import Model
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.training.checkpoint import Checkpoint, load_weights


class Parameters(Check):
    """Parameters: are there as many as declared, tied where declared, and all of them trained?

    Formula: parameters that the config ties (the token table of encoder, decoder and head) share one
    storage: in memory, and in a model that is loaded from the checkpoint; the encoder's is apart where
    sources have a vocabulary of their own. The sum of all sizes is that of the closed form, part by
    part. Without an adapter no parameter is frozen.

    When it helps: a tie that is lost by copying or loading doubles the table, and its two halves
    drift apart; a part that is frozen or there twice makes another model than the config says.

    Cannot see: ties that a part makes inside itself and does not count in its closed form.
    """

    when: ClassVar[tuple[When, ...]] = ("before", "after")
    limit: ClassVar[float] = 0.3
    same_for_seeds: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        apart = separate(case.config)
        parted = untied(case.model, separate=apart)
        if parted:
            return self.untied(case, parted, loaded=False)
        if apart and one_table(case.model):
            return self.finding(case.when, Outcome.FAIL, "one_table", 1.0)
        checkpoint = saved(case.folder, case.step)
        if isinstance(checkpoint, Checkpoint) and case.initial is not None:
            loaded = case.initial()
            load_weights(loaded, checkpoint.model)
            parted = untied(loaded, separate=apart)
            if parted:
                return self.untied(case, parted, loaded=True)
        return self.counted(case)

    def untied(self, case: Case, parted: list[str], *, loaded: bool) -> Finding:
        return self.finding(case.when, Outcome.FAIL, "untied", 1.0, names=parted, loaded=loaded)

    def counted(self, case: Case) -> Finding:
        total = sum(parameter.numel() for parameter in case.model.parameters())
        closed = closed_form(case.model)
        if closed is not None and closed != total:
            off = float(total - closed)
            return self.finding(case.when, Outcome.WARN, "miscounted", off, total=total, closed=closed)
        frozen = [name for name, one in case.model.named_parameters() if not one.requires_grad]
        if frozen and case.model.adapter is None:
            return self.finding(case.when, Outcome.WARN, "frozen", float(len(frozen)), names=sorted(frozen))
        return self.finding(case.when, Outcome.PASS, "counted", 0.0, total=total)


def closed_form(model: Model) -> int | None:
    """The number of parameters from the sizes of the parts; None where a part is none that can be counted."""
    try:
        return sum(term.count for term in parameter_terms(model))
    except (AssertionError, AttributeError):
        return None


def separate(config: Config) -> bool:
    """Whether a config asks for a table of sources beside that of targets."""
    return config.data.target_tokenizer != "shared" or config.model.source_vocabulary != "shared"


def one_table(model: Model) -> bool:
    """Whether a source is read with the table that targets are written with."""
    return len({table.weight.data_ptr() for table in model.trunk.tables()}) == 1


def untied(model: Model, *, separate: bool = False) -> list[str]:
    """The token tables that are several tensors and should be one; none where they are one. A `separate` one
    of sources is not among them."""
    own = model.trunk.tables()[:1] if separate else model.trunk.tables()
    tables: list[nn.Module] = [*own, *model.head.shared_tables()]
    names = {id(module): name for name, module in model.named_modules(remove_duplicate=False)}
    places = {parameter.data_ptr() for table in tables for parameter in table.parameters()}
    return sorted({names.get(id(table), type(table).__name__) for table in tables}) if len(places) > 1 else []
