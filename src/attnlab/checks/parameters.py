"""What a model's parameters are, against what its config declares."""

from __future__ import annotations

from collections import defaultdict
from typing import ClassVar

from torch import nn

from attnlab.checks.check import Case, Check
from attnlab.checks.tensors import saved
from attnlab.config.wording import first_few
from attnlab.model.counts import parameter_terms
from attnlab.model.model import Model
from attnlab.runs.findings import Finding, When
from attnlab.training.checkpoint import Checkpoint, load_weights


class Parameters(Check):
    """Parameters: are there as many as declared, tied where declared, and all of them trained?

    Formula: parameters that the config ties (the token table of encoder, decoder and head) share one
    storage: in memory, and in a model that is loaded from the checkpoint. The sum of all sizes is
    that of the closed form, part by part. Without an adapter no parameter is frozen.

    When it helps: a tie that is lost by copying or loading doubles the table, and its two halves
    drift apart; a part that is frozen or there twice makes another model than the config says.

    Cannot see: ties that a part makes inside itself and does not count in its closed form.
    """

    when: ClassVar[tuple[When, ...]] = ("before", "after")
    limit: ClassVar[float] = 0.3

    def run(self, case: Case) -> Finding:
        parted = untied(case.model)
        if parted:
            return self.apart(case, "in memory", parted)
        checkpoint = saved(case.folder, case.step)
        if isinstance(checkpoint, Checkpoint) and case.initial is not None:
            loaded = case.initial()
            load_weights(loaded, checkpoint.model)
            parted = untied(loaded)
            if parted:
                return self.apart(case, "after loading", parted)
        return self.counted(case)

    def apart(self, case: Case, where: str, parted: list[str]) -> Finding:
        return self.failed(
            case,
            f"{where}, what the config ties is not one tensor: {'; '.join(parted)}",
            float(len(parted)),
            meaning="The model has more parameters than its config says, and each copy learns by itself.",
            fix="Share the module, not its parameter: assigning parameters one by one unties them.",
        )

    def counted(self, case: Case) -> Finding:
        total = sum(parameter.numel() for parameter in case.model.parameters())
        closed = closed_form(case.model)
        if closed is not None and closed != total:
            return self.warned(
                case,
                f"there are {total:,} parameters, and the closed form of the parts gives {closed:,}",
                float(total - closed),
                meaning="A part is not in the config, is missing, or does not count itself: "
                "comparisons at equal parameters are wrong.",
                fix="Look at `attnlab explain counts`; a part of your own declares its sizes in "
                "parameter_terms.",
            )
        frozen = [name for name, one in case.model.named_parameters() if not one.requires_grad]
        if frozen and case.model.adapter is None:
            return self.warned(
                case,
                f"{len(frozen)} parameters are frozen, and there is no adapter: {first_few(sorted(frozen))}",
                float(len(frozen)),
                meaning="They keep their first values: a smaller model is trained than the config says.",
                fix="Let them be trained (requires_grad), or say by an adapter what is tuned.",
            )
        return self.passed(case, f"{total:,} parameters, as the closed form gives; ties hold", 0.0)


def closed_form(model: Model) -> int | None:
    """The number of parameters from the sizes of the parts; None where a part is none that can be counted."""
    try:
        return sum(term.count for term in parameter_terms(model))
    except (AssertionError, AttributeError):
        return None


def untied(model: Model) -> list[str]:
    """Which parameters are two that should be one."""
    wanted: dict[str, list[nn.Module]] = defaultdict(list)
    wanted["token tables"] += [*model.trunk.tables(), *model.head.shared_tables()]
    names = {id(module): name for name, module in model.named_modules(remove_duplicate=False)}
    found = []
    for what, modules in wanted.items():
        places = {parameter.data_ptr() for module in modules for parameter in module.parameters()}
        if len(places) > 1:
            parts = sorted({names.get(id(module), type(module).__name__) for module in modules})
            found.append(f"{what} ({', '.join(parts)})")
    return found
