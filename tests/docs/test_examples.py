"""Every example runs as it is printed, with fewer steps on a smaller text; each fits a screen or two."""

import ast
import json
import re
import sys
import threading
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.own_code import new_session
from tests.studies.here import here
from tests.training.small_run import sentences
from tests.unchecked import checked_by

FOLDER = Path(__file__).parents[2] / "examples"
SMALL = 'model.width = 16\nmodel.layers = 1\ndata.corpus = "tiny.txt"\ndata.tokenizer.vocabulary = 60'
OF_STUDY = {"SEEDS, TOKENS = 5, 200_000": "SEEDS, TOKENS = 2, 600", "model.width = 64": SMALL}
SHORTER = {
    "train_on_your_text.py": {"STEPS = 400": "STEPS = 4", '"text.txt"': '"tiny.txt"'},
    "compare_two_attentions.py": OF_STUDY
    | {'data.corpus = {{ kind = "python_docs", unit = "sentence" }}     # or a file of yours\n': ""},
    "own_attention_rule.py": OF_STUDY
    | {"assert_contract(own_attention_rule.Distance, rate=1.0)": "pass"},  # which has tests of its own
    "own_task.py": {"STEPS = 400": "STEPS = 4", "(str, list, dict, set, int, float, type)": "(int, float)"},
    "fine_tune_and_serve.py": {"EPOCHS, PORT = 4, 8000": "EPOCHS, PORT = 1, 0", "range(120)": "range(20)"},
    "test_transformers_model.py": {},
    "trainer_callback.py": {
        "STEPS, OUT = 60": "STEPS, OUT = 4",
        "Rows(2000": "Rows(64",
        "Rows(200,": "Rows(32,",
    },
    "look_inside.py": {},
    "results_with_pandas.py": {},
    "publish_and_repeat.py": {},
}
"""What is replaced in each, by what."""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """One folder for all: some read what others made."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "tiny.txt").write_text("\n\n".join(sentences(200)))
    return folder


@pytest.fixture
def execute(home, monkeypatch, capsys):
    """Run an example in the folder, and give its names and what it printed."""

    def run(name, main="__main__"):
        source = (FOLDER / name).read_text()
        for text, shorter in SHORTER[name].items():
            assert text in source, f"{name} has no {text!r}"
            source = source.replace(text, shorter)
        (home / name).write_text(source)
        space = {"__name__": main, "__file__": str(home / name)}
        exec(compile(source, name, "exec"), space)
        return space, capsys.readouterr().out

    monkeypatch.chdir(home)
    monkeypatch.syspath_prepend(str(home))
    monkeypatch.setattr(sys, "argv", ["example"])
    with ExitStack() as stack:
        stack.enter_context(new_session())
        stack.enter_context(here())
        stack.enter_context(checked_by())
        yield run


def test_each_example_is_short_and_has_a_test():
    files = sorted(path.name for path in FOLDER.glob("*.py"))
    assert files == sorted(SHORTER)
    for name in files:
        text = (FOLDER / name).read_text()
        assert len(text.splitlines()) < 60 and ast.get_docstring(ast.parse(text)), name


def test_train_on_your_text(execute):
    space, told = execute("train_on_your_text.py")
    assert space["run"].step == 4 and "Probe sentences" in told and "Return a copy of the list." in told


def test_compare_two_attentions_and_read_and_repeat_the_results(execute, home):
    space, told = execute("compare_two_attentions.py")
    (comparison,) = space["ended"].outcome.comparisons
    assert f"additive: {comparison.difference:+.4f}" in told and (home / "attentions.html").is_file()
    space, told = execute("results_with_pandas.py")
    losses = {(row.arm, row.seed): row.loss for row in space["runs"].itertuples()}
    assert len(losses) == 4 and space["steps"].groupby("arm").size().min() > 2
    values = [losses["additive", seed] - losses["dot", seed] for seed in (0, 1)]
    assert sum(values) / 2 == pytest.approx(comparison.difference)
    assert space["comparisons"]["difference"][0] == pytest.approx(comparison.difference)
    space, told = execute("publish_and_repeat.py")
    (again,) = space["again"].outcome.comparisons
    assert again.difference == comparison.difference and "data/tiny.txt" in told


def test_own_attention_rule(execute):
    _, told = execute("own_attention_rule.py")
    assert "distance compared with dot" in told


def test_own_task(execute):
    space, told = execute("own_task.py")
    assert (space["run"].config.task.kind == "commas" and "R²" in told) or "explained" in told
    rows = space["run"].dataset.first("train", 20)
    numbers = [space["run"].task.label_of(row) for row in rows]
    assert numbers == [row.text.count(",") for row in rows]


def test_fine_tune_and_serve(execute, monkeypatch):
    from http.server import HTTPServer

    served = []
    monkeypatch.setattr(HTTPServer, "serve_forever", lambda server: served.append(server))
    _, told = execute("fine_tune_and_serve.py")
    assert "accuracy" in told
    (server,) = served
    threading.Thread(target=server.handle_request, daemon=True).start()
    address = f"http://localhost:{server.server_port}"
    with urllib.request.urlopen(address, json.dumps(["a dull film", "a fine film"]).encode()) as answer:
        said = json.loads(answer.read())
    server.server_close()
    assert [set(one) for one in said] == [{"label", "probability"}] * 2


def test_transformers_model(execute):
    space, _ = execute("test_transformers_model.py")
    for name in [name for name in space if name.startswith("test_")]:
        space[name]()


@pytest.mark.filterwarnings(
    "ignore:'pin_memory' argument", "ignore::attnlab.interop.observing.UnsoundWarning"
)
def test_trainer_callback(execute):
    _, told = execute("trainer_callback.py")
    assert re.search(r"(\d+) pass", told) and "reload" in told


def test_look_inside(execute):
    space, told = execute("look_inside.py")
    assert len(space["changes"]) == 12 and all(0 < change < 1 for change in space["changes"].values())
    assert f"Without head {space['most']} of layer 0" in told
