"""What is shown, as data: a headline and nodes that terminal, page, Markdown and notebook render alike.

A `str` is text of others: every renderer shows it as text. How it looks is said by the node around it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Literal, TypeAlias

from attnlab import __version__
from attnlab.documents.palette import Ink

Form = Literal[
    "plain", "signed", "seconds", "count", "scaled", "bytes", "percent", "points", "chance", "general"
]
"""`points` are differences of percentages."""


class Tone(StrEnum):
    """What a part of a sentence is, for its looks."""

    STRONG = "strong"
    ITALIC = "italic"
    MUTED = "muted"
    NAME = "name"
    CHOSEN = "chosen"
    GOOD = "good"
    WARNING = "warning"
    WRONG = "wrong"
    STRUCK = "struck"


SIGNS = {
    "better": "▲",
    "worse": "▼",
    "no difference": "≈",
    "inconclusive": "?",
    "identical": "≡",
    "not trained long enough": "…",
    "invalid": "✗",
    "failed": "✗",
    "not run": "–",
    "baseline": "",
}
"""Of verdicts, wherever they are shown."""
STATES = {
    "waiting": "○",
    "preparing": "○",
    "running": "◐",
    "finished": "✓",
    "converted": "✓",
    "interrupted": "‖",
    "stopped": "‖",
    "failed": "✗",
    "invalid": "✗",
    "damaged": "✗",
}
"""Of runs and jobs, wherever they are shown."""


# ---------------------------------------------------------------- parts of a sentence
@dataclass(frozen=True)
class Number:
    """A number with how sure it is. The renderer chooses its digits, and strikes it where it is not sound."""

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    form: Form = "plain"
    sound: bool = True
    without_interval: str = ""
    """What is told where an interval belongs to it and is not known."""
    decimals: int | None = None
    """None: as many as its interval bears out, the same all the way down a column."""

    @classmethod
    def within(
        cls, value: float | None, interval: Sequence[float] | None, *, decimals: int | None = None
    ) -> Number:
        """A value and its interval (low, high), if it has one; a whole number is a count."""
        low, high = interval or (None, None)
        form: Form = "count" if isinstance(value, int) else "plain"
        return cls(value, low, high, form=form, decimals=decimals)


@dataclass(frozen=True)
class Name:
    """Of an arm: its colour, whether its numbers may be believed, and what else is told of it in a word."""

    text: str
    ink: Ink | None = None
    sound: bool = True
    tags: tuple[tuple[str, str], ...] = ()
    """(word, kind) each, such as ("baseline", "") or ("invalid", "invalid")."""


@dataclass(frozen=True)
class Code:
    """What a person types: inside a sentence, or a line of its own."""

    text: str
    language: str = ""


@dataclass(frozen=True)
class Emphasis:
    part: Inline
    tone: Tone = Tone.STRONG


@dataclass(frozen=True)
class Below:
    """Small, under what it stands behind: the reason of a state, the tokens of a sentence."""

    part: Inline


@dataclass(frozen=True)
class Bar:
    """A share as a bar; one below zero has the hue of what is below zero."""

    share: float
    tone: Tone | None = None
    room: float = 1.0
    """Of the length that bars usually have, where several share a line."""


@dataclass(frozen=True)
class Sparkline:
    """A small curve among words: values at shares of a budget, on the scale that its neighbours share."""

    shares: Sequence[float]
    values: Sequence[float | None]
    said: str = ""
    """It in words: dev loss 9.15 to 8.92 in 30 steps."""
    scale: tuple[float, float] | None = None
    """The lowest and highest value of the group; None: its own."""
    broken: bool = False
    """Whether what it shows ended before its time."""
    ink: Ink | None = None
    """Of the arm that it belongs to; None: that of text."""

    @property
    def span(self) -> tuple[float, float]:
        known = [value for value in self.values if value is not None]
        return self.scale or (min(known, default=0.0), max(known, default=0.0))

    def places(self, count: int) -> list[float | None]:
        """The last value at each of `count` equal parts of the budget, None where there is none."""
        places: list[float | None] = [None] * count
        for share, value in zip(self.shares, self.values, strict=True):
            if value is not None:
                places[min(count - 1, int(share * count))] = value
        return places


@dataclass(frozen=True)
class Reference:
    """A part that leads to a heading of the same page, or to another page of the same server: "/parts"."""

    part: Inline
    to: str


@dataclass(frozen=True)
class Sign:
    """A mark, and the word that it stands for: ✗ fail."""

    mark: str
    word: str


@dataclass(frozen=True)
class VerdictPill:
    """A verdict by its kind (better, worse, no difference, …), and what is said in its place, if anything."""

    kind: str
    words: str = ""
    plain: bool = False
    """As words among others, not on a ground of its own."""


Part: TypeAlias = (
    "str | Number | Name | Code | Emphasis | Below | Bar | Sparkline | Reference | Sign | VerdictPill"
    " | int | float | None"
)
Inline: TypeAlias = "Part | tuple[Inline, ...]"
"""Parts of a sentence; a bare number is shown to three digits, None as a dash."""


def strong(*parts: Inline) -> Emphasis:
    return Emphasis(parts)


def toned(tone: Tone, *parts: Inline) -> Emphasis:
    return Emphasis(parts, tone)


def muted(*parts: Inline) -> Emphasis:
    return Emphasis(parts, Tone.MUTED)


def state(word: str) -> Inline:
    """A state by its sign and its word; what went wrong stands out, what waits does not."""
    shown = f"{STATES.get(word, '?')} {word}"
    tones = {"✗": Tone.WRONG, "○": Tone.MUTED, "?": Tone.MUTED}
    return toned(tones[shown[0]], shown) if shown[0] in tones else shown


def emphasised(text: str) -> Inline:
    """*Words* between asterisks stand out, as docstrings have them."""
    pieces = re.split(r"\*(\w[^*]*)\*", text)
    return tuple(toned(Tone.ITALIC, piece) if place % 2 else piece for place, piece in enumerate(pieces))


def listed(parts: Iterable[Inline], between: str = ", ") -> Inline:
    """One after another."""
    return tuple((between if place else "", part) for place, part in enumerate(parts))


# ---------------------------------------------------------------- nodes
@dataclass(frozen=True)
class Heading:
    text: Inline
    level: int = 3
    anchor: str = ""


@dataclass(frozen=True)
class Sentence:
    """One or more sentences in a paragraph. `kind` is its place on a page."""

    part: Inline
    kind: Literal["prose", "fine", "quoted", "scope", ""] = ""


@dataclass(frozen=True)
class Notice:
    """What has to be known before anything below is believed."""

    part: Inline
    kind: Literal["", "quick", "invalid"] = ""


@dataclass(frozen=True)
class Items:
    """Sentences of equal standing."""

    items: Sequence[Inline]
    kind: str = "prose"
    ordered: bool = False
    label: str = ""


@dataclass(frozen=True)
class TableColumn:
    title: Inline = ""
    definition: str = ""
    right: bool | None = None
    """Numbers stand to the right; None: where every cell is a number."""
    alike: bool = True
    """The same decimals all the way down: not where every row is another measure."""
    whole: bool = False
    """Never broken: names are there to be copied."""
    share: int | None = None
    """Of a terminal's width, where it is short."""
    look: str = ""
    """A class of its cells on a page: sentence, centre."""


