"""Every command on every kind of run, our own and imported, ends in an answer or in a sentence that says why
not. All runs are tiny; nothing is asked of their answers here but that there is one."""

from __future__ import annotations

import shlex

import pytest
from typer.testing import CliRunner

from attnlab.cli import COMMANDS, app
from attnlab.interop import exchange
from attnlab.runs.faults import RunError
from attnlab.session import soundness
from attnlab.session.convert import convert
from tests.parity.conftest import quiet  # noqa: F401 - a fixture
from tests.parity.folders import published
from tests.training.small_run import config, for_task, labelled, merged, train

OWN = ["causal", "masked", "seq2seq", "classification", "multilabel", "regression", "answering", "tagging"]
OWN += ["similarity", "prefix", "causal, gru", "seq2seq, lstm", "seq2seq, gru(attention=additive)"]
IMPORTED = ["gpt2", "bert", "t5", "bert, classes", "bert, answers", "bert, bare"]
SHORT = {"training": {"budget": {"steps": 4}, "evaluate_every": 4, "checkpoint_every": 4}}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Every kind of run by its name, and a file of labelled texts."""
    place = tmp_path_factory.mktemp("kinds")
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            soundness, "run_checks", lambda case, names=(): []
        )  # which take longer than the training
        for name in OWN:
            task, _, trunk = name.partition(", ")
            recurrent = {"model": {"trunk": trunk, "layers": 4, "heads": 4}} if trunk else {}
            own = merged(merged(for_task(task, place), SHORT), recurrent)
            found[name] = place / name.replace(", ", "-")
            train(config(place, **own), found[name])
    for name in IMPORTED:
        folder = name.replace(", ", "-")
        published(place / "theirs" / folder, name)
        convert(place / "theirs" / folder, place / folder)
        found[name] = place / folder
    (place / "text.txt").write_text("the cat sees a dog .\nmy sister likes the old man .\n")
    (place / "rows.jsonl").write_text("".join(labelled(place).read_text().splitlines(keepends=True)[:60]))
    return found | {"place": place}


ONE_STEP = "--set training.budget.steps=1"
QUESTIONS = {
    "evaluate": "evaluate RUN",
    "evaluate a text": "evaluate RUN --on PLACE/text.txt",
    "evaluate rows": "evaluate RUN --on PLACE/rows.jsonl --label verb",
    "evaluate a sentence": "evaluate RUN --on PLACE/text.txt --probe 'the cat sees a dog .'",
    "evaluate a pair": "evaluate RUN --probe 'the cat sees => sees cat the'",
    "predict": "predict RUN 'the cat sees a dog .'",
    "predict a pair": "predict RUN 'who sees a dog ? => the cat sees a dog .'",
    "ask": "ask RUN 'who sees a dog ?' --passage PLACE/text.txt",
    "generate": "generate RUN 'the cat' --length 3",
    "generate beams": "generate RUN 'the cat' --length 3 --beam 2",
    "search": "search RUN 'the cat' --in PLACE/text.txt --index PLACE/index-KIND",
    "translate": "translate RUN 'the cat sees' --best 2",
    "translate with its alignment": "translate RUN 'the cat sees' --alignment",
    "caption": "caption RUN PLACE/text.txt",
    "summarise": "summarise RUN --data PLACE/text.txt",
    "average": "average RUN --last 2 --out PLACE/mean-KIND",
    "fill in": "generate RUN --fill 'the [MASK] sees'",
    "check": "check RUN",
    "export": "convert RUN PLACE/out/KIND",
    "export to ONNX": "convert RUN PLACE/out/KIND.onnx",
    "counts": "explain counts RUN",
    "mask": "explain mask 'the cat sees'",
    "attention": "explain attention RUN --text 'the cat sees a dog .'",
    "heads": "explain heads RUN --texts 3",
    "runs": "runs PLACE",
    "compare": "compare RUN OTHER",
    "train again": f"train --from RUN --out PLACE/again-KIND {ONE_STEP}",
    "resume": "train --resume --out RUN",
    "adapt": f"adapt RUN --data PLACE/rows.jsonl --label verb --out PLACE/adapted-KIND {ONE_STEP}",
    "show": "show RUN",
    "compare tokenizers": "tokenizer compare RUN OTHER --on PLACE/text.txt",
    "inspect": "data inspect RUN",
    "publish": "publish RUN PLACE/KIND.zip",
    "report": "report RUN --to PLACE/paper-KIND",
}


def asked(question, runs, kind):
    """The words of a command."""
    other = runs["gpt2" if kind in OWN else "causal"]
    held = {"RUN": runs[kind], "OTHER": other, "PLACE": runs["place"], "KIND": runs[kind].name}
    for name, value in held.items():
        question = question.replace(name, str(value))
    return shlex.split(question)


def stands_for_itself(model, file, **_):
    """In the place of torch's exporter, which has its own tests and takes its time."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"onnx")
    return 0.0


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_command_ends_in_an_answer_or_a_sentence(question, runs, monkeypatch):
    monkeypatch.setattr(exchange, "write_onnx", stands_for_itself)
    monkeypatch.setattr(soundness, "run_checks", lambda case, names=(): [])
    kinds = (*OWN, *IMPORTED) if "RUN" in QUESTIONS[question] else OWN[:1]
    for kind in kinds:
        found = CliRunner().invoke(app, asked(QUESTIONS[question], runs, kind))
        error = found.exception
        if isinstance(error, (RunError, ValueError)):  # which `main` tells in a sentence, see cli/__init__.py
            told = str(error)
            assert len(told.split()) > 4 and "Traceback" not in told, f"{question} of {kind}: {told}"
            continue
        assert error is None or isinstance(error, SystemExit), (
            f"{question} of {kind}: {type(error).__name__}: {error}"
        )
        assert found.exit_code in (0, 1, 2), f"{question} of {kind}"
        assert found.output.strip(), f"{question} of {kind} says nothing"


def test_every_command_is_asked():
    about_no_run = {"list", "run", "score", "serve"}
    assert {question.split()[0] for question in QUESTIONS.values()} | about_no_run == set(COMMANDS)
