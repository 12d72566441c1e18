"""Documents as HTML: nodes to elements, and pages that are one file."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence

from markupsafe import Markup

from attnlab.documents import grids, plotly_figures, svg
from attnlab.documents import nodes as n
from attnlab.documents.descriptions import description
from attnlab.documents.markup import element, lines_of, pack, policy, shared_template, shared_text, text
from attnlab.documents.nodes import SIGNS, Inline, Node, Number, Tone, numbers_in, parts_of
from attnlab.documents.numbers import (
    beside,
    column_decimals,
    crossed,
    decimals,
    fixed,
    known,
    short,
    value_text,
)
from attnlab.documents.palette import variables
from attnlab.documents.scale import round_numbers

TAGS = {Tone.STRONG: "b", Tone.ITALIC: "em"}
FLATTEST = 1.8
"""How many times as wide as high a map may be: below it there are the names of its columns."""
WHOLE = 28
"""Characters up to which an arm's name is not broken where there is room."""


# ---------------------------------------------------------------- sentences
def inline(part: Inline, places: int | None = None) -> Markup:
    return Markup("").join(_part(piece, places) for piece in parts_of(part))


def _part(part: n.Part, places: int | None) -> Markup:
    match part:
        case str():
            return text(part)
        case None:
            return element("span", "–", class_="none")
        case int() | float():
            return text(short(part))
        case Number():
            return number(part, places)
        case n.Name():
            return name(part)
        case n.Code():
            return element("code", part.text)
        case n.Emphasis():
            inner = inline(part.part, places)
            if part.tone in TAGS:
                return element(TAGS[part.tone], inner)
            if part.tone is Tone.STRUCK:
                return element("s", inner, class_="not-sound")
            return element("span", inner, class_=f"tone-{part.tone}")
        case n.Below():
            return element("small", inline(part.part), class_="beside")
        case n.Bar():
            width = f"width: {100 * min(1.0, abs(part.share)):.1f}%"
            colour = "; background: var(--below)" if part.share < 0 else ""
            return element("span", element("i", style=width + colour), class_="share", role="presentation")
        case n.Sparkline():
            return svg.sparkline(part)
        case n.Reference():
            to = part.to if part.to.startswith("/") else f"#{part.to}"
            return element("a", inline(part.part), href=to)
        case n.Sign():
            sign = element("span", part.mark, aria_hidden="true")
            word = element("span", part.word, class_="hidden")
            return element("span", sign, word, class_=f"outcome outcome-{slug(part.word)}", title=part.word)
        case n.VerdictPill():
            return pill(part)


def number(part: Number, places: int | None = None) -> Markup:
    """Struck where it is invalid, marked ✗ where a stroke would hide its minus; interval and n below it."""
    shown = value_text(part, places)
    if not known(part.value):
        return element("span", shown, class_="none")
    value = element("data", shown, value=part.value)
    if crossed(part):
        mark = element("span", "✗ ", aria_hidden="true") + element("span", "invalid: ", class_="hidden")
        value = element("span", mark, value, class_="crossed")
    elif not part.sound:
        value = element("s", element("span", "invalid: ", class_="hidden"), value, class_="not-sound")
    below = Markup(" ").join(element("span", piece) for piece in beside(part, places))
    return value + (element("small", below, class_="beside") if below else "")


def name(part: n.Name) -> Markup:
    shown: list[object] = [element("bdi", part.text)]
    if part.ink is not None:
        shown.insert(0, svg.stroke(part.ink))
    who = element("span", *shown, class_="who whole" if len(part.text) <= WHOLE else "who")
    tags = [
        Markup(" ") + element("small", word, class_=f"tag tag-{kind}" if kind else "tag")
        for word, kind in part.tags
    ]
    return element("span", who, *tags, class_="arm" if part.sound else "arm unsound-name")


def pill(part: n.VerdictPill) -> Markup:
    look = f"verdict verdict-{slug(part.kind) if part.kind in SIGNS else 'other'}"
    sign = SIGNS.get(part.kind, "·")
    look += " verdict-words" if part.plain else ""
    mark = element("span", sign, aria_hidden="true") + " " if sign and part.kind else Markup("")
    return element("span", mark, part.words or part.kind, class_=look)


def slug(title: str) -> str:
    return re.sub(r"[^a-z]+", "-", title.lower()).strip("-")