@dataclass(frozen=True)
class TableRow:
    cells: Sequence[Inline]
    sound: bool = True
    apart: bool = False
    """A sum or the like, set off from the rows above it."""
    group: str = ""
    """The heading of the rows from here on."""


@dataclass(frozen=True)
class Table:
    columns: Sequence[TableColumn | str]
    rows: Sequence[TableRow | Sequence[Inline]]
    title: Inline = ""
    note: Inline = ""
    caption: Inline = ""
    look: str = ""
    """Classes of a page: wide, dense."""

    @cached_property
    def heads(self) -> list[TableColumn]:
        return [TableColumn(column) if isinstance(column, str) else column for column in self.columns]

    @cached_property
    def lines(self) -> list[TableRow]:
        return [row if isinstance(row, TableRow) else TableRow(row) for row in self.rows]

    def numeric(self, place: int) -> bool:
        """Whether a column stands to the right."""
        if (right := self.heads[place].right) is not None:
            return right
        cells = [row.cells[place] for row in self.lines]
        return bool(cells) and all(cell is None or isinstance(cell, Number | int | float) for cell in cells)

    def column(self, place: int) -> list[Number]:
        """The numbers of a column that share their decimals."""
        if not self.heads[place].alike:
            return []
        return [number for row in self.lines for number in numbers_in(row.cells[place])]


