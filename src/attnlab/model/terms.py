"""Closed forms: a count, with its formula and its name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

LETTERS = {
    "V": "vocabulary",
    "V'": "vocabulary of sources",
    "D": "model width",
    "N": "length in tokens",
    "T": "longest distance",
    "M": "source length",
    "L": "layers",
    "H": "heads",
    "S": "key and value heads",
    "H'": "key and value heads",
    "K": "head width",
    "A": "width of additive attention",
    "E": "feed-forward width",
    "C": "classes",
    "n": "virtual tokens",
    "r": "rank",
}
"""What the letters of a formula stand for."""


@dataclass(frozen=True)
class Term:
    """So many parameters, of this part, by this formula."""

    name: str
    formula: str
    count: int

    def times(self, repeats: int, symbol: str) -> Term:
        return replace(self, formula=f"{symbol}·({self.formula})", count=self.count * repeats)

    def inside(self, place: str) -> Term:
        return replace(self, name=f"{place}.{self.name}")


def linear(name: str, inputs: int, outputs: int, bias: bool, formula: str) -> Term:
    """An affine map. `formula` names its two sizes, as in "D·D"."""
    plus = f" + {formula.split('·')[-1]}" if bias else ""
    return Term(name, formula + plus, inputs * outputs + (outputs if bias else 0))


def gather(terms: Iterable[Term]) -> list[Term]:
    """Terms of one part, such as encoder.attention, as one: their formulas added up."""
    parts: dict[str, list[Term]] = {}
    for term in terms:
        parts.setdefault(term.name.rpartition(".")[0] or term.name, []).append(term)
    return [terms[0] if len(terms) == 1 else _sum(part, terms) for part, terms in parts.items()]


def _sum(part: str, terms: Sequence[Term]) -> Term:
    formulas = Counter(term.formula for term in terms)
    added = " + ".join(formula if n == 1 else f"{n}·{_factor(formula)}" for formula, n in formulas.items())
    return Term(part, added, sum(term.count for term in terms))


def _factor(formula: str) -> str:
    """A formula as a factor of a product: in brackets where it adds outside of its own."""
    inner, outside = "", formula
    while inner != outside:
        inner, outside = outside, re.sub(r"\([^()]*\)", "", outside)
    return f"({formula})" if "+" in outside else formula


def letters_in(formulas: Iterable[str]) -> dict[str, str]:
    """The letters that these formulas use, with what they stand for."""
    used = {letter for formula in formulas for letter in _letters(formula)}
    return {letter: meaning for letter, meaning in LETTERS.items() if letter in used}


def _letters(formula: str) -> list[str]:
    """Letters that stand alone or together, as in 2N·(D·HK); words such as "buckets" are none."""
    words = re.findall(r"[^\W\d_]+'?(?:[A-Z]\b)?", formula)
    short = [word for word in words if (len(word) < 4 and not word.islower()) or len(word) == 1]
    return [letter for word in short for letter in re.findall(r"[A-Za-z]'?", word)]


def terms_of(module: object) -> list[Term]:
    """A module's own closed form; torch's parameterless modules have none to give."""
    terms: list[Term] = module.parameter_terms() if hasattr(module, "parameter_terms") else []
    return terms
