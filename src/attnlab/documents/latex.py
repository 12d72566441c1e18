"""Tables for a paper: LaTeX (booktabs) as a reader sees them, and CSV with every number and its interval."""

from __future__ import annotations

import csv
import io
import re

from attnlab.documents import nodes as n
from attnlab.documents.nodes import Inline, Number, Table, numbers_in, parts_of
from attnlab.documents.numbers import beside, column_decimals, known, short, value_text

ESCAPES = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "−": "$-$",
    "×": r"$\times$",
    "±": r"$\pm$",
    "·": r"$\cdot$",
    "✗": r"$\times$",
    "✓": r"$\checkmark$",
    "\N{NO-BREAK SPACE}": "~",
    "≈": r"$\approx$",
    "→": r"$\to$",
    "←": r"$\leftarrow$",
    "…": r"\ldots{}",
}


def escaped(text: str) -> str:
    """Text that LaTeX leaves as it is."""
    return re.sub(r"[\\&%$#_{}~^−×±·✗✓≈→←…\u00a0]", lambda sign: ESCAPES[sign[0]], " ".join(text.split(" ")))


def text_of(part: Inline, places: int | None = None) -> str:
    """A cell as plain text on one line."""
    return " ".join("".join(_text(piece, places) for piece in parts_of(part)).split())


def _text(part: n.Part, places: int | None) -> str:
    match part:
        case str():
            return part
        case None | int() | float():
            return short(part)
        case Number():
            interval = ", ".join(beside(part, places)) if known(part.value) else ""
            shown = value_text(part, places) + (f" ({interval})" if interval else "")
            return shown if part.sound or not known(part.value) else f"{shown} (invalid)"
        case n.Name() | n.Code():
            return part.text
        case n.Emphasis() | n.Reference():
            return text_of(part.part, places)
        case n.Below():
            return f" ({text_of(part.part)})"
        case n.Sparkline():
            return part.said
        case n.Sign():
            return part.word
        case n.VerdictPill():
            return part.words or part.kind
        case n.Bar():
            return ""


def latex_table(table: Table, caption: str, label: str) -> str:
    """A float of LaTeX, for \\usepackage{booktabs}."""
    places = column_decimals(table)
    columns = "".join("r" if table.numeric(place) else "l" for place, _ in enumerate(table.heads))
    lines = [" & ".join(escaped(text_of(head.title)) for head in table.heads) + r" \\", r"\midrule"]
    for row in table.lines:
        lines += [r"\midrule"] if row.apart else []
        cells = (escaped(text_of(cell, places[place])) for place, cell in enumerate(row.cells))
        lines.append(" & ".join(cells) + r" \\")
    begin = ["% needs \\usepackage{booktabs}", r"\begin{table}", r"\centering", r"\small"]
    begin += [f"\\caption{{{escaped(caption)}}}", f"\\label{{tab:{label}}}"]
    inside = [f"\\begin{{tabular}}{{{columns}}}", r"\toprule", *lines, r"\bottomrule", r"\end{tabular}"]
    return "\n".join([*begin, *inside, r"\end{table}"]) + "\n"


def csv_table(table: Table) -> str:
    """A line a row; a number has its value to the last digit, and columns for the ends of its interval. Where
    some may not be believed, `sound` says of each row whether it may."""
    intervals = [
        any(number.low is not None for number in table.column(place)) for place, _ in enumerate(table.heads)
    ]
    content = io.StringIO()
    sheet = csv.writer(content, lineterminator="\n")
    heads: list[str] = []
    for head, has_interval in zip(table.heads, intervals, strict=True):
        title = text_of(head.title)
        heads += [title, *([f"{title} low", f"{title} high"] if has_interval else [])]
    marked = any(not _sound(row) for row in table.lines)
    sheet.writerow([*heads, *["sound"] * marked])
    for row in table.lines:
        cells: list[object] = []
        for cell, has_interval in zip(row.cells, intervals, strict=True):
            number = next(numbers_in(cell), None)
            alone = number is not None and len(parts_of(cell)) == 1
            cells.append(number.value if number is not None and alone else text_of(cell))
            cells += ([number.low, number.high] if number is not None else ["", ""]) if has_interval else []
        cells += [str(_sound(row)).lower()] if marked else []
        sheet.writerow(["" if cell is None else cell for cell in cells])
    return content.getvalue()


def _sound(row: n.TableRow) -> bool:
    """Whether all numbers of a row may be believed."""
    return row.sound and all(number.sound for cell in row.cells for number in numbers_in(cell))
