"""Scale: what does dividing the scores by √d do?

Set-up: a small decoder (mini-gpt: words, sentences cut at 100 tokens, about 1.4 million
parameters), one epoch of the embedded Python documentation. One arm divides the scores by the root of
the head's width (√24), the other does not. One wider head (d = 96) is added in both forms, since the
variance of a score grows with d. Besides the loss, each evaluation records how saturated attention is:
the mean largest weight of a query (1 when it looks at one token alone) and the mean entropy.

Hypothesis: unscaled scores of wide heads saturate the softmax, whose gradient then vanishes: attention
is sharp from the start and learns where to look more slowly. At d = 24, from small initial weights, the
difference is small.

How to read it: the curves "largest weight", "entropy" and "gradient norm", and the dev loss.

Time: four arms × 5 seeds take about half an hour on two cores; --quick about four minutes.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from attnlab.metrics.measures import Measure
from attnlab.studies.extras import Extras, Notes, OwnMeasures
from attnlab.studies.spec import Quick, Study

if TYPE_CHECKING:
    from attnlab.model.model import Model
    from attnlab.runs.events import Event, Listener
    from attnlab.session.session import Session
    from attnlab.session.trained import Trained

ROWS = 8  # dev texts by which saturation is judged
UNSCALED = "dot(scale=1.0)"


def study() -> Study:
    return Study(
        question="What does dividing attention scores by √d do?",
        hypothesis="Without it wide heads saturate, and learn where to look more slowly.",
        base="mini-gpt",
        arms={
            "scaled": {"model.attention": "dot"},
            "unscaled": {"model.attention": UNSCALED},
            "wide-scaled": {"model.attention": "dot", "model.heads": 1},
            "wide-unscaled": {"model.attention": UNSCALED, "model.heads": 1},
        },
        set={"training.evaluate_every": 50},
        quick=Quick(seeds=3, budget={"tokens": 100_000}, set={"training.evaluate_every": 20}),
        extras="attnlab.studies.builtin.scale:Saturation",
    )


class Saturation(Extras):
    """How sharp attention is, at each evaluation and at the end."""

    metrics: ClassVar[dict[str, Measure]] = {
        "largest_weight": Measure(
            "mean over layers, heads and queries of a query's largest weight", "higher"
        ),
        "entropy": Measure(
            "mean entropy of a query's weights, in nats, over layers, heads and queries", "higher"
        ),
    }

    def watch(self, session: Session, folder: Path) -> Iterable[Listener]:
        from attnlab.runs.events import Evaluated

        rows, notes = texts(session), Notes(folder)

        def listen(event: Event) -> None:
            if isinstance(event, Evaluated):
                notes.add(event.step, **saturation(session.model, rows))

        return [listen]

    def measure(self, trained: Trained) -> OwnMeasures:
        curves = Notes(trained.folder).curves()
        last = {name: curve["value"][-1] for name, curve in curves.items()}
        return OwnMeasures(last, {name.replace("_", " "): curve for name, curve in curves.items()})


def texts(session: Session) -> list[list[int]]:
    """Some dev texts, the same for every run."""
    rows = session.dataset.rows("dev")
    return [rows.ragged("ids", row).tolist() for row in range(min(ROWS, len(rows)))]


def saturation(model: Model, rows: list[list[int]]) -> dict[str, float]:
    """The mean largest weight and entropy over rows, layers, heads and queries."""
    import torch

    from attnlab.explain.attention_maps import attention_weights

    device = next(model.parameters()).device
    largest, entropies = [], []
    for row in rows:
        for weights in attention_weights(model, torch.tensor([row], device=device)):
            seen = weights[:, :, 1:]  # the first token has only itself to look at
            largest.append(seen.amax(-1).flatten())
            entropies.append(torch.special.entr(seen).sum(-1).flatten())
    return {
        "largest_weight": float(torch.cat(largest).double().mean()),
        "entropy": float(torch.cat(entropies).double().mean()),
    }
