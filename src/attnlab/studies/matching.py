"""Arms of equal size: the feed-forward, or else the width, made to fit the baseline's parameters.

A recurrent trunk has no feed-forward, and is made to fit by its width.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial

from attnlab.config import schema
from attnlab.config.schema import Config
from attnlab.config.values import Choice, ConfigError
from attnlab.studies.outcome import Note, NoteKind

TOLERANCE = 0.01
"""How far from the baseline's count an arm may end."""
STRETCH = 4.0
"""How much larger or smaller a feed-forward may become before the width is changed instead."""


def parameters(model: schema.ModelSettings) -> int:
    """How many parameters a model of these settings has; nothing is allocated."""
    from attnlab.model.assemble import build_model
    from attnlab.model.counts import parameter_terms

    return sum(term.count for term in parameter_terms(build_model(model, device="meta")))


def match_parameters(
    configs: Mapping[str, Config], baseline: str, *, given: Mapping[str, Collection[str]]
) -> tuple[dict[str, Config], list[Note]]:
    """Every arm resized to the baseline's parameters, and a note for each that was.

    `given` are the settings of each arm's own, which are not taken from it again.
    """
    from attnlab.session.session import draft_settings

    drafts = {arm: draft_settings(config) for arm, config in configs.items()}
    target = parameters(drafts[baseline])
    sized, notes = dict(configs), list[Note]()
    for arm, config in configs.items():
        before = parameters(drafts[arm])
        if before == target:
            continue
        model = resize(drafts[arm], target, keep_width="model.width" in given[arm])
        if model is None:
            raise ConfigError(
                f'Arm "{arm}" has {before:,} parameters, the baseline {target:,}, and neither a feed-forward '
                f"of {1 / STRETCH:g} to {STRETCH:g} times its size nor another width brings it within "
                f'{TOLERANCE:.0%}; change its sizes, or leave out match = "parameters".'
            )
        own = {name: getattr(config.model, name) for name in ("vocabulary", "source_vocabulary")}
        sized[arm] = replace(config, model=replace(model, **own))
        notes.append(_note(arm, config.model, model, before, target))
    return sized, notes


def resize(model: schema.ModelSettings, target: int, *, keep_width: bool) -> schema.ModelSettings | None:
    """The nearest model: by its feed-forward while that keeps its character, else by its width."""
    others = [] if keep_width else widths(model, target)
    for tried in ([model], others):
        made = tried
        if has_feedforward(model):
            made = [m for m in (nearest_feedforward(m, target) for m in tried) if m is not None]
        best = min(made, key=partial(distance, target=target), default=None)
        if best is not None and distance(best, target) <= TOLERANCE * target:
            return best
    return None


def has_feedforward(model: schema.ModelSettings) -> bool:
    """Whether a model has one that can be resized; a recurrent trunk has not."""
    from attnlab.model.trunks import trunk_uses

    return trunk_uses(model.trunk.kind, "feedforward")


def distance(model: schema.ModelSettings, target: int) -> int:
    return abs(parameters(model) - target)


def nearest_feedforward(model: schema.ModelSettings, target: int) -> schema.ModelSettings | None:
    """With the hidden width of the feed-forward that comes nearest: the count is linear in it."""
    one, two = parameters(with_hidden(model, 1)), parameters(with_hidden(model, 2))
    hidden, before = round(1 + (target - one) / (two - one)), hidden_of(model)
    return with_hidden(model, hidden) if before / STRETCH <= hidden <= before * STRETCH else None


def hidden_of(model: schema.ModelSettings) -> int:
    return round(model.feedforward.options["expand"] * model.width)


def with_hidden(model: schema.ModelSettings, hidden: int) -> schema.ModelSettings:
    options = {**model.feedforward.options, "expand": hidden / model.width}
    return replace(model, feedforward=Choice(model.feedforward.kind, options))


def widths(model: schema.ModelSettings, target: int) -> list[schema.ModelSettings]:
    """Other widths that the heads divide, with the feed-forward in proportion, around the target."""
    # an even width for each head, as rotary positions need, or for each direction of a recurrent encoder
    step = 2 * model.heads if has_feedforward(model) else 2
    sizes = [
        replace(model, width=width, head_width="even") for width in range(step, 4 * model.width + 1, step)
    ]
    above = bisect_left(sizes, target, key=parameters)
    return sizes[max(0, above - 1) : above + 1]


def _note(arm: str, old: schema.ModelSettings, new: schema.ModelSettings, before: int, target: int) -> Note:
    sizes = {
        "width": [old.width, new.width] if old.width != new.width else None,
        "hidden": [hidden_of(old), hidden_of(new)] if has_feedforward(new) else None,
        "parameters": [before, parameters(new)],
    }
    return Note(NoteKind.RESIZED, {"arm": arm, "target": target, **sizes})
