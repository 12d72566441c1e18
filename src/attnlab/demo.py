"""`make demo`: one famous mistake, on real text, and how it shows.

Two models that differ in one setting learn Python's own documentation. One forbids the future
before the softmax (−inf), the other after it (zero): its loss is lower, and it is not real.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.panel import Panel
from rich.table import Table

from attnlab.cli.console import out
from attnlab.cli.train import bar
from attnlab.config.files import load
from attnlab.experiment.run import default_cache, train
from attnlab.experiment.trained import Trained, open_run

STEPS = 200
SETTINGS: dict[str, Any] = {
    "data.length": 64,
    "data.tokenizer": "bpe(vocabulary=4000)",
    "data.batching": "packed(rows=16)",
    "model.vocabulary": 4000,
    "model.length": 64,
    "model.width": 96,
    "model.layers": 2,
    "training.optimizer": "adamw(rate=3e-3)",
    "training.budget.steps": STEPS,
    "training.evaluate_every": "never",
}


def main() -> None:
    out.print(
        Panel(
            "Two language models learn Python's own documentation.\nThey differ in one setting: model.masking"
        )
    )
    results = Table("model.masking", "loss as usual", "loss from the prefix alone", "the lie", "verdict")
    with TemporaryDirectory() as folder:
        for masking in ("-inf", "zero"):
            trained = learned(masking, Path(folder) / masking)
            results.add_row(masking, *judged(trained))
    out.print(results)
    out.print(
        f"In nats a token, on dev text, after {STEPS} steps on the same data from the same initial weights. "
        "Weights set to zero after the softmax leave the future in its denominator: the usual loss gains "
        "from it, a text that is written token by token cannot.\n\n"
        "Next: [bold]attnlab list[/] · [bold]attnlab show linear[/] · "
        "[bold]attnlab explain counts gpt2[/] · [bold]attnlab train mini-gpt[/]",
        highlight=False,
    )


def learned(masking: str, folder: Path) -> Trained:
    """A model after a few hundred steps: enough to see the difference."""
    config = load(set=SETTINGS | {"model.masking": masking})
    out.print(f"\nmodel.masking = {masking}", style="bold", highlight=False)
    with bar(config.training.device) as listener:
        train(config, folder, cache=default_cache(), listeners=[listener])
    return open_run(folder)


def judged(trained: Trained) -> tuple[str, str, str, str]:
    """The usual loss, the honest one on the same rows, their difference, and what that means."""
    found = trained.evaluate()["honesty"]
    verdict = "[green]sound[/]" if found["sound"] else "[bold red]INVALID: sees the future[/]"
    lie = f"{abs(found['difference']):.3f} nats"
    return f"{found['usual']:.3f}", f"{found['alone']:.3f}", lie, verdict


if __name__ == "__main__":
    main()