# ---------------------------------------------------------------- nodes
def blocks(shown: Sequence[Node], level: int = 3, *, scripts: bool = False) -> Markup:
    """Nodes one after another, their titles as headings of this level; scripts make figures interactive."""
    return lines_of([block(node, level, scripts=scripts) for node in shown])


def block(node: Node, level: int = 3, *, scripts: bool = False) -> Markup:
    match node:
        case n.Heading():
            return element(f"h{node.level}", inline(node.text), id=node.anchor)
        case n.Sentence(kind="quoted"):
            return element("blockquote", inline(node.part), class_="sentence-shown", dir="auto")
        case n.Sentence():
            return element("p", inline(node.part), class_=node.kind)
        case n.Notice():
            look = f"notice notice-{node.kind}" if node.kind else "notice"
            return element("p", inline(node.part), class_=look, role="note")
        case n.Items():
            return items(node)
        case n.Table():
            return _section(node.title, table(node), node.note, level)
        case n.Definitions():
            pairs = [
                element("div", element("dt", inline(term)), element("dd", inline(meaning)))
                for term, meaning in node.items
            ]
            return _section(node.title, element("dl", *pairs, class_=node.look), "", level)
        case n.Figure():
            if scripts:
                return _section(node.title, canvas(node), "", level)
            return _section(node.title, figure(node), node.note, level)
        case n.Grid():
            return _section(node.title, grids.grid(node, table), node.note, level)
        case n.Grids():
            return _section(node.title, grids.grids(node, table, level), node.note, level)
        case n.StackedBar():
            return _section(node.title, grids.stack(node), node.note, level)
        case n.Forest():
            return forest(node)
        case n.Marked():
            return element("p", *map(_span, node.spans), class_="marked", dir="auto")
        case n.Code():
            return element("pre", element("code", node.text), class_="command", tabindex=0)
        case n.Details():
            summary = element("summary", node.summary)
            return element("details", summary, blocks(node.nodes, level, scripts=scripts))
        case n.Cards():
            cards = (_card(item, node.look, level) for item in node.items)
            return element("div", *cards, class_="" if node.look == "findings" else node.look)
        case n.Section():
            anchor = node.anchor or slug(node.title)
            head = element(f"h{level}", node.title, id=anchor)
            inner = blocks(node.nodes, level + 1, scripts=scripts)
            look = "part" if level == 2 else "section"
            return element("section", head, inner, class_=look, aria_labelledby=anchor)
        case n.Pictures():
            shown = element("div", *map(picture, node.items), class_="pictures")
            return _section(node.title, shown, node.note, level)
        case n.Frame():
            return _section("", Markup(node.markup), node.note, level)


def _section(title: Inline, body: Markup, note: Inline, level: int) -> Markup:
    """A node under its title, with what has to be known to read it."""
    parts = [element(f"h{level}", inline(title))] if title else []
    return lines_of([*parts, body, *([element("p", inline(note), class_="fine")] if note else [])])


def items(node: n.Items) -> Markup:
    if not node.ordered:
        lines = (element("li", inline(item)) for item in node.items)
        return element("ul", *lines, class_=node.kind, aria_label=node.label)
    texts = (element("li", element("span", inline(item), dir="auto")) for item in node.items)
    return element("ol", *texts, class_=node.kind, tabindex=0)


def _span(span: n.MarkedSpan) -> Markup:
    if span.label:
        return element("mark", span.text, element("small", f" {span.label}"))
    if span.tone is None and span.shade is None:
        return text(span.text)
    look = f"tone-{span.tone}" if span.tone else f"token-{(span.shade or 0) % 2}"
    return element("span", span.text, class_=look)


def _card(item: n.CardItem, look: str, level: int) -> Markup:
    inside = blocks(item.nodes, level + 1)
    if look == "columns":
        return element("div", element("h4", inline(item.title)), inside)
    if look == "findings":
        head = element(f"h{level}", inline(item.title))
        return element("article", head, inside, class_=f"finding finding-{slug(item.kind)}")
    head = element("h4", inline(item.title))
    return element("article", head, inside, class_="card" if item.sound else "card unsound")


