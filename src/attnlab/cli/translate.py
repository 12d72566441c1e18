"""`attnlab translate`, `attnlab summarise` and `attnlab caption`: what a model writes for a source."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.console import (
    MOST,
    AllowOption,
    JsonOption,
    RunArgument,
    emit,
    err,
    exit_unsound,
    invalid_sentence,
    out,
)
from attnlab.cli.corpus_options import EncodingOption, TextOption
from attnlab.cli.generate import tell_unknown
from attnlab.config.values import ConfigError
from attnlab.config.wording import count_of
from attnlab.documents.nodes import MarkedSpan, Number, Table, Tone, toned

if TYPE_CHECKING:
    from attnlab.session.trained import Trained
    from attnlab.session.translating import Candidate, Translator

BeamOption = Annotated[int, typer.Option(help="Beam width; 1: greedy.", min=1, max=MOST)]
PenaltyOption = Annotated[
    float, typer.Option(help="Length penalty: 0 compares sums of log-probabilities, 1 means.")
]
BestOption = Annotated[
    int,
    typer.Option(
        "--best", "--n-best", help="How many texts to show for each, with their scores.", min=1, max=MOST
    ),
]
CutOption = Annotated[
    str,
    typer.Option(
        metavar="SIDE", help="What a text that is too long loses: end or start; refuse: it is an error."
    ),
]


def translate(
    run: RunArgument,
    texts: Annotated[list[str], typer.Argument(metavar="TEXT", help="Texts to translate.")],
    beam: BeamOption = 4,
    penalty: PenaltyOption = 1.0,
    best: BestOption = 1,
    cut: CutOption = "refuse",
    alignment: Annotated[
        bool, typer.Option("--alignment", help="Draw which source tokens each written token looks at.")
    ] = False,
    allow: AllowOption = None,
    json: JsonOption = False,
) -> None:
    """Translate texts with a model that was trained on pairs. For a file: attnlab predict RUN --data FILE."""
    if alignment and json:
        raise ConfigError(
            "--alignment is a picture; its weights as JSON: attnlab explain attention RUN --text … --json"
        )
    write_targets(
        run, "translate", texts, beam, penalty, best, cut, alignment=alignment, allow=allow, json=json
    )


def summarise(
    run: RunArgument,
    texts: Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="Texts to summarise.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="A plain text to summarise as a whole, or a table with a text in each row."),
    ] = None,
    text: TextOption = "",
    beam: BeamOption = 4,
    penalty: PenaltyOption = 1.0,
    best: BestOption = 1,
    cut: CutOption = "end",
    encoding: EncodingOption = "",
    allow: AllowOption = None,
    json: JsonOption = False,
) -> None:
    """Summarise texts with a model that was trained on pairs of a long and a short text."""
    if bool(texts) == (data is not None):
        raise ConfigError("Give texts, or a file of them with --data FILE; one of the two.")
    sources = list(texts or ()) if data is None else texts_in(data, text, encoding or "utf-8")
    write_targets(run, "summarise", sources, beam, penalty, best, cut, allow=allow, json=json)


def caption(
    run: RunArgument,
    pictures: Annotated[list[str], typer.Argument(metavar="FILE", help="Pictures to describe.")],
    beam: BeamOption = 4,
    penalty: PenaltyOption = 1.0,
    best: BestOption = 1,
    allow: AllowOption = None,
    json: JsonOption = False,
) -> None:
    """Describe pictures with a model of captions. For a folder: attnlab predict RUN --data FOLDER."""
    write_targets(run, "caption", pictures, beam, penalty, best, "refuse", allow=allow, json=json)


def texts_in(file: Path, column: str, encoding: str) -> list[str]:
    """The texts of a table's rows, or a plain text as a whole."""
    from attnlab.data.corpora.own_files import Files

    options: dict[str, Any] = dict.fromkeys(("pair", "target", "label", "answers", "tags", "group"), ())
    options |= {"text": column} if column else {}
    corpus = Files(path=str(file), unit="document", encoding=encoding, **options)
    return [example.text for example in corpus.read()]


def write_targets(
    run: Path,
    command: str,
    texts: list[str],
    beam: int,
    penalty: float,
    best: int,
    cut: str,
    *,
    alignment: bool = False,
    allow: list[str] | None,
    json: bool,
) -> None:
    """Open the run, write a target for each text, and show it."""
    from attnlab.config.values import coerce
    from attnlab.data.encode.encoding import Cut
    from attnlab.generation.request import PENALTIES, number_between
    from attnlab.session.trained import Trained
    from attnlab.session.translating import Translator, examples_of, refuse_untranslating

    side: Cut = coerce(cut, Cut, "--cut")
    number_between("penalty", penalty, *PENALTIES)
    trained = Trained.at(run)
    refuse_untranslating(trained, command)
    if trained.unsound:
        err.say(invalid_sentence(trained.unsound))
    if not trained.captions:
        tell_unknown(trained, texts)
    translator = Translator(trained, beam=beam, penalty=penalty, best=best, cut=side)
    candidates = translator.candidates(examples_of(texts, translator))
    if translator.cuts.cut:
        err.say(toned(Tone.WARNING, f"{translator.cuts}: this model reads {translator.room} tokens."))
    if json:
        emit(as_json(trained, texts, candidates))
    else:
        show(texts, candidates, several=best > 1)
    if alignment:
        show_alignment(translator, texts, [found[0].text for found in candidates])
    exit_unsound(trained.unsound, allow)


def as_json(trained: Trained, texts: list[str], candidates: list[list[Candidate]]) -> dict[str, Any]:
    return {
        "run": str(trained.folder),
        "step": trained.step,
        "sound": not trained.unsound,
        "unsound": list(trained.unsound),
        "texts": [
            {"source": text, "best": [asdict(candidate) for candidate in found]}
            for text, found in zip(texts, candidates, strict=True)
        ],
    }


def show(texts: list[str], candidates: list[list[Candidate]], *, several: bool) -> None:
    """A line for each text, or a table of the best with their scores."""
    for text, found in zip(texts, candidates, strict=True):
        if several:
            rows = [(Number(each.score, decimals=3), each.text, cut_off(each)) for each in found]
            out.show(Table(("score", "text", ""), rows, title=text))
        else:
            out.stream(MarkedSpan(f"{found[0].text}\n"))
    if message := unended_sentence(sum(not found[0].stopped for found in candidates)):
        err.say(toned(Tone.WARNING, message))


def unended_sentence(unended: int) -> str:
    """How many texts a model did not end by itself; nothing where it ended all."""
    length = "the longest text that this model writes"
    return f"{count_of(unended, 'text')} cut off at {length}." if unended else ""


def show_alignment(translator: Translator, texts: list[str], written: list[str]) -> None:
    """The cross-attention head that the output needs most, on each text and its translation."""
    trained = translator.trained
    if not trained.reads_source:
        raise ConfigError(
            "This model reads source and target in one row and has no attention between two; see all of its "
            f"heads: attnlab explain attention {trained.folder} --text …"
        )
    for number, (text, target) in enumerate(zip(texts, written, strict=True), start=1):
        if translator.is_too_long(text):
            err.say(toned(Tone.WARNING, f"Text {number} was cut, so its alignment is not drawn."))
        elif target:
            maps = trained.attention(text, target)
            out.show(maps.large(maps.chosen))


def cut_off(candidate: Candidate) -> str:
    return "" if candidate.stopped else "cut off"
