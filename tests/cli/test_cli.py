import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

import attnlab
from attnlab.cli import app, main
from attnlab.config.registry import TABLES, card, table
from attnlab.config.setting_cards import overview


def run(*arguments):
    """The command as a person runs it: (exit code, stdout, stderr)."""
    code = "import sys; from attnlab.cli import main; sys.argv[0] = 'attnlab'; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def mistaken(monkeypatch, capsys):
    """The same in this process, which has imported what commands need."""

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["attnlab", *arguments])
        monkeypatch.setattr("warnings.showwarning", warnings.showwarning)  # which the command replaces
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, *capsys.readouterr()

    return run


def answer(*arguments):
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


RUN = Path(__file__).parents[1] / "session" / "before_tasks"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--help", "explain"),
        ("list", "additive"),
        ("list configs", "mini-gpt"),
        (f"runs {RUN} --json", "before_tasks"),
    ],
)
def test_help_and_lists_need_no_torch(arguments, said):
    code = (
        "import sys; from attnlab.cli import app; from typer.testing import CliRunner;"
        f"r = CliRunner().invoke(app, {arguments.split()}); assert r.exit_code == 0 and '{said}' in r.output;"
        "heavy = {'torch', 'numpy', 'datasets', 'tokenizers'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_command_that_is_not_there_is_answered_with_the_nearest():
    code, _, said = run("lsit")
    assert code == 2 and "No such command 'lsit'. Did you mean 'list'?" in said


def test_only_the_command_that_is_asked_for_is_imported():
    code = (
        "import sys; from attnlab.cli import app; from typer.testing import CliRunner;"
        "assert CliRunner().invoke(app, ['list']).exit_code == 0;"
        "print(*(name for name in sys.modules if name.startswith('attnlab.cli.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    shared = {"attnlab.cli.console", "attnlab.cli.encoding", "attnlab.cli.import_option"}
    assert {*done.stdout.split()} == {*shared, "attnlab.cli.listing"}


def test_the_overview_is_what_the_tables_and_cards_say():
    found = overview()
    assert {name: list(variants) for name, variants in found.items()} == {t: list(table(t)) for t in TABLES}
    for name, variants in found.items():
        assert variants == {variant: card(table(name), variant).summary for variant in variants}


def test_list_shows_every_table_and_every_variant():
    everything = answer("list", "--json")
    assert everything == {name: list(table(name)) for name in TABLES}
    for name in TABLES:
        assert [entry["name"] for entry in answer("list", name, "--json")] == list(table(name))


def test_list_attention_has_cards_and_options():
    entries = {entry["name"]: entry for entry in answer("list", "attention", "--json")}
    assert {"dot", "additive", "argmax", "linear", "group", "window"} <= set(entries)
    assert entries["group"]["options"]["inner"]["default"] == {"kind": "dot"}
    assert "Katharopoulos" in entries["linear"]["card"]


def test_show_gives_formula_cost_use_and_paper():
    shown = CliRunner().invoke(app, ["show", "linear"]).output
    assert all(word in shown for word in ("Formula:", "Cost:", "When it helps:", "Paper:", "feature"))
    assert len(answer("show", "window", "--json")) == 2, "a mask and an attention rule have this name"


def test_a_name_of_two_tables_can_be_shown_by_its_table():
    assert "attnlab show checks.attention" in CliRunner().invoke(app, ["show", "attention"]).output
    shown = CliRunner().invoke(app, ["show", "checks.attention"]).output
    assert "Made: before, after. It may take 0.5 s" in shown
    assert "at most" in CliRunner().invoke(app, ["list", "checks"]).output


def test_combinations_add_up_and_have_reasons():
    survey = answer("list", "combinations", "--json")
    assert survey["work"] + sum(r["count"] for r in survey["refused"]) == survey["total"]
    product = 1
    for size in survey["parts"].values():
        product *= size
    assert product == survey["total"] > 14_000
    assert all(len(r["reason"]) > 40 for r in survey["refused"])


def test_counts_of_gpt2_small():
    by_hand = ["vocabulary=50257", "width=768", "layers=12", "heads=12", "length=1024", "positions=learned"]
    counts = answer("explain", "counts", *(x for s in by_hand for x in ("--set", f"model.{s}")), "--json")
    assert counts["parameters"]["total"] == counts["parameters"]["closed_form"] == 124_439_808
    assert sum(term["count"] for term in counts["parameters"]["terms"]) == 124_439_808
    assert counts["flops"]["backward"] == 2 * counts["flops"]["forward"]
    assert counts["memory"]["weights"] == 4 * 124_439_808
    shown = CliRunner().invoke(app, ["explain", "counts", "gpt2"]).output
    assert "124,439,808" in shown and "= the model's own count" in shown


def test_mask_draws_source_document_e():
    drawn = answer("explain", "mask", "--set", "model.mask=prefix", "--json")
    assert drawn["words"][4:6] == ["activities", "He"] and drawn["source"] == 5
    assert [sum(row) for row in drawn["may_attend"]] == [5] * 5 + [6, 7, 8, 9]
    shown = CliRunner().invoke(app, ["explain", "mask", "--set", "model.mask=prefix"]).output
    assert "8 hiking" in shown and "██" in shown and "╱ may not" in shown
    packed = answer("explain", "mask", "--text", "a b c d", "--documents", "1,3", "--json")["may_attend"]
    assert packed == [[True, False, False, False], [False, True, False, False], [False, True, True, False],
                      [False, True, True, True]]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("explain", "counts", "--set", "model.atention=dot"), 'Did you mean "attention"?'),
        (("explain", "counts", "--set", "model.heads=5"), "use width 125 or 130, or heads 1, 2, 4, 8"),
        (("explain", "counts", "nothing.toml"), "neither a file, a ready config nor a preset"),
        (("list", "atention"), 'Did you mean "attention"?'),
        (("show", "linaer"), 'Did you mean "linear", '),
        (("explain", "mask", "--text", "|"), "no words"),
        (("explain", "mask", "--documents", "2,x"), "add up to 9"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_2(mistaken, arguments, words):
    code, output, error = mistaken(*arguments)
    assert code == 2 and output == ""
    assert words in " ".join(error.split()) and "Traceback" not in error


def test_the_package_runs_as_a_module_and_tells_its_version():
    command = [sys.executable, "-m", "attnlab", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"attnlab {attnlab.__version__}\n"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (MemoryError(), "no more can be had"),
        (RuntimeError("alloc_cpu.cpp: can't allocate memory: you tried …"), "a tensor did not fit"),
    ],
)
def test_memory_that_is_not_there_is_one_sentence(mistaken, monkeypatch, error, told):
    def refused(*_, **__):
        raise error

    monkeypatch.setattr("attnlab.cli.app", refused)
    code, _, said = mistaken("list")
    assert code == 1 and said.startswith(f"Error: There is not enough memory ({told}).")


def test_threads_have_an_end(mistaken):
    """Where there are too many, a library below ends the interpreter."""
    code, _, said = mistaken("train", "mini-gpt", "--threads", "100000")
    assert code == 2 and "1024" in said


def test_every_whole_number_of_a_command_has_a_range(mistaken):
    """10^400 rows of a step ended in Python's own error, a billion tokens of padding in all memory."""
    found: dict[str, tuple[float | None, float | None]] = {}

    def look(command, name):
        if hasattr(command, "list_commands"):
            for inner in command.list_commands(context):
                look(command.get_command(context, inner), f"{name} {inner}")
        for one in getattr(command, "params", ()):
            if getattr(getattr(one, "type_descriptor", None), "annotation", None) is int:
                found[f"{name} {one.opts[0]}"] = one.min, one.max

    commands = get_command(app)
    context = typer.Context(commands)
    look(commands, "attnlab")
    assert len(found) > 15
    assert [name for name, (least, most) in found.items() if least is None or most is None] == []
    code, _, said = mistaken("explain", "counts", "mini-gpt", "--batch", "1" + "0" * 400)
    assert code == 2 and "Traceback" not in said and "2147483647" in said