def picture(item: n.PictureItem) -> Markup:
    """Drawn large with hard edges, since models see small ones; its parts darkened by their weights."""
    rows, columns = len(item.weights) or 1, len(item.weights[0]) if item.weights else 1
    top = max((weight for row in item.weights for weight in row), default=0.0) or 1.0
    source = f"data:image/png;base64,{base64.b64encode(item.picture).decode()}"
    veils = [
        element(
            "rect",
            element("title", f"row {down}, column {across}: {short(weight)}"),
            x=across,
            y=down,
            width=1,
            height=1,
            fill="#141519",
            fill_opacity=f"{0.85 * (1 - weight / top):.3f}",
        )
        for down, row in enumerate(item.weights)
        for across, weight in enumerate(row)
    ]
    size = {"width": columns, "height": rows}
    aspect = {"preserveAspectRatio": "none" if item.weights else "xMidYMid meet"}
    image = element("image", href=source, **size, **aspect)
    drawn = element(
        "svg", image, *veils, viewBox=f"0 0 {columns} {rows}", role="img", aria_label=inline(item.title)
    )
    caption = element("figcaption", element("b", inline(item.title)), " ", inline(item.note))
    return element("figure", drawn, caption, class_="picture")


# ---------------------------------------------------------------- tables
def table(node: n.Table) -> Markup:
    """The first cell of a row is its name; a wide table scrolls by itself."""
    right = ["number" if node.numeric(p) else head.look for p, head in enumerate(node.heads)]
    heads = [
        element("th", _head(head), scope="col", class_="" if look == "sentence" else look)
        for look, head in zip(right, node.heads, strict=True)
    ]
    named = node.caption or node.title
    look = "" if node.caption else "hidden"
    parts = [element("caption", inline(named), class_=look)] if named else []
    parts += [element("thead", element("tr", *heads)), *_bodies(node, right)]
    whole = element("table", *parts, class_=node.look)
    label = "".join(part for part in parts_of(node.title or node.caption) if isinstance(part, str))
    return element("div", whole, class_="scroll", tabindex=0, role="region", aria_label=label)


def _head(head: n.TableColumn) -> Markup:
    shown = inline(head.title)
    return element("abbr", shown, title=head.definition) if head.definition else shown


def _bodies(node: n.Table, right: Sequence[str]) -> Iterator[Markup]:
    """The rows, in groups."""
    places = column_decimals(node)
    groups: list[list[Markup]] = [[]]
    for row in node.lines:
        if row.group:
            head = element("th", row.group, colspan=len(node.heads), scope="rowgroup")
            groups.append([element("tr", head, class_="group")])
        cells = []
        for place, cell in enumerate(row.cells):
            struck = row.sound and any(not number.sound for number in numbers_in(cell))
            look = " ".join(filter(None, [right[place], "unsound" if struck else ""]))
            own = {"scope": "row"} if place == 0 else {}
            own |= {"dir": "auto"} if node.heads[place].look == "sentence" else {}
            cells.append(element("td" if place else "th", inline(cell, places[place]), class_=look, **own))
        look = " ".join(filter(None, ["" if row.sound else "unsound", "apart" if row.apart else ""]))
        groups[-1].append(element("tr", *cells, class_=look))
    return (element("tbody", *rows) for rows in groups if rows)


# ---------------------------------------------------------------- figures
def figure(node: n.Figure) -> Markup:
    """The first chart as a drawing, for pages without scripts."""
    chart = node.first
    if isinstance(chart, n.Lines):
        return svg.curves(chart)
    if isinstance(chart, n.Heat):
        return grids.grid(n.Grid(chart.tokens, chart.column_names, chart.weights, scale=chart.top), table)
    rows = [
        (f"{low:g} to {high:g}", count, n.Bar(count / (max(chart.counts) or 1)))
        for low, high, count in zip(chart.edges, chart.edges[1:], chart.counts, strict=False)
    ]
    return table(n.Table((chart.x.title, chart.y.title, ""), rows))


def canvas(node: n.Figure) -> Markup:
    """What the page's script draws on, with its switches and its legend."""
    parts = []
    if node.controls:
        sets = [_control(node.anchor, place, control) for place, control in enumerate(node.controls)]
        parts.append(element("div", *sets, class_="controls"))
    if len(node.legend) > 1:
        parts.append(element("ul", *(_legend(own, label) for own, label in node.legend), class_="legend"))
    look = "canvas square" if node.square else "canvas"
    charts = next(iter(node.views.values()))
    panels = []
    for panel, chart in zip(node.panels, charts, strict=True):
        whose = f"{panel.text}: " if panel else ""
        named = {"aria_label": f"{whose}{description(chart)}", "data_whose": whose, **_shape(chart)}
        drawn = element("div", class_=look, role="img", **named)
        panels.append(element("div", _panel_name(panel), drawn, class_="panel"))
    parts.append(element("div", *panels, class_="panels panels-many" if len(panels) > 1 else "panels"))
    parts += [element("figcaption", inline(node.note))] if node.note else []
    own = {"id": f"plot-{node.anchor}", "data_plot": node.anchor, "aria_label": node.alt}
    return element("figure", *parts, class_="plot", **own)