def numbers_in(inline: Inline) -> Iterator[Number]:
    """Every number of a sentence, emphasised ones too."""
    for part in parts_of(inline):
        if isinstance(part, Number):
            yield part
        elif isinstance(part, Emphasis):
            yield from numbers_in(part.part)


def parts_of(inline: Inline) -> list[Part]:
    """A sentence's parts, one after another."""
    if not isinstance(inline, tuple):
        return [inline]
    return [part for inner in inline for part in parts_of(inner)]


@dataclass(frozen=True)
class Definitions:
    """Terms and what they are. `look`: definitions, facts or config."""

    items: Sequence[tuple[Inline, Inline]]
    look: str = "definitions"
    title: Inline = ""


@dataclass(frozen=True)
class Line:
    """A curve; `low` and `high` are a band around it, `hover` is told of each point.

    `thin` is one of several that stand for a name, such as a single seed; `dots` are not joined.
    """

    name: str
    x: Sequence[float | None]
    y: Sequence[float | None]
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None
    hover: Sequence[str] = ()
    label: str = ""
    ink: Ink | None = None
    thin: bool = False
    dots: bool = False
    x_low: Sequence[float | None] | None = None
    x_high: Sequence[float | None] | None = None


@dataclass(frozen=True)
class Level:
    """A value to compare with, such as that of the most frequent label: a named dashed line across."""

    name: str
    value: float


@dataclass(frozen=True)
class Axis:
    title: str = ""
    log: bool = False
    form: Form = "plain"
    """How its values are written; shares as percentages."""
    from_zero: bool = False
    at: Sequence[float] = ()
    """Where values lie that are few enough to name each."""
    span: tuple[float, float] | None = None


@dataclass(frozen=True)
class Lines:
    """Curves over common axes; `diagonal` is where both values are equal."""

    lines: Sequence[Line]
    x: Axis = Axis()
    y: Axis = Axis()
    levels: Sequence[Level] = ()
    diagonal: bool = False


@dataclass(frozen=True)
class Bars:
    """A histogram of given bins."""

    edges: Sequence[float]
    counts: Sequence[float]
    x: Axis = Axis()
    y: Axis = Axis()


@dataclass(frozen=True)
class Heat:
    """Weights of queries (rows) on keys (columns), of the same tokens unless there are `keys`; None where
    there is no number."""

    tokens: Sequence[str]
    weights: Sequence[Sequence[float | None]]
    top: float
    rows: str = "queries"
    columns: str = "keys"
    verb: str = "attends to"
    """What a row does to a column, for a reader who points at a cell."""
    keys: Sequence[str] = ()
    """What stands at the columns, where that is something else than at the rows."""

    @property
    def column_names(self) -> Sequence[str]:
        return self.keys or self.tokens


Chart = Lines | Bars | Heat


@dataclass(frozen=True)
class Control:
    """A switch above a figure."""

    label: str
    options: Sequence[str]


