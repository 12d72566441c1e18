"""Figures and tables for a paper: what they show is what the report shows, and what is invalid says so."""

import csv
import io
import json
import re
from importlib.util import find_spec
from xml.etree import ElementTree

import pytest

from attnlab.documents.latex import csv_table, escaped, latex_table
from attnlab.documents.nodes import Axis, Heat, Level, Line, Lines, Number, Table, TableColumn
from attnlab.documents.print_drawings import FONT, WIDTH, as_pdf, as_svg, drawing_of, plain_tick
from attnlab.documents.print_maps import map_drawing
from attnlab.studies.report.paper import write_paper
from tests.session.commands import answer, command
from tests.studies import results
from tests.studies.results import five_arms, outcome

CHART = Lines(
    [
        Line(
            "dot", [1, 2, 3, 4], [4.0, 3.0, None, 2.0], low=[3.9, 2.9, None, 1.9], high=[4.1, 3.1, None, 2.1]
        ),
        Line("a & b", [1, 4], [5.0, 1.0]),
    ],
    Axis("step"),
    Axis("dev loss"),
    levels=[Level("unigram", 3.5)],
)


def test_a_curve_is_drawn_where_its_numbers_are():
    """Equal steps are equally far apart, and a point lies as high as its value says."""
    svg = as_svg(drawing_of(CHART))
    lines = [
        [tuple(map(float, point.split(","))) for point in points.split()]
        for points in re.findall(r'<polyline points="([^"]+)"[^>]*stroke="#(?:33363d|0072b2)"', svg)
    ]
    curve, other = (line for line in lines if len(line) > 1 and line[0][1] != line[-1][1])
    (x1, y1), (x2, y2), (x4, y4) = curve
    assert x4 - x2 == pytest.approx(2 * (x2 - x1), abs=0.05)
    scale = (y2 - y1) / (4.0 - 3.0)
    assert y4 - y2 == pytest.approx(scale * (3.0 - 2.0), abs=0.05)
    assert other[-1][1] - other[0][1] == pytest.approx(4 * scale, abs=0.05)
    assert f'width="{WIDTH}pt"' in svg and f'font-size="{FONT:g}"' in svg.replace("8.0", "8")
    assert "var(--" not in svg and "a &amp; b" in svg, "it needs no page around it"
    assert len(ElementTree.fromstring(svg).findall("{http://www.w3.org/2000/svg}polygon")) == 1, "the band"