def _shape(chart: n.Chart) -> dict[str, str]:
    """A map of few rows and many columns is lower than it is wide, so that its cells stay about square."""
    if not isinstance(chart, n.Heat) or not chart.keys:
        return {}
    ratio = min(max(len(chart.keys) / max(1, len(chart.tokens)), 1), FLATTEST)
    return {"style": f"aspect-ratio: {ratio:.2f}"}


def _control(anchor: str, place: int, control: n.Control) -> Markup:
    choices = []
    for number, option in enumerate(control.options):
        chosen = {"name": f"{anchor}-{place}", "value": number, "checked": number == 0}
        choices.append(element("label", element("input", type="radio", **chosen), element("span", option)))
    return element("fieldset", element("legend", control.label), *choices, hidden=len(control.options) < 2)


def _legend(own: n.Name, label: str) -> Markup:
    assert own.ink is not None
    pressed = {"type": "button", "aria_pressed": "true", "data_name": own.text}
    look = "" if own.sound else "unsound-name"
    return element(
        "li", element("button", svg.stroke(own.ink), element("bdi", label), class_=look, **pressed)
    )


def _panel_name(panel: n.Name | None) -> Markup:
    if panel is None or panel.ink is None:
        return Markup("")
    look = "panel-name" if panel.sound else "panel-name unsound-name"
    return element("p", svg.stroke(panel.ink), element("bdi", panel.text), class_=look)


EDGE = 4
"""Percent of a forest's width at its sides where no number of its axis stands: it would be cut."""


def forest(node: n.Forest) -> Markup:
    """Differences with their intervals, a row each, over a common axis; what is not sound does not set it."""
    differences = [row.difference for row in node.rows]
    places = decimals(differences)
    low, high = _range([row for row in node.rows if row.sets_scale] or node.rows)

    def at(value: float) -> float:
        return round(100 * (value - low) / (high - low), 3)

    ticks = round_numbers(low, high)
    unit = 100 if any(difference.form == "points" for difference in differences) else 1
    step = unit * (ticks[1] - ticks[0]) if len(ticks) > 1 else 1
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    named = [
        element("span", fixed(unit * tick, digits, sign=True), style=f"left: {at(tick)}%")
        for tick in ticks
        if EDGE <= at(tick) <= 100 - EDGE
    ]
    sides = [
        element("span", f"← {node.left}", style="left: 0"),
        element("span", f"{node.right} →", style="right: 0"),
    ]
    return element(
        "figure",
        element("figcaption", inline(node.caption)) if node.caption else "",
        element("div", element("span"), element("p", *sides), class_="forest-sides", aria_hidden="true"),
        *(_forest_row(row, at, places) for row in node.rows),
        element("div", element("span"), element("p", *named), class_="forest-axis", aria_hidden="true"),
        class_="forest",
    )


def _range(rows: Sequence[n.ForestRow]) -> tuple[float, float]:
    """From these rows' intervals, seeds and zero, with a margin."""
    values = [
        end
        for row in rows
        for end in (row.difference.value, row.difference.low, row.difference.high, *row.each)
    ]
    finite = [0.0, *(value for value in values if known(value) and abs(value) != float("inf"))]
    low, high = min(finite), max(finite)
    margin = 0.12 * (high - low) or 1.0
    return low - margin, high + margin


def _forest_row(row: n.ForestRow, at: Callable[[float], float], places: int) -> Markup:
    numbers = ", ".join([value_text(row.difference, places), *beside(row.difference, places)])
    colour = f"--ink: {row.name.ink.colour}" if row.name.ink else ""
    label = f"{row.name.text}: {numbers}, {row.said.words or row.said.kind}"
    beneath = Markup(" ") + element("small", inline(row.beside), class_="beside") if row.beside else ""
    why = element("small", inline(row.why), class_="beside") if row.why else Markup("")
    empty = not known(row.difference.value)
    drawn = element("svg", *_marks(row, at), class_="forest-plot", role="img", aria_label=label, style=colour)
    look = "" if row.difference.sound else " unsound"
    return element(
        "div",
        element("div", name(row.name), beneath, class_="forest-name"),
        element("p", inline(row.why), class_="forest-why") if empty else drawn,
        "" if empty else element("div", number(row.difference, places), class_="forest-number"),
        element("div", pill(row.said), "" if empty else why, class_="forest-verdict"),
        class_=f"forest-row forest-empty{look}" if empty else f"forest-row{look}",
    )


