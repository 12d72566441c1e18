"""The study's own plots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnlab.documents.palette import Ink, ink
from attnlab.studies.report import plots
from attnlab.studies.report.study_results import StudyResults


def figures(study: StudyResults) -> dict[str, Any] | None:
    found = [f for f in study.results.get("figures") or [] if any(s.get("x") for s in f.get("series") or [])]
    if not found:
        return None
    drawn = [_plot(study, figure, f"figure-{i}") for i, figure in enumerate(found)]
    return {"plots": drawn, "figures": list(zip(found, drawn, strict=True))}


def _plot(study: StudyResults, figure: Mapping[str, Any], name: str) -> plots.Plot:
    others = [s["name"] for s in figure["series"] if study.arm(s["name"]) is None]
    lines = []
    for series in figure["series"]:
        arm = study.arm(series["name"])
        label = arm.label if arm else str(series["name"])
        colour = arm.ink if arm else _other(len(study.arms), others.index(series["name"]))
        line = plots.PlotLine(
            str(series["name"]),
            label,
            colour,
            series["x"],
            series["y"],
            series.get("low"),
            series.get("high"),
        )
        lines.append(line)
    places = sorted({x for line in lines for x in line.x})
    x = plots.axis(figure.get("x") or "", log=bool(figure.get("log_x")), at=places)
    y = plots.axis(figure.get("y") or "", log=bool(figure.get("log_y")))
    alt = f"{figure.get('title', '')}: {figure.get('y', '')} against {figure.get('x', '')}"
    legend = [plots.Legend(line.name, line.label, line.ink, study.sound(line.name)) for line in lines]
    return plots.Plot(name, alt, {"": [plots.lines(lines, x, y)]}, legend=legend)


def _other(arms: int, place: int) -> Ink:
    """What is no arm takes the colours that the arms left, dashed."""
    free = ink(arms + place)
    return Ink(free.colour, free.band, "dash")
