"""`attnlab list` and `attnlab show`: what there is, straight from the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.console import JsonOption, emit, out
from attnlab.config.files import load, ready_configs, to_json
from attnlab.config.glossary import glossary, words_named
from attnlab.config.registry import TABLES, Card, Option, card, table
from attnlab.config.setting_cards import IMPORTS, SettingCard, overview, section_text, setting_cards
from attnlab.config.values import Choice, ConfigError, nearest_three, unknown_name
from attnlab.documents.nodes import CardItem, Cards, Code, Sentence, Table, TableColumn, TableRow

if TYPE_CHECKING:
    from attnlab.studies.spec import Study

NAME = TableColumn("name", whole=True)


def list_(
    what: Annotated[
        str,
        typer.Argument(help="A table (attention, masks, positions, …), configs, studies or combinations."),
    ] = "",
    json: JsonOption = False,
) -> None:
    """List the variants of every part, or of one; `combinations` counts which work together."""
    if what == "combinations":
        return list_combinations(json)
    if what == "configs":
        return list_configs(json)
    if what == "studies":
        return list_studies(json)
    if not what:
        return list_everything(json)
    if what not in TABLES:
        raise unknown_name("attnlab list", what, [*TABLES, "configs", "studies", "combinations"])
    cards = [card(table(what), variant) for variant in table(what)]
    if json:
        return emit([c.as_json() for c in cards])
    if what == "checks":
        rows = [(entry.name, entry.summary, *moments(entry.name)) for entry in cards]
        out.show(Table((NAME, "what it is", "made", "at most"), rows, title=what))
        return None
    options = [", ".join(map(written, entry.options)) for entry in cards]
    shown = [(entry.name, entry.summary, choices) for entry, choices in zip(cards, options, strict=True)]
    out.show(Table((NAME, "what it is", "options"), shown, title=what))
    return None


def list_everything(json: bool) -> None:
    """Every table with its variants, from their source: nothing heavy is imported."""
    tables = overview()
    if json:
        return emit({name: list(variants) for name, variants in tables.items()})
    left = 2 + max(len(variant) for variants in tables.values() for variant in variants)
    indent = " " * (left + 2)
    for name, variants in tables.items():
        typer.secho(name, bold=True)
        for variant, summary in variants.items():  # by hand: a table of rich takes as long as all the rest
            typer.echo(
                fill(summary, out.width, initial_indent=f"  {variant:<{left}}", subsequent_indent=indent)
            )
    typer.echo("Options: attnlab list TABLE. One variant's card: attnlab show NAME.")
    return None


def moments(check: str) -> tuple[str, str]:
    """When a check is made, and how long it may take."""
    from attnlab.checks import CHECKS

    made = CHECKS[check]
    return ", ".join(made.when), f"{made.limit:g} s"


def list_configs(json: bool) -> None:
    """The configs that come with the package, ready for `attnlab train`."""
    summaries = {name: summary_of(file) for name, file in ready_configs().items()}
    if json:
        return emit([{"name": name, "summary": summary} for name, summary in summaries.items()])
    out.show(Table((NAME, "what it is"), list(summaries.items()), title="configs"))
    return None


def list_studies(json: bool) -> None:
    """The questions that come with the package, ready for `attnlab run`."""
    from attnlab.studies.builtin import STUDIES, builtin

    studies = [builtin(name) for name in STUDIES]
    if json:
        return emit([{"name": s.name, "question": s.question, "arms": list(s.arms)} for s in studies])
    rows = [(study.name, study.question, ", ".join(study.arms)) for study in studies]
    out.show(Table((NAME, "question", "arms"), rows, title="studies"))
    return None


def summary_of(config: Path) -> str:
    """The first line of a config's file, which is a comment."""
    return config.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")


def list_combinations(json: bool) -> None:
    """How many combinations of parts work, and why the others cannot."""
    from attnlab.model.combinations import survey

    result = survey()
    if json:
        return emit(result)
    rows = [TableRow((result["work"], "work"))]
    rows += [TableRow((refusal["count"], f"refused: {refusal['reason']}")) for refusal in result["refused"]]
    parts = " × ".join(f"{n} {name}" for name, n in result["parts"].items())
    rows.append(TableRow((result["total"], parts), apart=True))
    out.show(Table(("combinations", "outcome"), rows))
    return None