@dataclass(frozen=True)
class Figure:
    """Charts side by side, and a view of them for each setting of the controls.

    `views` maps the options' places, joined by commas, to a chart a panel.
    """

    views: Mapping[str, Sequence[Chart]]
    title: Inline = ""
    note: Inline = ""
    anchor: str = ""
    alt: str = ""
    controls: Sequence[Control] = ()
    panels: Sequence[Name | None] = (None,)
    legend: Sequence[tuple[Name, str]] = ()
    """Each line's name with its label."""
    square: bool = False

    @classmethod
    def of(cls, title: Inline, chart: Chart, note: Inline = "") -> Figure:
        """One chart."""
        return cls({"": [chart]}, title, note)

    @property
    def first(self) -> Chart:
        """The chart that stands for it where nothing can be switched."""
        return next(iter(self.views.values()))[0]


@dataclass(frozen=True)
class GridScale:
    """What a full shade stands for, whether there are numbers below zero, and pairs without a number."""

    top: float
    signed: bool
    forbids: bool


@dataclass(frozen=True)
class Grid:
    """Numbers of rows against columns, as shades of their size; None where a pair is not allowed, which is
    not the same as 0.

    `aside` names the largest of each row, for a terminal: one beside its shades, all where these do not fit.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float | None]]
    title: Inline = ""
    note: Inline = ""
    aside: Sequence[Sequence[str]] = ()
    scale: float | None = None
    """What the fullest shade stands for; None: its largest number."""
    key: tuple[tuple[float | None, str], ...] = ()
    """Values and their words, where few values have a meaning each."""
    written: bool = False
    """Whether each number stands in its cell, as counts do."""
    noughts: bool = False
    """Whether a 0 is written as one, and not as a dot: of ids and flags, which have no thousands either."""
    upright: bool = False
    """Whether a terminal writes the columns' names upright above them, and not only their numbers."""

    @property
    def numbers(self) -> list[float]:
        return [value for row in self.values for value in row if value is not None]

    @property
    def largest(self) -> float:
        return max(map(abs, self.numbers), default=0.0)

    def nothing_beside(self, scale: GridScale) -> bool:
        """Whether no shade of it would be seen on this scale; a 0 that is written is seen."""
        return not self.noughts and self.largest < scale.top / NOTHING_TO_SEE


NOTHING_TO_SEE = 200
"""A grid is a sentence where a full shade stands for so many times its largest number."""


def scale_of(*grids: Grid) -> GridScale:
    """One scale for grids that are read together."""
    given = [one.scale for one in grids if one.scale is not None]
    top = max(given, default=0.0) or max((one.largest for one in grids), default=0.0) or 1.0
    values = [value for one in grids for row in one.values for value in row]
    signed = any(value is not None and value < 0 for value in values)
    return GridScale(top, signed, any(value is None for value in values))


@dataclass(frozen=True)
class Grids:
    """Grids that are read together: side by side where there is room, on one scale with one key."""

    grids: Sequence[Grid]
    title: Inline = ""
    note: Inline = ""


@dataclass(frozen=True)
class StackedBar:
    """What a whole is made of: parts as one bar, each with its name, its size and its size in words."""

    parts: Sequence[tuple[str, float, str]]
    title: Inline = ""
    note: Inline = ""

    @property
    def whole(self) -> float:
        return math.fsum(size for _, size, _ in self.parts) or 1.0

    @property
    def table(self) -> Table:
        """Where it cannot be drawn."""
        rows = [
            (name, said, Number(size / self.whole, form="percent", decimals=1), Bar(size / self.whole))
            for name, size, said in self.parts
        ]
        columns = ("part", TableColumn("size", right=True), TableColumn("share", right=True), "")
        return Table(columns, rows, title=self.title)


@dataclass(frozen=True)
class ForestRow:
    """A difference with its interval; `said` is what it comes to, `why` what that rests on. An arm without a
    difference keeps its row, which says why."""

    name: Name
    difference: Number
    said: VerdictPill
    beside: Inline = ""
    why: Inline = ""
    sets_scale: bool = True
    each: Sequence[float] = ()
    """The difference of every seed."""
    detectable: float | None = None
    """The smallest difference that would probably have been seen."""


