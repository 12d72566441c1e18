"""Results as a notebook shows them, on its light and on its dark ground."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attnlab.runs.findings import Finding, Findings, Outcome
from tests.explain.pages import PAGES

GROUNDS = {"light": ("#ffffff", "#1f1f1f"), "dark": ("#111111", "#e0e0e0")}
STYLE = """
body {{ margin: 0; padding: 24px; background: {ground}; color: {ink}; font: 14px/1.5 system-ui, sans-serif; }}
table {{ border-collapse: collapse; font-size: 12px; }} th, td {{ padding: .5em; text-align: right; }}
tbody tr:nth-child(odd) {{ background: #8881; }}
"""  # as Jupyter and its relatives style what they show


def findings() -> Findings:
    passed: dict[str, Any] = {"when": "before", "outcome": Outcome.PASS}
    return Findings(
        [
            Finding.of_text("no weight on later tokens", check="dependency", **passed),
            Finding.of_text("weights sum to 1", check="attention", **passed),
            Finding.of_text(
                "dev accuracy 48.1%, the most frequent label gives 50.0%",
                "The model is not better than always predicting the most frequent label.",
                "Train longer or at another learning rate.",
                check="majority",
                when="after",
                outcome=Outcome.FAIL,
            ),
        ]
    )


RESULTS: dict[str, Callable[[], Any]] = {
    "findings": findings,
    **{name: PAGES[name] for name in ("scores", "heads", "reach", "query", "attention")},
}


def written(out: Path) -> Iterator[tuple[str, Path]]:
    for ground, (page, ink) in GROUNDS.items():
        for name, make in RESULTS.items():
            file = out / f"notebook-{name}-{ground}.html"
            shown = make()._repr_html_()
            style = STYLE.format(ground=page, ink=ink)
            file.write_text(
                f"<!DOCTYPE html><meta charset=utf-8><style>{style}</style>{shown}", encoding="utf-8"
            )
            yield f"notebook-{name}-{ground}", file
