"""Closed forms: a count, with its formula and its name."""

from __future__ import annotations

from dataclasses import dataclass, replace


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


def terms_of(module: object) -> list[Term]:
    """A module's own closed form; torch's parameterless modules have none to give."""
    terms: list[Term] = module.parameter_terms() if hasattr(module, "parameter_terms") else []
    return terms