@dataclass(frozen=True)
class Forest:
    """Differences from one baseline, over a common axis."""

    rows: Sequence[ForestRow]
    caption: Inline = ""
    left: str = "better"
    right: str = "worse"

    @property
    def table(self) -> Table:
        """Where it cannot be drawn."""
        whys = [Below(row.why) if row.why else "" for row in self.rows]
        rows = [(row.name, row.difference, (row.said, why)) for row, why in zip(self.rows, whys, strict=True)]
        return Table(("arm", "difference", "verdict"), rows, caption=self.caption)


@dataclass(frozen=True)
class MarkedSpan:
    """A stretch of text that stands out, such as a token or a name; `label` is told inside its bracket."""

    text: str
    label: str = ""
    tone: Tone | None = None
    shade: int | None = None
    """Of two that alternate, for the borders of tokens."""


@dataclass(frozen=True)
class Marked:
    """Text with stretches that stand out; lines break between them and never inside of one."""

    spans: Sequence[MarkedSpan]


def token_spans(tokens: Sequence[str], special: Sequence[bool] = ()) -> list[MarkedSpan]:
    """Tokens in two shades by turns; special ones stand out."""
    marks = [*special[: len(tokens)], *[False] * (len(tokens) - len(special))]
    return [
        MarkedSpan(token, tone=Tone.CHOSEN if stands_out else None, shade=number % 2)
        for number, (token, stands_out) in enumerate(zip(tokens, marks, strict=True))
    ]


@dataclass(frozen=True)
class Details:
    """What is opened on request; a terminal shows it, Markdown too unless it `only_pages`."""

    summary: str
    nodes: Sequence[Node]
    only_pages: bool = False


@dataclass(frozen=True)
class CardItem:
    title: Inline
    nodes: Sequence[Node]
    sound: bool = True
    kind: str = ""


@dataclass(frozen=True)
class Cards:
    """Side by side where there is room. `look`: cards, columns, or findings, which stand below each other."""

    items: Sequence[CardItem]
    look: Literal["cards", "columns", "findings"] = "cards"


@dataclass(frozen=True)
class Frame:
    """A part of a page that a script draws, of data that the page holds packed."""

    markup: str
    script: str
    data: Mapping[str, str | bytes]
    note: Inline = ""
    height: int = 900
    """Of the whole page with it, about, in a notebook."""


@dataclass(frozen=True)
class PictureItem:
    """A picture (PNG) with what is said of it. `weights` are of its parts, row by row: what has little of
    the largest is darkened."""

    picture: bytes
    title: Inline = ""
    note: Inline = ""
    weights: Sequence[Sequence[float]] = ()

    @property
    def grid(self) -> Grid:
        """Its weights alone, for a terminal."""
        columns = [str(number) for number in range(len(self.weights[0]))]
        return Grid([str(row) for row in range(len(self.weights))], columns, self.weights, title=self.title)


@dataclass(frozen=True)
class Pictures:
    """Pictures side by side where there is room; a terminal names them, and draws their weights."""

    items: Sequence[PictureItem]
    title: Inline = ""
    note: Inline = ""


@dataclass(frozen=True)
class Section:
    """Nodes under a heading that can be led to."""

    title: str
    nodes: Sequence[Node]
    anchor: str = ""


Node: TypeAlias = (
    "Heading | Sentence | Notice | Items | Table | Definitions | Figure | Grid | Grids | StackedBar | Forest"
    " | Marked | Code | Details | Cards | Frame | Pictures | Section"
)


@dataclass(frozen=True)
class DocumentPage:
    """What it is, its answer in a sentence, and what stands behind it: nodes, or the parts of a long page."""

    kind: str
    headline: str
    nodes: Sequence[Node] = ()
    name: str = ""
    date: str = ""
    question: str = ""
    lead: Sequence[Node] = ()
    """What belongs to the headline: notices, verdicts, the scope."""
    version: str = __version__
    beside: str = ""
    """What else is in the page's folder."""

    @property
    def parts(self) -> list[Section]:
        return [node for node in self.nodes if isinstance(node, Section)]