def _marks(row: n.ForestRow, at: Callable[[float], float]) -> list[Markup]:
    """From the back: what could have been missed, zero, each seed, the interval, the mean."""

    def inside(value: float) -> float:
        return min(max(at(value), 0), 100)

    value, low, high = row.difference.value, row.difference.low, row.difference.high
    zero, drawn = f"{at(0)}%", list[Markup]()
    if row.detectable is not None:
        left, right = (inside(side * row.detectable) for side in (-1, 1))
        size = {"x": f"{left}%", "width": f"{right - left:.3f}%", "y": 0, "height": "100%"}
        drawn.append(element("rect", class_="missed", **size))
    drawn.append(element("line", class_="zero", x1=zero, x2=zero, y1="0", y2="100%"))
    seeds = [seed for seed in row.each if 0 <= at(seed) <= 100]
    drawn += [element("circle", class_="seed", cx=f"{at(seed)}%", cy="76%", r=2) for seed in seeds]
    if known(low) and known(high) and at(high) > 0 and at(low) < 100:
        ends = {"x1": f"{inside(low)}%", "x2": f"{inside(high)}%"}
        drawn.append(element("line", class_="whisker", **ends, y1="50%", y2="50%"))
    place = {"y": "50%", "dy": ".35em", "class_": "beyond"}
    if known(value) and at(value) < 0:
        drawn.append(element("text", "◀ off the scale", x="0", **place))
    elif known(value) and at(value) > 100:
        drawn.append(element("text", "off the scale ▶", x="100%", text_anchor="end", **place))
    elif known(value):
        drawn.append(element("circle", class_="dot", cx=f"{at(value)}%", cy="50%", r=5))
    return drawn


# ---------------------------------------------------------------- pages
LONG, MEDIUM = 420, 220
"""Characters of a headline from which on it is set smaller; that of a short page is never large."""


def page(document: n.DocumentPage, *, scripts: bool = False) -> str:
    """One file that needs nothing else: only our scripts run, on data packed in it."""
    frames = [node for node in document.nodes if isinstance(node, n.Frame)]
    figures = list(figures_in(document.nodes)) if scripts else []
    data = {key: content for frame in frames for key, content in frame.data.items()}
    script = "\n".join(frame.script for frame in frames) or (page_script() if scripts else "")
    allowed = [script] if script else []
    if figures:
        views = {figure.anchor: {"views": plotly_figures.views(figure)} for figure in figures}
        allowed.append(plotly_figures.source())
        data |= {"plotly": allowed[-1], "plots": json.dumps(views, allow_nan=False, separators=(",", ":"))}
    length = len(document.headline)
    return shared_template("page.html").render(
        document=document,
        size="long" if length > LONG else "medium" if length > MEDIUM or not document.parts else "",
        lead=blocks(document.lead),
        contents=contents(document),
        body=blocks(document.nodes, 2 if document.parts else 3, scripts=scripts),
        palette=[variables(dark=False), variables(dark=True)],
        plots=bool(figures),
        script=Markup(script),
        data={key: pack(content) for key, content in data.items()},
        policy=policy(*allowed),
    )


def page_script() -> str:
    """What makes a page's figures and tables interactive."""
    return "\n".join(map(shared_text, ("plots.js", "tables.js", "page.js")))


def page_styles() -> str:
    """How documents look, as a file of its own: for pages that are served."""
    palette = [variables(dark=False), variables(dark=True)]
    return shared_template("page.css").render(palette=palette)


def figures_in(shown: Sequence[Node]) -> Iterator[n.Figure]:
    """Every figure, wherever it stands."""
    for node in shown:
        if isinstance(node, n.Figure):
            yield node
        elif isinstance(node, n.Section | n.Details):
            yield from figures_in(node.nodes)


def contents(document: n.DocumentPage) -> Markup:
    """Parts and sections, to be led to."""

    def link(section: n.Section) -> Markup:
        return element("a", section.title, href=f"#{section.anchor or slug(section.title)}")

    lines = []
    for part in document.parts:
        inner = [element("li", link(node)) for node in part.nodes if isinstance(node, n.Section)]
        lines.append(element("li", link(part), element("ol", *inner) if inner else ""))
    return element("ol", *lines) if lines else Markup("")
