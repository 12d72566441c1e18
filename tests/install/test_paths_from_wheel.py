"""The four ways that people come to attnlab, walked from a built wheel in an environment of its own.

The environment has attnlab from the wheel and nothing of the checkout; other packages are those of this
environment. Every command must come to its end and say what a person came for.
"""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.docs.test_examples import FOLDER, SHORTER
from tests.training.small_run import sentences

ROOT = Path(__file__).parents[2]
SMALL = ("model.width=16", "model.layers=1", "model.heads=2", "data.corpus=tiny.txt", "data.dev_share=0.1")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a text and a table, and beside it the environment."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    built = subprocess.run([*pip, "wheel", "--no-deps", "-w", folder, ROOT], capture_output=True, text=True)
    if built.returncode:
        pytest.skip(f"hatchling, which builds the wheel, cannot be had here: {built.stderr[-300:]}")
    venv.create(folder / "env")
    (wheel,) = folder.glob("*.whl")
    subprocess.run([*pip, "--python", folder / "env", "install", "--no-deps", wheel], check=True)
    (site,) = (folder / "env" / "lib").glob("python*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_path("purelib"))  # whose own .pth files are not read
    (folder / "tiny.txt").write_text("\n\n".join(sentences(200)))
    rows = [f"{text},{'cat' if 'cat' in text else 'other'}" for text in dict.fromkeys(sentences(300))]
    (folder / "rows.csv").write_text("\n".join(["text,label", *rows]))
    return folder


@pytest.fixture
def run(home):
    """Run a program of the environment in the folder; gives what it printed."""

    def run(program, *words, code=0):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
        environment |= {"COLUMNS": "80", "XDG_CACHE_HOME": str(home / "cache")}
        command = [home / "env" / "bin" / program, *words]
        ended = subprocess.run(
            command, cwd=home, env=environment, capture_output=True, text=True, timeout=600
        )
        assert ended.returncode == code, f"{program} {words}: {ended.stdout[-2000:]}{ended.stderr[-2000:]}"
        return " ".join((ended.stdout + ended.stderr).split())

    return run


def shortened(home, name):
    source = (FOLDER / name).read_text()
    for text, shorter in SHORTER[name].items():
        source = source.replace(text, shorter)
    (home / name).write_text(source)


def settings(*more):
    return [word for setting in (*SMALL, *more) for word in ("--set", setting)]


def test_what_is_installed_is_the_wheel(run, home):
    told = run("python", "-c", "import attnlab; print(attnlab.__file__)")
    assert told.startswith(str(home / "env")) and str(ROOT) not in told
    assert "masking" in run("attnlab", "list", "studies") and "mini-gpt" in run("attnlab", "list", "configs")


def test_to_fine_tune(run, home):
    table = ["--data", "rows.csv", "--text", "text", "--label", "label"]
    assert "label" in run("attnlab", "data", "inspect", "rows.csv", "--label", "label")
    head = run("attnlab", "adapt", "minilm", *table, "--adapter", "head", "--out", "runs/head")
    assert "Expected time" in head and "Done after" in head
    assert "accuracy" in run("attnlab", "evaluate", "runs/head")
    assert "cat" in run("attnlab", "predict", "runs/head", "the cat sees a dog .")
    run("attnlab", "convert", "runs/head", "exported")
    load = (
        "from sentence_transformers import SentenceTransformer as S; print(S('exported').encode('a').shape)"
    )
    assert "(2,)" in run("python", "-c", load), "a score for each class"
    folds = ["--adapter", "head", "--folds", "2", "--out", "runs/folds"]
    assert "rows in 2 folds" in run("attnlab", "adapt", "minilm", *table, *folds)


def test_to_research_an_own_idea(run, home):
    shortened(home, "own_attention_rule.py")
    assert "distance compared with dot" in run("python", "own_attention_rule.py")
    consent = ["--import", "own_attention_rule.py"]
    assert "own_attention_rule.py" in run("attnlab", "run", "distance.toml", "--plan", code=2)
    assert "The whole study" in run("attnlab", "run", "distance.toml", "--plan", *consent)
    assert "paper" in run("attnlab", "report", "runs/distance", "--to", "paper")
    assert {file.suffix for file in (home / "paper").iterdir()} >= {".svg", ".pdf", ".tex", ".csv"}
    run("attnlab", "publish", "runs/distance", "distance.zip")
    assert (home / "distance.zip").stat().st_size > 1000


def test_to_check_an_own_transformers_model(run, home):
    shortened(home, "test_transformers_model.py")
    assert "4 passed" in run("python", "-m", "pytest", "test_transformers_model.py", "-p", "no:cacheprovider")
    save = (
        "from transformers import GPT2Config, GPT2LMHeadModel as M; M(GPT2Config(vocab_size=60, n_embd=16, "
        "n_layer=1, n_head=2, n_positions=32)).save_pretrained('gpt2')"
    )
    run("python", "-c", save)
    assert "pass" in run("attnlab", "check", "gpt2")
    (home / "predictions.csv").write_text("label,prediction\n" + "yes,yes\n" * 20 + "no,yes\n" * 10)
    assert "most frequent label" in run("attnlab", "check", "predictions.csv", code=1)
    shortened(home, "trainer_callback.py")
    run("python", "trainer_callback.py")


def test_to_learn(run, home):
    assert "may attend" in run("attnlab", "explain", "mask", "--set", "model.mask=causal", "--text", "a b c")
    assert "Formula" in run("attnlab", "show", "dot")
    assert "parameters" in run("attnlab", "explain", "counts", "mini-gpt")
    assert "weight" in run("attnlab", "explain", "query", "--target", "1,0,0,0")
    run("attnlab", "tokenizer", "show", "unaffordable houses", "minilm")
    watched = ["--watch", "the cat", "--out", "runs/gpt"]
    steps = ["training.budget.steps=20", "data.tokenizer.vocabulary=60"]
    assert "Done after 20 steps" in run("attnlab", "train", "mini-gpt", *settings(*steps), *watched)
    assert (home / "runs" / "gpt" / "watch.html").is_file()
    assert run("attnlab", "generate", "runs/gpt", "the cat")
    page = ["--text", "the cat sees a dog .", "--html", "attention.html"]
    run("attnlab", "explain", "attention", "runs/gpt", *page)
    assert (home / "attention.html").stat().st_size > 10_000