def show(
    name: Annotated[
        str,
        typer.Argument(
            help="A variant's, a study's or a ready config's name (checks.attention names its table), a "
            "setting or section (training.budget), or a word (encoder, temperature, baseline)."
        ),
    ],
    json: JsonOption = False,
) -> None:
    """Show the card of a variant (formula, cost, when it helps, paper), study, config, setting or word."""
    from attnlab.studies.builtin import STUDIES, builtin

    key = name
    place, _, name = name.rpartition(".")
    if name in ready_configs() and place in ("", "configs"):
        return show_config(ready_configs()[name], json)
    cards = [card(table(t), name) for t in TABLES if name in table(t) and place in ("", t)]
    if name in STUDIES and place in ("", "studies"):
        show_study(builtin(name), json)
        if cards and not json:
            others = ", ".join(f"attnlab show {entry.table}.{name}" for entry in cards)
            out.show(Sentence(f"Of the same name: {others}"))
        return None
    if not cards and (settings := setting_cards(key)):
        return show_settings(key, settings, json)
    words = words_named(key)
    if not cards and not words:
        parts = {variant for t in TABLES for variant in table(t)}
        keys = {setting.key for setting in setting_cards()} | {word.name for word in glossary()}
        near = [f'"{one}"' for one in nearest_three(key, sorted({*parts, *ready_configs(), *STUDIES, *keys}))]
        raise ConfigError(
            f'attnlab show: there is no "{key}". Did you mean {", ".join(near[:-1])} or {near[-1]}? '
            "attnlab list names every part, docs/glossary.md every word."
        )
    if json:
        return emit([c.as_json() for c in cards] or [word.as_json() for word in words])
    for entry in cards:
        print_card(f"{entry.table}: {entry.name}", f"{entry.summary}\n\n{entry.text}\n\n{below(entry)}")
    for word in words:
        print_card(f"{word.section.lower()}: {word.name}", word.text)
    return None


def show_settings(key: str, settings: Sequence[SettingCard], json: bool) -> None:
    """What a setting takes, its default and its choices; of a section, all of them."""
    if json:
        return emit([asdict(setting) for setting in settings])
    if text := section_text(key):
        out.show(Sentence(text))
    rows = []
    for setting in settings:
        option = f"an option of {setting.of}" if setting.of else ""
        meaning = ". ".join(filter(None, [option, setting.note]))
        rows.append((setting.key, ", ".join(setting.choices) or setting.takes, setting.default, meaning))
    columns = (TableColumn("setting", whole=True), "takes", "default", "meaning")
    out.show(Table(columns, rows, title=key))
    if key != IMPORTS.key:
        out.show(Sentence(f"Set it with --set {settings[0].key}=VALUE, or in a config's file."))
    if any(setting.choices for setting in settings):
        out.show(Sentence("The card of a choice: attnlab show NAME."))
    return None


def below(entry: Card) -> str:
    """A part's options; of a check, when it is made and how long it may take."""
    if entry.table != "checks":
        return options_text(entry)
    when, limit = moments(entry.name)
    return f"Made: {when}. It may take {limit} for a small model on two cores."


def show_config(file: Path, json: bool) -> None:
    """A ready config: its file, or with every default filled in."""
    if json:
        return emit(to_json(load(file)))
    out.show(Code(file.read_text(encoding="utf-8"), "toml"))
    return None


def show_study(study: Study, json: bool) -> None:
    """A study's card, and what its arms change."""
    if json:
        return emit(asdict(study))
    arms = "\n".join(f"- `{arm}`: {changes_of(changes)}" for arm, changes in study.arms.items())
    seeds = f"{len(study.all_seeds)} seeds, or {study.quick.seeds} with --quick"
    print_card(f"studies: {study.name}", f"{study.card}\n\nArms ({seeds}):\n\n{arms}")
    return None


def print_card(title: str, text: str) -> None:
    out.show(Cards([CardItem(title, [Code(text, "markdown")])]))


def changes_of(changes: Mapping[str, Any]) -> str:
    """What an arm changes, as --set would."""
    return ", ".join(f"{key}={value}" for key, value in changes.items()) or "the base as it is"


def options_text(entry: Card) -> str:
    if not entry.options:
        return "No options."
    return "Options:\n\n" + "\n".join(f"- `{written(o)}`: {o.kind_phrase}" for o in entry.options)


def written(option: Option) -> str:
    if option.required:
        return f"{option.name} (needed)"
    return str(Choice("", {option.name: option.default}))[1:-1]
