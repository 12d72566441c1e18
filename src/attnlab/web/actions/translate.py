"""A text's translations with their scores, and which source tokens each written token looks at."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

from attnlab.config.ranges import Range
from attnlab.config.values import ConfigError
from attnlab.data.encode.encoding import Cut
from attnlab.data.example import Example
from attnlab.session.translating import BEAM, Translator
from attnlab.web.actions import Answer
from attnlab.web.actions.write import UnknownText
from attnlab.web.worker_request import WorkerRequest

if TYPE_CHECKING:
    from attnlab.session.trained import Trained


@dataclass(frozen=True)
class TranslateValues:
    text: str
    best: Annotated[int, Range(least=1, most=16)] = BEAM
    beam: Annotated[int, Range(least=1, most=16)] = BEAM
    penalty: Annotated[float, Range(least=-10, most=10)] = 1.0
    cut: Cut = "refuse"


def translate(asked: WorkerRequest) -> Answer:
    values, trained = asked.read(TranslateValues), asked.trained
    best = min(values.best, values.beam)
    translator = Translator(trained, beam=values.beam, penalty=values.penalty, best=best, cut=values.cut)
    if not values.text.strip():
        raise ConfigError("The text is empty; give some text to translate.")
    if values.cut == "refuse" and translator.is_too_long(values.text):
        raise ConfigError(
            f"The text has more than the {translator.room} tokens that this model reads; give it sentence by "
            "sentence."
        )
    (candidates,) = translator.candidates([Example(values.text)])
    return {
        "candidates": [asdict(candidate) for candidate in candidates],
        "alignment": alignment_of(trained, values.text, candidates[0].text),
        "cut": str(translator.cuts) if translator.cuts.cut else "",
        **asdict(UnknownText.of(trained, values.text)),
    }


def alignment_of(trained: Trained, source: str, target: str) -> Answer | None:
    """The cross-attention head that the output needs most; None where there is no such head, or no text."""
    if not trained.reads_source or not source.strip() or not target:
        return None
    maps = trained.attention(source, target)
    head = maps.chosen
    if not head.name.crosses:
        return None
    layer = maps.layers[head.layer]
    return {
        "head": str(head.name),
        "effect": head.effect,
        "effect_definition": maps.effect,
        "source": list(layer.keys),
        "written": list(layer.queries),
        "weights": layer.weights[head.name.number].tolist(),
    }
