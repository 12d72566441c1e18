"""docs/glossary.md has every setting of a config and every column of a report, and none that is gone."""

import json
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from attnlab.cli import app
from attnlab.config.glossary import FILE, glossary, words_named
from attnlab.config.schema import SECTIONS, Config
from attnlab.config.values import ConfigError
from attnlab.metrics.measures import COSTS, SAMPLED
from attnlab.studies.report.metric_display import COST, QUALITY, WITHOUT_LEAK
from attnlab.studies.report.metric_display import metric as metric_of
from attnlab.studies.report.sections import differences, runs
from attnlab.studies.report.study_results import StudyResults
from tests.studies.results import five_arms, outcome

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")


def words(title):
    """The first cells of a section's rows."""
    section = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    return [line.split(" | ")[0].strip("| `") for line in section.splitlines() if line.startswith("| ")][1:]


def test_every_setting_has_its_word_and_no_other_has_one():
    plain = [f.name for f in fields(Config) if f.name not in SECTIONS]
    keys = [f"{name}.{f.name}" for name, section in SECTIONS.items() for f in fields(section)]
    assert all(is_dataclass(section) for section in SECTIONS.values())
    assert sorted(words("Settings")) == sorted(plain + keys)


def test_every_column_of_a_report_has_its_word():
    shown = {metric.title for metric in (*QUALITY, *COST, WITHOUT_LEAK)}
    study = StudyResults(outcome(five_arms(seeds=2)))
    tables = [section(study)[-1].nodes[0] for section in (runs, differences)]
    own = {metric_of(study, name).title for _, run in study.runs() for name in run.metrics}
    heads = {head.title for table in tables for head in table.heads} - own
    assert {"seed", "folder", "MDE", "p corrected"} <= heads
    missing = (shown | heads - {"metric"}) - {*words("Report columns"), *words("Runs and studies")}
    assert not missing


def test_no_word_is_there_twice_and_each_has_a_meaning():
    rows = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
    kept = [row for row in rows if len(row) == 2]
    assert len(kept) == len(rows) and all(len(meaning) > 6 for _, meaning in kept)
    names = [name for name, meaning in kept if meaning != "meaning"]
    assert len(names) == len({*names})


def test_names_of_measures_are_those_of_their_columns():
    """One term everywhere: token_by_token_loss in a file is token-by-token loss in a table."""
    titles = {metric.name: metric.title for metric in (*QUALITY, *COST, WITHOUT_LEAK)}
    for name in [*SAMPLED, *COSTS]:
        title = titles.get(name, name)
        assert name in ("seconds", "tokens_per_second", "peak_memory_bytes") or (
            title.replace("-", "_").replace(" ", "_") == name
        )


def test_the_glossary_of_the_package_is_that_of_the_docs():
    assert FILE.read_text(encoding="utf-8") == PAGE, "run: python -m attnlab.config.glossary"


IDEAS = ("encoder", "decoder", "encoder_decoder", "temperature", "pretraining")


def shown(word, *options):
    found = CliRunner().invoke(app, ["show", word, *options], env={"COLUMNS": "80"}, catch_exceptions=False)
    return found.stdout


@pytest.mark.parametrize("word", IDEAS)
def test_each_idea_has_a_card(word):
    card = shown(word)
    assert f"ideas: {word}" in card and len(card.split()) > 60 and max(map(len, card.splitlines())) <= 80


def test_every_word_is_found_however_it_is_written():
    for word in glossary():
        if word.section != "Settings":
            assert word in words_named(word.name) and word in words_named(word.name.upper().replace(" ", "_"))
    assert "largest memory of the run" in " ".join(shown("peak_memory").replace("│", " ").split())
    assert [one["section"] for one in json.loads(shown("worse", "--json"))] == ["Verdicts"]
    assert all(f"{of}: window" in shown("window") for of in ("attention", "masks", "answers"))


def test_special_tokens_are_seen_on_cards():
    """They were swallowed as tags of HTML."""
    assert "<UNK>" in shown("word") and "<UNK>" in shown("pretraining") and "<START>" in shown("decoder")


@pytest.mark.parametrize(
    ("wrong", "near"), [("encodr", "encoder"), ("attn", "attention"), ("tempature", "temperature")]
)
def test_a_wrong_word_gets_three_suggestions(wrong, near):
    with pytest.raises(ConfigError) as error:
        shown(wrong)
    assert near in str(error.value) and len(str(error.value)) < 200
