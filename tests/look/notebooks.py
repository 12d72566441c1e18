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
.output table {{ border-collapse: collapse; border: none; font-size: 12px; margin: 0 auto 1em; }}
.output table {{ table-layout: fixed; }}
.output td, .output th {{ text-align: right; vertical-align: middle; padding: .5em; color: {ink}; }}
.output tbody tr:nth-child(odd) {{ background: {ground}; }}
.output tbody tr:hover {{ background: #8883; }}
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


def in_notebook(shown: str, ground: str) -> str:
    """A page like that of a notebook, with one output."""
    colour, ink = GROUNDS[ground]
    style = STYLE.format(ground=colour, ink=ink)
    head = f"<!DOCTYPE html><html lang=en><meta charset=utf-8><title>Notebook</title><style>{style}</style>"
    return f"{head}<main class=output><h1 hidden>Notebook</h1>{shown}</main></html>"


def written(out: Path) -> Iterator[tuple[str, Path]]:
    for ground in GROUNDS:
        for name, make in RESULTS.items():
            file = out / f"notebook-{name}-{ground}.html"
            shown = make()._repr_html_()
            file.write_text(in_notebook(shown, ground), encoding="utf-8")
            yield f"notebook-{name}-{ground}", file
