"""`attnlab explain query` and `superposition`: what attention can reach, solved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.console import MOST, HtmlOption, JsonOption, present
from attnlab.config.values import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST = 1e9
"""A number of a key; beyond it scores have no digits left."""
TARGET = "Weights wanted, one for each key (0.5,0.5,0,0), or one:2, each, all, subset:0,1."


def query(
    target: Annotated[str, typer.Option(help=TARGET)] = "",
    given: Annotated[
        str,
        typer.Option(
            "--query",
            help="A query to judge: numbers (-2,1,1), or a formula of the keys (10*(k0+k1)/2, mean).",
        ),
    ] = "",
    keys: Annotated[
        str,
        typer.Option(
            help="A file with a row of numbers for each key, or the rows (0,1,2; 1,1,2); four keys of an "
            "example without."
        ),
    ] = "",
    values: Annotated[str, typer.Option(help="With --query: the keys' values, in the same form.")] = "",
    model: Annotated[
        Path | None, typer.Option(help="Take the keys of a model's head instead, on --text.")
    ] = None,
    text: Annotated[str, typer.Option(help="The text whose keys are meant.")] = "",
    layer: Annotated[int, typer.Option(help="The layer of --model.", min=0, max=MOST)] = 0,
    head: Annotated[int, typer.Option(help="The head of --model.", min=0, max=MOST)] = 0,
    scale: Annotated[
        float, typer.Option(help="What q·k is multiplied by; a model has its own.", min=1e-9, max=1e9)
    ] = 1.0,
    tolerance: Annotated[
        float, typer.Option(help="How far a weight may be off, for the smallest scale.")
    ] = 0.01,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Find the query that gives keys the wanted attention weights, or judge a query of yours."""
    if not target and not given:
        raise ConfigError(
            "Give --target, for the query that reaches weights, or --query, to judge one of yours (or both)."
        )
    if values and not given:
        raise ConfigError("--values are what a --query reads; give both.")
    if (model is None) != (not text) or (model is not None and keys):
        raise ConfigError(
            "Keys come from --keys FILE, or from --model MODEL --text TEXT; give one of the two."
        )
    from attnlab.explain.query_answers import EXAMPLE, query_answers, targets_of

    names: list[str] = []
    vectors: Any = EXAMPLE
    if model is not None:
        from attnlab.session.trained import Trained

        own = Trained.at(model).reading.keys(text, layer, head)
        vectors, names, scale = own.keys, own.words, own.scale
    elif keys:
        vectors = rows_in(keys)
    wanted = targets_of(target, len(vectors)) if target else {}
    if given:
        from attnlab.explain.given_query import given_query

        if len(wanted) > 1:
            raise ConfigError(f"--target {target} has {len(wanted)} targets; a --query is judged by one.")
        one = next(iter(wanted.values()), None)
        read = rows_in(values) if values else None
        judged = given_query(vectors, given, names=names, scale=scale, values=read, target=one)
        return present(judged, json=json, html=html)
    answers = query_answers(vectors, wanted, names=names, scale=scale, tolerance=tolerance)
    return present(answers, json=json, html=html)


def superposition(
    first: Annotated[Path | None, typer.Option(help="Basis A: a table, a column for each vector.")] = None,
    second: Annotated[Path | None, typer.Option(help="Basis B, of the same space.")] = None,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Find the matrix that takes v_a out of the average ½(v_a + v_b) of two subspaces, and its error."""
    if (first is None) != (second is None):
        raise ConfigError("--first FILE and --second FILE go together; without both an example is shown.")
    import numpy as np

    from attnlab.explain.superposition import superposition as found

    if first is None or second is None:
        a, b = np.eye(6)[:, :2], np.eye(6)[:, 2:4]
    else:
        a, b = numbers_in(first), numbers_in(second)
    present(found(a, b), json=json, html=html)


def rows_in(text: str) -> NDArray[Any]:
    """A table of numbers: of a file, or as it is written, with ; between rows."""
    import numpy as np

    if ";" not in text:
        return numbers_in(Path(text))
    rows = [numbers_of(row.replace(",", " ").split()) for row in text.split(";") if row.strip()]
    if any(row is None or len(row) != len(rows[0] or []) for row in rows) or not rows or not rows[0]:
        raise ConfigError(f"{text} are not rows of as many numbers each; write for example 0,1,2; 1,1,2.")
    return np.array(rows, np.float64)


def numbers_in(file: Path) -> NDArray[Any]:
    """A table of numbers, separated by commas or spaces; a first line of names is left out."""
    import numpy as np

    from attnlab.data.corpora.readers import lines_of

    if not file.is_file():
        raise ConfigError(f"{file} does not exist; give a file with a row of numbers for each key.")
    lines = [line.replace(",", " ").split() for line in lines_of(file, "utf-8") if line.strip()]
    if lines and numbers_of(lines[0]) is None:
        lines = lines[1:]
    rows = list(map(numbers_of, lines))
    for number, row in enumerate(rows, 1):
        if row is None or len(row) != len(lines[0]) or not all(abs(value) <= LARGEST for value in row):
            shown = " ".join(lines[number - 1])[:60]
            raise ConfigError(
                f"Row {number} of {file} is {shown}; every row has {len(lines[0])} numbers, of at most "
                f"{LARGEST:g}."
            )
    if not rows:
        raise ConfigError(f"{file} has no rows; give a row of numbers for each key.")
    return np.array(rows, np.float64)


def numbers_of(parts: list[str]) -> list[float] | None:
    """What is written there, if it is numbers."""
    try:
        return list(map(float, parts))
    except ValueError:
        return None
