"""The cards of everything there is, with pictures that follow their options, and what is refused together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse
from markupsafe import Markup
from pydantic import BaseModel, Field

from attnlab.config.registry import TABLES
from attnlab.config.setting_cards import overview
from attnlab.config.values import unknown_name
from attnlab.config.wording import count_of
from attnlab.documents.html import inline
from attnlab.documents.markup import element
from attnlab.documents.nodes import (
    Axis,
    Code,
    Definitions,
    Figure,
    Grid,
    Inline,
    Line,
    Lines,
    Name,
    Node,
    Number,
    Sentence,
    Table,
    TableColumn,
    TableRow,
)
from attnlab.documents.palette import ink
from attnlab.web.laboratory import Laboratory
from attnlab.web.shell import ShellPage, nodes, plot_of, plots_of, template

PICTURED = {"masks": "mask", "positions": "positions", "attention": "feature_map"}
"""Tables whose variants have a picture, and the action that draws it."""


TOGETHER = "Which work together"


class DrawnChoice(BaseModel):
    """A variant with its options as text, such as window(size=8)."""

    table: Annotated[str, Field(max_length=40)]
    choice: Annotated[str, Field(max_length=400)]


def routes(laboratory: Laboratory) -> APIRouter:
    router = APIRouter()
    known: dict[str, Any] = {}

    async def asked(action: str, **values: Any) -> dict[str, Any]:
        """An answer of the package itself, which stays what it is."""
        key = f"{action} {sorted(values.items())}"
        if key not in known:
            known[key] = await laboratory.workers.answer(action, None, values)
        return dict(known[key])

    @router.get("/parts", response_class=HTMLResponse)
    async def parts() -> str:
        """Every table with its variants."""
        return overview_page(await asked("combinations")).html()

    @router.get("/parts/{table}", response_class=HTMLResponse)
    async def table(table: str) -> str:
        """The cards of a table."""
        refuse_unknown(table)
        return table_page(table, (await asked("cards", table=table))["cards"]).html()

    @router.get("/parts/{table}/{name}", response_class=HTMLResponse)
    async def part(table: str, name: str) -> str:
        """One variant: its card, and its picture."""
        refuse_unknown(table)
        entry = await asked("card", table=table, name=name)
        drawn: list[Node] = []
        if table in PICTURED:
            drawn = await picture(laboratory, table, name)
        return part_page(table, entry, drawn).html()

    @router.post("/api/picture")
    async def drawn(asked: DrawnChoice) -> dict[str, Any]:
        """The picture of a variant with these options."""
        refuse_unknown(asked.table)
        shown = await picture(laboratory, asked.table, asked.choice, fail=True)
        figures = {node.anchor: plot_of(node) for node in shown if isinstance(node, Figure)}
        return {"html": nodes(shown, 3), "plots": figures}

    return router


def coded(text: str) -> Inline:
    """What a docstring has between backticks is code."""
    pieces = text.split("`")
    return tuple(Code(piece) if place % 2 else piece for place, piece in enumerate(pieces))


def refuse_unknown(table: str) -> None:
    if table not in TABLES:
        raise unknown_name("Tables", table, TABLES)


# ---------------------------------------------------------------- pages
def overview_page(survey: Mapping[str, Any]) -> ShellPage:
    """All tables with the summaries of their variants, and the combinations that cannot work."""
    sections: list[Markup] = []
    for table, variants in overview().items():
        rows = [
            element(
                "tr",
                element("th", element("a", name, href=f"/parts/{table}/{name}"), scope="row"),
                element("td", inline(coded(summary))),
            )
            for name, summary in variants.items()
        ]
        link = element("a", table, href=f"/parts/{table}")
        inside = element("table", element("tbody", *rows), class_="wide")
        sections.append(element("section", element("h2", link, id=table), inside, class_="part"))
    anchors = {table: table for table in overview()} | {"combinations": TOGETHER}
    contents = element("ol", *(element("li", element("a", t, href=f"#{a}")) for a, t in anchors.items()))
    counted: list[TableRow | tuple[Inline, ...]] = [(Number(survey["work"], form="count"), "work")]
    counted += [
        (Number(one["count"], form="count"), f"refused: {one['reason']}") for one in survey["refused"]
    ]
    product = " × ".join(f"{count} {name}" for name, count in survey["parts"].items())
    counted.append(TableRow((Number(survey["total"], form="count"), product), apart=True))
    together = Table((TableColumn("combinations", right=True), "outcome"), counted)
    head = element("h2", TOGETHER, id="combinations")
    sections.append(element("section", head, nodes([together]), class_="part"))
    everything = sum(len(variants) for variants in overview().values())
    return ShellPage(
        title="Parts",
        headline=f"{count_of(everything, 'part')} to choose from",
        eyebrow="everything a config, a study or a check can name",
        body=Markup("\n").join(sections),
        contents=contents,
        here="/parts",
    )


def table_page(table: str, cards: list[Mapping[str, Any]]) -> ShellPage:
    """The cards of a table, one after another."""
    rows: list[tuple[Inline, ...]] = []
    for entry in cards:
        options = ", ".join(entry["options"]) or "–"
        rows.append((Code(entry["name"]), coded(entry["summary"]), options))
    shown = nodes([Table((TableColumn("name", whole=True), "what it is", "options"), rows)])
    links = [
        element("a", entry["name"], href=f"/parts/{table}/{entry['name']}", class_="control")
        for entry in cards
    ]
    return ShellPage(
        title=table,
        headline=table,
        eyebrow=element("a", "Parts", href="/parts") + f" / {table}",
        body=shown + element("p", Markup(" ").join(links), class_="actions"),
        here="/parts",
    )


def part_page(table: str, entry: Mapping[str, Any], drawn: list[Node]) -> ShellPage:
    """A card: summary, formula, cost, when it helps, paper, options; and what it looks like."""
    sections = entry["sections"]
    card: list[Node] = (
        [Definitions([(name, coded(text)) for name, text in sections.items()], "config")] if sections else []
    )
    rest = entry["text"].split("\n\n")[0] if not sections else ""
    card = [*([Sentence(rest, "prose")] if rest else []), *card]
    options = [
        (Code(name), option["takes"], "needed" if option["default"] is None else str(option["default"]))
        for name, option in entry["options"].items()
    ]
    if options:
        card.append(Table((TableColumn("option", whole=True), "takes", "default"), options, title="Options"))
    body = [element("div", nodes(card), class_="part-card")]
    if table in PICTURED and drawn:
        form = template("picture_form.html", table=table, name=entry["name"], options=list(entry["options"]))
        body.append(
            element("section", element("h2", "Picture"), form, element("div", nodes(drawn, 3), id="picture"))
        )
    return ShellPage(
        title=entry["name"],
        headline=inline(coded(entry["summary"] or entry["name"])),
        eyebrow=element("a", "Parts", href="/parts")
        + " / "
        + element("a", table, href=f"/parts/{table}")
        + f" / {entry['name']}",
        body=Markup("\n").join(body),
        here="/parts",
        scripts=("parts.js",),
        data={"plots": plots_of(drawn)},
    )


# ---------------------------------------------------------------- pictures
async def picture(laboratory: Laboratory, table: str, choice: str, *, fail: bool = False) -> list[Node]:
    """A mask as a grid, positions as their products, a feature map as a curve; nothing where a variant has
    no picture of its own."""
    from attnlab.web.worker_pool import WorkerError

    try:
        if table == "masks":
            return mask_nodes(await laboratory.workers.answer("mask", None, {"set": mask_settings(choice)}))
        if table == "positions":
            settings = [f"model.positions={choice}"]
            return position_nodes(await laboratory.workers.answer("positions", None, {"set": settings}))
        if table == "attention" and choice.partition("(")[0] == "linear":
            feature = "relu" if "relu" in choice else "elu"
            return feature_nodes(await laboratory.workers.answer("feature_map", None, {"feature": feature}))
    except WorkerError:
        if fail:
            raise
    return []


def mask_settings(choice: str) -> list[str]:
    """An encoder sees both sides; what is causal is a decoder's."""
    family = "decoder" if choice.partition("(")[0] in ("causal", "prefix") else "encoder"
    return [f"model.family={family}", f"model.mask={choice}"]


