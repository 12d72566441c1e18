"""Every variant says what it is, in its card and in the tour, and can be written in a file."""

import inspect
import json
from pathlib import Path

import pytest

from attnlab.config.files import config_of, load, override, section_of, to_json
from attnlab.config.registry import as_json, card, table
from attnlab.config.values import ConfigError

TABLES = {"corpora": "corpus", "tokenizers": "tokenizer", "encodings": "encoding", "batching": "batching"}
VARIANTS = [(of, name) for of in TABLES for name in table(of)]
TOUR = (Path(__file__).parents[2] / "docs" / "tour.md").read_text(encoding="utf-8")


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
    line = next(line for line in TOUR.splitlines() if f"`data.{TABLES[of]}`" in line and line.startswith("|"))
    assert name in line or name in ("file",), f"{name} is not in the tour's line of data.{TABLES[of]}"


def test_a_corpus_written_as_a_path_takes_options_below_it() -> None:
    settings = {"data": {"corpus": "notes/mine.txt"}}
    override(settings, "data.corpus.unit", "line")
    made = section_of("data", settings["data"])
    assert (made.corpus.kind, made.corpus.options["path"], made.corpus.options["unit"]) == (
        "files",
        "notes/mine.txt",
        "line",
    )


def corpus_after(*overrides: str, config: str = "mini-gpt") -> tuple[str, str]:
    made = load(config, set=overrides).data.corpus
    return made.kind, made.options.get("unit", "")


def test_a_file_set_in_a_configs_place_is_taken_by_the_configs_unit() -> None:
    """mini-gpt is about sentences; a corpus of one's own does not change that, unless one says so."""
    assert corpus_after("data.corpus=notes.txt") == ("files", "sentence")
    assert corpus_after('data.corpus={kind="files", path="notes.txt"}') == ("files", "sentence")
    assert corpus_after("data.corpus=notes.txt", "data.corpus.unit=line") == ("files", "line")
    assert corpus_after("data.corpus.unit=line", "data.corpus=notes.txt") == ("files", "line")
    assert corpus_after('data.corpus=files(path="notes.txt", unit=document)') == ("files", "document")
    assert corpus_after("data.corpus=python-source") == ("python_source", "sentence")
    assert corpus_after("data.corpus=copy") == ("copy", "")  # it knows no units
    assert corpus_after("data.corpus=notes.txt", config="modern-mini") == ("files", "paragraph")


def test_a_unit_that_nobody_chose_does_not_stay() -> None:
    """A run's config holds every option: python_docs' own unit would make one document of a file."""
    settings = to_json(load("modern-mini"))
    assert settings["data"]["corpus"]["unit"] == "document"
    override(settings, "data.corpus", "notes.txt")
    assert config_of(settings).data.corpus.options["unit"] == "paragraph"


def test_another_corpus_that_does_not_exist_is_still_told_in_words() -> None:
    with pytest.raises(ConfigError, match='Did you mean "python_docs"'):
        load("mini-gpt", set=["data.corpus=python_dcos"])
    with pytest.raises(ConfigError, match="there is no"):
        load("mini-gpt", set=["data.corpus={kind='nonsense'}"])