def test_a_pdf_is_a_page_of_its_size_with_its_font():
    pytest.importorskip("reportlab")
    drawing = drawing_of(CHART)
    pdf = as_pdf(drawing, "Curves")
    (box,) = re.findall(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", pdf)
    assert (float(box[0]), float(box[1])) == (WIDTH, pytest.approx(drawing.height, abs=0.01))
    assert b"/FontFile2" in pdf, "embedded, as publishers ask"
    assert pdf == as_pdf(drawing, "Curves"), "the same figure is the same file"


@pytest.mark.parametrize(("value", "text"), [(1e6, "1e6"), (1e-5, "1e-5"), (5.0, "5")])
def test_powers_are_written_in_signs_that_fonts_have(value, text):
    assert plain_tick(value, Axis(log=value != 5.0)) == text


TABLE = Table(
    ["arm", TableColumn("loss_1", right=True)],
    [("a_b & c", Number(1.23456, 1.2, 1.3)), ("zero 50%", Number(0.5, 0.4, 0.6, sound=False))],
)


def test_a_table_in_latex_is_text_and_marks_what_is_invalid():
    tex = latex_table(TABLE, "Losses of 100%", "losses")
    assert r"a\_b \& c & 1.23" in tex and r"arm & loss\_1 \\" in tex and r"\caption{Losses of 100\%}" in tex
    assert re.search(r"zero 50\\% & 0\.5.*\(invalid\) \\\\", tex) and r"\begin{tabular}{lr}" in tex
    assert escaped("\\{x}^~$#") == r"\textbackslash{}\{x\}\textasciicircum{}\textasciitilde{}\$\#"


def test_a_table_in_csv_has_every_digit_and_says_what_is_not_sound():
    rows = list(csv.DictReader(io.StringIO(csv_table(TABLE))))
    assert rows[0] == {
        "arm": "a_b & c",
        "loss_1": "1.23456",
        "loss_1 low": "1.2",
        "loss_1 high": "1.3",
        "sound": "true",
    }
    assert rows[1]["sound"] == "false"


def test_every_table_and_figure_of_a_report_is_written(tmp_path):
    """The numbers of its table are those of the study to the last digit."""
    study = outcome(five_arms())
    kinds = ("svg", "pdf") if find_spec("reportlab") else ("svg",)
    written = write_paper(study, tmp_path / "paper", pdf="pdf" in kinds)
    files = {file.name for file in (tmp_path / "paper").iterdir()}
    assert files == {f"{n}.{s}" for n in written.figures for s in kinds} | {
        f"{n}.{s}" for n in written.tables for s in ("tex", "csv")
    }
    assert not written.screen_only and "attention-layer-0-head-0" in written.figures
    sheet = (tmp_path / "paper" / "how-well.csv").read_text()
    rows = {row["arm"]: row for row in csv.DictReader(io.StringIO(sheet))}
    for arm in study.arms:
        if "loss" in arm.scores:
            assert float(rows[arm.name]["dev loss"]) == arm.scores["loss"].value
            assert float(rows[arm.name]["dev loss low"]) == arm.scores["loss"].low
    assert rows["zero"]["sound"] == "false" and rows["dot"]["sound"] == "true"
    forest = (tmp_path / "paper" / "result.svg").read_text()
    assert all(f">{arm.name}<" in forest for arm in study.arms[1:])


def test_a_map_is_as_dark_as_its_weights_on_one_scale_for_all_arms():
    weights = [[1.0, None, None], [0.25, 0.5, None], [0.001, 0.2, 0.1]]
    maps = [Heat(["the", "<cat>", "sat"], rows, 1.0) for rows in (weights, [[0.5] * 3] * 3)]
    svg = as_svg(map_drawing(maps, ["dot", "zero"]))
    cells = re.findall(r'<polygon points="([^"]+)" fill="[^"]+" fill-opacity="([\d.]+)"', svg)
    shades = [float(shade) for _, shade in cells]
    assert shades[:5] == [1.0, 0.25, 0.5, 0.2, 0.1], "0.001 is not seen"
    assert shades[5:14] == [0.5] * 9 and shades[14:] == [0.2, 0.4, 0.6, 0.8, 1.0], "then the key"
    corners = [[tuple(map(float, at.split(","))) for at in points.split()] for points, _ in cells[:5]]
    (first, below, beside) = (corner[0] for corner in corners[:3])
    assert first[0] == below[0] and below[1] == beside[1], "rows are queries, columns keys"
    assert below[1] - first[1] == pytest.approx(beside[0] - below[0])
    strokes = re.findall(r'<polyline points="[^"]+" fill="none" stroke="#cccccc"', svg)
    assert len(strokes) == 3, "pairs that the mask forbids"
    assert "&lt;cat&gt; 1" in svg and ">dot<" in svg and ">zero<" in svg
    every = [float(at.split(",")[0]) for points, _ in cells for at in points.split()]
    assert min(every) >= 0 and max(every) <= WIDTH


def test_hostile_names_stay_text(tmp_path):
    written = write_paper(outcome(results.hostile()), tmp_path / "paper", pdf=False)
    for name in written.figures:
        assert "<script" not in (tmp_path / "paper" / f"{name}.svg").read_text()
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in (*written.figures, *written.tables))


def test_the_command(tmp_path):
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "results.json").write_text(json.dumps(outcome(five_arms()).as_json()))
    said = answer("report", tmp_path / "study", "--to", tmp_path / "paper", "--no-pdf")
    assert "how-well" in said["tables"] and (tmp_path / "paper" / f"{said['figures'][0]}.svg").is_file()
    assert not list((tmp_path / "paper").glob("*.pdf"))
    refused = command("report", tmp_path, "--to", tmp_path / "other")
    assert "holds no results of a study" in str(refused.exception)
