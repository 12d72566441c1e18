"""The notebooks of examples/ run from top to bottom in a kernel, as a person runs them, on fewer rows."""

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples"
UNCHECKED = f"""\
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.unchecked import checked_by
checked_by().__enter__()
"""
"""The checks of a model of this size take minutes on a busy machine."""
SHORTER = {
    "attention_by_hand": {},
    "fine_tune_and_look_inside": {"EPOCHS, ROWS = 4, 300": "EPOCHS, ROWS = 1, 60"},
}


def executed(name, folder):
    """Each code cell's outputs as text, and the HTML that a notebook shows."""
    source = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    for text, shorter in SHORTER[name].items():
        assert text in source
        source = source.replace(text, shorter)
    notebook = nbformat.reads(source, as_version=4)
    nbformat.validate(notebook)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(UNCHECKED))
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": folder}}).execute()
    cells = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"][1:]
    plain = ["".join(o.get("text") or o["data"].get("text/plain", "") for o in outputs) for outputs in cells]
    rich = ["".join(o.get("data", {}).get("text/html", "") for o in outputs) for outputs in cells]
    return plain, rich


def test_every_notebook_is_executed_and_has_no_stored_output():
    files = sorted(FOLDER.glob("*.ipynb"))
    assert [file.stem for file in files] == sorted(SHORTER)
    for file in files:
        cells = nbformat.read(file, as_version=4).cells
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)


def test_attention_by_hand(tmp_path):
    plain, rich = executed("attention_by_hand", tmp_path)
    assert "scores  [3.0, 1.0, 1.0, -3.0]" in plain[1] and "argmax  [3.0, 2.0, -4.0]" in plain[1]
    assert all(number in plain[1] and number in plain[2] for number in ("1.5748", "-2.7166"))
    assert "3.,  2., -4." in plain[2]
    assert "1000 [0.104, 0.896" in plain[3] and "<" in rich[3]
    assert "-inf: Sound" in plain[5] and "zero: Leak" in plain[5]


def test_fine_tune_and_look_inside(tmp_path):
    plain, rich = executed("fine_tune_and_look_inside", tmp_path)
    assert "accuracy" in plain[1].lower() or "accuracy" in rich[1].lower()
    assert plain[2].strip().startswith("[") and plain[3].count("Prediction(") == 3
    assert "svg" in rich[4] or "iframe" in rich[4] or "table" in rich[4]
    assert plain[5].count(":") == 12
