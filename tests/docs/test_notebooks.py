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


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """Of each notebook, what its code cells print, and the HTML that they show. One kernel runs both."""
    notebooks = {name: shortened(name) for name in SHORTER}
    cells = [cell for notebook in notebooks.values() for cell in notebook.cells]
    whole = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(UNCHECKED), *cells])
    place = {"metadata": {"path": tmp_path_factory.mktemp("notebooks")}}
    nbclient.NotebookClient(whole, timeout=300, resources=place).execute()
    return {name: (printed(notebook), drawn(notebook)) for name, notebook in notebooks.items()}


def shortened(name):
    source = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    for text, shorter in SHORTER[name].items():
        assert text in source
        source = source.replace(text, shorter)
    notebook = nbformat.reads(source, as_version=4)
    nbformat.validate(notebook)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"{name}-{number}"
    return notebook


def outputs_of(notebook):
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


def printed(notebook):
    of_cells = outputs_of(notebook)
    return ["".join(o.get("text") or o["data"].get("text/plain", "") for o in each) for each in of_cells]


def drawn(notebook):
    return ["".join(o.get("data", {}).get("text/html", "") for o in each) for each in outputs_of(notebook)]


def test_every_notebook_is_executed_and_has_no_stored_output():
    files = sorted(FOLDER.glob("*.ipynb"))
    assert [file.stem for file in files] == sorted(SHORTER)
    for file in files:
        cells = nbformat.read(file, as_version=4).cells
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)


def test_attention_by_hand(outputs):
    plain, rich = outputs["attention_by_hand"]
    assert "scores  [3.0, 1.0, 1.0, -3.0]" in plain[1] and "argmax  [3.0, 2.0, -4.0]" in plain[1]
    assert all(number in plain[1] and number in plain[2] for number in ("1.5748", "-2.7166"))
    assert "3.,  2., -4." in plain[2]
    assert "1000 [0.104, 0.896" in plain[3] and "<" in rich[3]
    assert "-inf: Sound" in plain[5] and "zero: Leak" in plain[5]


def test_fine_tune_and_look_inside(outputs):
    plain, rich = outputs["fine_tune_and_look_inside"]
    assert "accuracy" in plain[1].lower() or "accuracy" in rich[1].lower()
    assert plain[2].strip().startswith("[") and plain[3].count("Prediction(") == 3
    assert "svg" in rich[4] or "iframe" in rich[4] or "table" in rich[4]
    assert plain[5].count(":") == 12