def mask_nodes(answer: Mapping[str, Any]) -> list[Node]:
    words = list(answer["words"])
    grids: list[Node] = []
    for name, allowed in answer["masks"].items():
        values = [[1.0 if cell else None for cell in row] for row in allowed]
        grids.append(Grid(words, words, values, title=name, key=((1.0, "may attend"), (None, "may not"))))
    return [Sentence(answer["headline"]), *grids]


def position_nodes(answer: Mapping[str, Any]) -> list[Node]:
    shown: list[Node] = [Sentence(answer["headline"])]
    alone = len(answer["grids"]) == 1
    for grid in answer["grids"]:
        names = [str(place) for place in range(len(grid["values"]))]
        title = answer["title"] if alone else f"{answer['title']}, {grid['name']}"
        shown.append(Grid(names, names, grid["values"], title=title))
    if angles := answer.get("angles"):
        pairs = [place for place in range(len(angles[0])) if place < 4 or place == len(angles[0]) - 1]
        places = list(range(len(angles)))
        lines = [
            Line(f"pair {pair}", places, [row[pair] for row in angles], ink=ink(number))
            for number, pair in enumerate(pairs)
        ]
        shown.append(
            Figure(
                {"": [Lines(lines, Axis("position"), Axis("radians"))]},
                "Angle by which each pair of numbers is turned",
                anchor="angles",
                legend=[(Name(line.name, line.ink), line.name) for line in lines],
            )
        )
    return shown


def feature_nodes(answer: Mapping[str, Any]) -> list[Node]:
    line = Line(answer["formula"], answer["x"], answer["y"])
    chart = Lines([line], Axis("x"), Axis(answer["formula"], from_zero=True))
    return [Figure({"": [chart]}, "", anchor="features", alt=answer["formula"])]
