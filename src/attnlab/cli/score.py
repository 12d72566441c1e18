"""`attnlab score`: BLEU, chrF, ROUGE and exact match of anybody's texts."""

from __future__ import annotations

from typing import Annotated

import typer

from attnlab.cli.console import AllowOption, HtmlOption, JsonOption, emit, err, exit_unsound, out
from attnlab.cli.corpus_options import EncodingOption
from attnlab.config.values import ConfigError
from attnlab.runs.display import Display


def score(
    hypotheses: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Written texts, one a line, or a table's column: out.txt, out.jsonl:generated. Repeatable: "
            "others are compared with the first, paired by line.",
        ),
    ] = None,
    references: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="What was to be written, line by line: ref.txt, dev.tsv:target. Repeatable: several "
            "references for each text.",
        ),
    ] = None,
    sources: Annotated[
        str | None, typer.Option(metavar="FILE", help="What the texts were written from, to find copies.")
    ] = None,
    encoding: EncodingOption = "",
    allow: AllowOption = None,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Score written texts: BLEU and chrF by sacrebleu, ROUGE by rouge-score, exact match.

    Each has its interval over texts and its signature; of BLEU what it is made of is shown.

    Give text as a reader sees it, neither tokenised nor lower-cased: what looks otherwise is told.
    """
    names = hypotheses or []
    repeated = next((name for name in names if names.count(name) > 1), "")
    if repeated:
        raise ConfigError(f"--hypotheses {repeated} is given twice; give each file once.")
    with Display(err) as display:
        display.work("Scoring")
        from attnlab.session.scoring import score_texts

        result = score_texts(
            {name: name for name in names}, references or [], sources=sources, encoding=encoding or "utf-8"
        )
    if html is not None:
        from attnlab.documents.html import page
        from attnlab.runs.atomic import replace_bytes

        replace_bytes(html, page(result.document()).encode())
        err.say(f"Page: {html}")
    if json:
        emit(result.as_json())
    else:
        out.show(*result.document().nodes)
    exit_unsound(result.failed, allow)
