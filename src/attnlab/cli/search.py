"""`attnlab search`: the passages of a person's files that are nearest in meaning to a query."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.padding import Padding

from attnlab.cli.console import MOST, HtmlOption, JsonOption, RunArgument, emit, err, out, warn
from attnlab.cli.corpus_options import EncodingOption, PairOption, TextOption
from attnlab.config.values import ConfigError
from attnlab.documents.nodes import Inline, Tone, strong, toned
from attnlab.documents.terminal_text import inline
from attnlab.runs.display import Display

if TYPE_CHECKING:
    from attnlab.data.passage_index import Hit, IndexUpdate

POOLINGS = ("trained", "mean", "first", "last")
PICTURE = "picture"
"""Where a hit stands that is a whole file."""
SHOWN = 480
"""Characters of a passage that are shown."""


def search(
    run: RunArgument,
    queries: Annotated[list[str] | None, typer.Argument(metavar="QUERY", help="What to search for.")] = None,
    inside: Annotated[
        Path | None, typer.Option("--in", metavar="PATH", help="The folder or file to search in.")
    ] = None,
    top: Annotated[int, typer.Option(help="How many passages to show.", min=1, max=MOST)] = 5,
    score: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Instead of searching, score it: rows with a query and its passage (SQuAD's .json, or a "
            "table with --text and --pair).",
        ),
    ] = None,
    pooling: Annotated[
        str, typer.Option(help="first, mean or last token; trained: as the model was trained, else mean.")
    ] = "trained",
    index: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the index is kept. Default: in the cache.")
    ] = None,
    text: TextOption = "",
    pair: PairOption = "",
    encoding: EncodingOption = "",
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Search files by meaning, or pictures by words, with a model that reads both. They are indexed once;
    later only what has changed is read again."""
    refuse_wrong_use(queries, inside, score, pooling, text or pair)
    with Display(err, shown=not json) as display:
        display.work("Opening the model")
        from attnlab.session.embedding import Embedder
        from attnlab.session.searching import Searcher, score_search
        from attnlab.session.trained import Trained

        embedder = Embedder.of(Trained.at(run), pooling)  # type: ignore[arg-type]  # one of the four, as just seen
        progress: dict[str, Any] = {
            "progress": lambda done, of: display.update(f"Embedding: {done:,} of {of:,} texts", done / of)
        }
        if encoding:
            progress["encoding"] = encoding
        display.work("Reading the files")
        if score is not None:
            progress |= {name: value for name, value in (("text", text), ("pair", pair)) if value}
            scored = score_search(embedder, score, **progress)
        else:
            assert inside is not None
            searcher = Searcher.of(embedder, inside, index=index, **progress)
            results = {query: searcher.search(query, top=top) for query in queries or ()}
    if score is not None:
        from attnlab.evaluation.result_nodes import retrieval_nodes

        name = str(score)
        return emit({"name": name} | scored.as_json()) if json else out.show(*retrieval_nodes(scored, name))
    if html is not None:
        write_page(html, results)
    if json:
        queried = [{"query": query, "hits": list(map(asdict, hits))} for query, hits in results.items()]
        return emit({"index": asdict(searcher.update), "queries": queried})
    show_update(searcher.update)
    for query, hits in results.items():
        show_hits(query, hits)
    return None


def refuse_wrong_use(
    queries: list[str] | None, inside: Path | None, score: Path | None, pooling: str, columns: str
) -> None:
    if pooling not in POOLINGS:
        raise ConfigError(f'--pooling is "{pooling}"; it must be one of {", ".join(POOLINGS)}.')
    if score is not None and (queries or inside):
        raise ConfigError("--score FILE has its own queries and passages; leave out QUERY and --in.")
    if score is None and columns:
        raise ConfigError("--text and --pair name columns of --score FILE; leave them out.")
    if score is None and (inside is None or not queries):
        raise ConfigError('Say where and what: attnlab search RUN --in notes/ "how do I undo a commit".')


def show_update(update: IndexUpdate) -> None:
    """What was read, where anything had to be."""
    from attnlab.session.searching import skipped_told

    if update.rebuilt:
        warn(f"{update.rebuilt}; the index was made anew.")
    if not update.changed:
        return
    if update.passages:
        err.say(f"Indexed {update.passages:,} passages of {update.files:,} files ({update.embedded:,} new).")
    for line in skipped_told(update):
        err.say(toned(Tone.WARNING, "Left out:"), f" {line}")


def show_hits(query: str, hits: list[Hit]) -> None:
    words = "|".join(re.escape(word) for word in re.findall(r"\w{3,}", query))
    out.say(strong(query))
    for number, hit in enumerate(hits, start=1):
        out.say(f"{number}. ", toned(Tone.NAME, hit.file), f", {hit.where}  ({hit.score:.3f})")
        if hit.where == PICTURE:
            continue
        out.print(Padding(inline(highlighted(shortened(hit.text), words)), (0, 0, 0, 3)))


def write_page(file: Path, results: dict[str, list[Hit]]) -> None:
    """A page of what was found: pictures as such, passages as their text."""
    from attnlab.data.images.decoding import thumbnail
    from attnlab.data.images.picture import Picture
    from attnlab.documents.html import page
    from attnlab.documents.nodes import DocumentPage, Items, Node, PictureItem, Pictures, Section
    from attnlab.runs.atomic import replace_bytes

    def shown(hits: list[Hit]) -> Node:
        if all(hit.where == PICTURE for hit in hits):
            pictures = [(Path(hit.file), hit.score) for hit in hits]
            return Pictures(
                [PictureItem(thumbnail(Picture(p, p.name)), p.name, f"{score:.3f}") for p, score in pictures],
                note="The cosine of each with the query stands below it.",
            )
        return Items([f"{hit.file}, {hit.where} ({hit.score:.3f}): {shortened(hit.text)}" for hit in hits])

    named = ", ".join(f"“{query}”" for query in results)
    sections = [Section(query, [shown(hits)]) for query, hits in results.items()]
    replace_bytes(file, page(DocumentPage("search", f"Nearest to {named}", sections)).encode())
    err.say(f"Written: {file}.")


def highlighted(text: str, words: str) -> Inline:
    """A text with the words of a query strong."""
    pieces = re.split(rf"(?i)\b({words})\b", text) if words else [text]
    return tuple(strong(piece) if place % 2 else piece for place, piece in enumerate(pieces))


def shortened(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= SHOWN else f"{plain[: SHOWN - 1]}…"
