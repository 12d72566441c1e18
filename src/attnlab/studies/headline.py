"""A study's answer as a person repeats it: at most 160 characters. What is behind it stands in rows.

Of several ways to say it, from all names and numbers down to counts alone, the first that fits is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attnlab.config.wording import count_of
from attnlab.documents.numbers import value_text
from attnlab.metrics.measures import title_of
from attnlab.studies.wording import (
    FEW,
    because_phrase,
    difference_number,
    fault_phrase,
    interval_phrase,
    places_of,
    short_phrase,
    verdict_phrase,
    verdict_sentences,
    without_leak_sentence,
)

MOST = 160
NAME = 40
"""Characters of an arm's name; a longer one is cut in its middle."""
GROUPS = (
    "better",
    "worse",
    "no difference",
    "identical",
    "inconclusive",
    "not trained long enough",
    "invalid",
)
"""Verdicts in the order that they are told in."""
STATES = {"failed": "failed", "refused": "refused", "missing": "not run"}
"""What becomes of arms that get no verdict; others were not compared."""
WEIGHT = (
    *("better", "invalid", "failed", "refused", "not trained long enough", "worse", "no difference"),
    *("identical", "inconclusive"),
)
"""What matters most to a reader: these keep their names the longest."""


def headline(outcome: Any) -> str:
    """The fullest of a study's answers that can be taken in at a glance."""
    firsts = _learned_nothing(outcome)
    ways = [" ".join(filter(None, [first, way])) for way in _ways(outcome) for first in firsts]
    return next((way for way in ways if len(way) <= MOST), f"{ways[-1][: MOST - 1]}…")


def _learned_nothing(outcome: Any) -> list[str]:
    """That arms learned nothing where their verdict does not say it: a number of arms, named if possible."""
    invalid = {one.arm for one in outcome.comparisons if one.verdict == "invalid"}
    arms = [arm for arm in outcome.at_majority if arm not in invalid]
    if not arms:
        return [""]
    first = "No better than the most frequent label"
    return [_group(first, arms), _group(first, arms, named=False)]


def _ways(outcome: Any) -> Iterator[str]:
    main = [one for one in outcome.comparisons if one.metric == outcome.study.metric] or outcome.comparisons
    groups: dict[str, list[str]] = {}
    if not main:
        yield verdict_sentences(outcome)
    places = places_of(main)
    sizes = {one.arm: value_text(difference_number(one), places) for one in main}
    for verdict in GROUPS:
        compared = sorted((one for one in main if one.verdict == verdict), key=_size, reverse=True)
        groups |= {verdict: [one.arm for one in compared]} if compared else {}
    baselines = [arm.name for arm in outcome.arms if arm.name in outcome.study.baselines and not arm.sound]
    if baselines:
        groups["invalid"] = [*baselines, *groups.get("invalid", [])]
    groups |= _without_verdict(outcome, {one.arm for one in main})
    if 0 < len(main) <= FEW and not baselines:
        arms = {arm.name: arm for arm in outcome.all_arms}
        rest = [_group(state, names) for state, names in groups.items() if state not in GROUPS]
        for interval in (True, False):
            sentences = [_compared(one, arms, outcome, places, interval=interval) for one in main]
            yield " ".join([*sentences, *rest])
    others = dict.fromkeys(one.baseline for one in main)
    against = short_name(next(iter(others))) if len(others) == 1 else "their baselines"
    yield _grouped(groups, against, named=WEIGHT, sizes=sizes)
    alone = [verdict for verdict, names in groups.items() if len(names) == 1]
    for kept in range(len(WEIGHT), -1, -1):
        yield _grouped(groups, against, named=[*WEIGHT[:kept], *alone])
    yield _grouped(groups, against, named=())


def _size(comparison: Any) -> float:
    return abs(comparison.difference)


def _compared(one: Any, arms: Mapping[str, Any], outcome: Any, places: int, *, interval: bool) -> str:
    """One comparison in a sentence."""
    arm, baseline, title = short_name(one.arm), short_name(one.baseline), title_of(one.metric)
    if one.verdict == "invalid":
        if one.arm in outcome.at_majority:
            return f"{arm} is invalid: it is no better than the most frequent label."
        alone = without_leak_sentence(one, arms) if one.leaks else ""
        why = fault_phrase(one.checks) if one.failed else "its runs are no evidence"
        return f"{arm} is invalid: {why}.{alone}"
    size = f"{title} {value_text(difference_number(one), places)}"
    size += interval_phrase(one, places) if interval else ""
    match one.verdict:
        case "better" | "worse":
            return f"{arm} is {one.verdict} than {baseline}: {size}."
        case "not trained long enough":
            return f"{arm} compared with {baseline}: not trained long enough: {short_phrase(one.doubts)}."
        case "identical":
            return f"{arm} and {baseline}: {because_phrase(one)}."
        case "no difference":
            return f"{arm} compared with {baseline}: {verdict_phrase(one)} in {title}."
    return f"{arm} compared with {baseline}: inconclusive, {size}{', one seed' if one.seeds == 1 else ''}."


def _grouped(
    groups: Mapping[str, Sequence[str]],
    baseline: str,
    *,
    named: Sequence[str],
    sizes: Mapping[str, str] | None = None,
) -> str:
    """Arms by verdict: "Better than dot: wide, alibi. Worse: 4 arms. Failed: argmax." """
    sentences: list[str] = []
    for verdict, names in groups.items():
        sided = verdict in ("better", "worse")
        against = f" than {baseline}" if sided and not sentences else ""
        shown = sizes if sided else None
        sentences.append(_group(f"{verdict}{against}", names, named=verdict in named, sizes=shown))
    return " ".join(sentences if groups else ["No verdict yet."])


def _group(
    title: str, names: Sequence[str], *, named: bool = True, sizes: Mapping[str, str] | None = None
) -> str:
    if not named:
        return f"{title[:1].upper()}{title[1:]}: {count_of(len(names), 'arm')}."
    arms = [f"{short_name(name)}{f' ({sizes[name]})' if sizes else ''}" for name in names]
    return f"{title[:1].upper()}{title[1:]}: {', '.join(arms)}."


def _without_verdict(outcome: Any, compared: Iterable[str]) -> dict[str, list[str]]:
    """Arms that have none, by what became of them."""
    skip, states = {*compared, *outcome.study.baselines}, dict[str, list[str]]()
    for arm in outcome.all_arms:
        if arm.name not in skip or arm.state in ("failed", "refused"):
            states.setdefault(STATES.get(arm.state, "not compared"), []).append(arm.name)
    return states


def short_name(name: str) -> str:
    return name if len(name) <= NAME else f"{name[: NAME // 2]}…{name[-NAME // 2 + 1 :]}"
