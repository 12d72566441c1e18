"""Every variant says what it is, in its card and in the README, and can be written in a file."""

import inspect
import json
from pathlib import Path

import pytest

from attnlab.config.files import section_of
from attnlab.config.registry import as_json, card, table

TABLES = {"corpora": "corpus", "tokenizers": "tokenizer", "encodings": "encoding", "batching": "batching"}
VARIANTS = [(of, name) for of in TABLES for name in table(of)]
README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("of", "name"), VARIANTS)
def test_every_variant_has_a_card_and_options_that_files_can_hold(of: str, name: str) -> None:
    shown = card(table(of), name)
    assert shown.summary.endswith((".", ":")) and len(shown.summary) < 120
    assert all(option.default is not inspect.Parameter.empty for option in shown.options)
    resolved = table(of).resolve(name)
    again = table(of).resolve(json.loads(json.dumps(as_json(resolved))))
    assert again == resolved


@pytest.mark.parametrize(("of", "name"), VARIANTS)
def test_the_readme_names_it(of: str, name: str) -> None:
    line = next(
        line for line in README.splitlines() if f"`data.{TABLES[of]}`" in line and line.startswith("|")
    )
    assert name in line or name in ("file",), f"{name} is not in the README's line of data.{TABLES[of]}"


def test_a_corpus_written_as_a_path_takes_options_below_it() -> None:
    from attnlab.config.files import override

    settings = {"data": {"corpus": "notes/mine.txt"}}
    override(settings, "data.corpus.unit", "line")
    made = section_of("data", settings["data"])
    assert (made.corpus.kind, made.corpus.options["path"], made.corpus.options["unit"]) == (
        "files",
        "notes/mine.txt",
        "line",
    )
