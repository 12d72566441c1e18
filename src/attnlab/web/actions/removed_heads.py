"""The output with all heads and without some of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from attnlab.config.values import ConfigError
from attnlab.data.inspection import shown
from attnlab.explain.ablation import HeadName, divergences, effect_definition, moved, outputs_without
from attnlab.explain.attention_maps import layers_heads
from attnlab.explain.picture_attention import PictureRow
from attnlab.model.capture import patch
from attnlab.model.heads.sentence import Sentence
from attnlab.web.actions import Answer
from attnlab.web.actions.heads import RowValues, row_asked, with_pair
from attnlab.web.actions.predict import ClassifyValues, predicted, what_is_read
from attnlab.web.worker_request import WorkerRequest

if TYPE_CHECKING:
    from attnlab.session.trained import Trained

TOP = 5


@dataclass(frozen=True, kw_only=True)
class WithoutValues(RowValues):
    """`heads` are pairs of a layer and a head, both as `attention` numbers them."""

    heads: tuple[tuple[int, ...], ...]


def without_heads(asked: WorkerRequest) -> Answer:
    """The output with all heads and without some. Of words their probabilities place by place, else labels;
    of a vector how far it moves."""
    values, trained = with_pair(asked.trained, asked.read(WithoutValues)), asked.trained
    vectors = isinstance(trained.model.head, Sentence) or trained.headless
    if not trained.task.predicts_words and not vectors:
        return predicted_without(asked, values)
    read = row_asked(asked, values)
    row = read.row if isinstance(read, PictureRow) else read
    heads = chosen_heads(trained, values.heads, pictured=row.pictured)
    usual, without = outputs_without(trained.model, row.inputs, heads)
    about = {"heads": list(map(str, heads)), "measure": effect_definition(trained.model)}
    if vectors:
        return about | {"moved": moved(trained.model, usual, without)}
    words = list(read.readers.values()) if isinstance(read, PictureRow) else row.words
    change = divergences(usual, without)
    return about | {
        "tokens": [
            {
                "text": word,
                "divergence": float(nats),
                "before": ranked(trained, old),
                "after": ranked(trained, new),
            }
            for word, nats, old, new in zip(words, change, usual, without, strict=True)
        ],
        "mean": float(change.mean()),
    }


def predicted_without(asked: WorkerRequest, values: WithoutValues) -> Answer:
    """What is predicted with all heads and without some: labels, the label of each word, or an answer."""
    trained = asked.trained
    heads = chosen_heads(trained, values.heads)
    given = what_is_read(asked, ClassifyValues(values.text, values.pair, values.picture))
    before, notes = predicted(trained, given)
    with patch(trained.model, {head.place: 0 for head in heads}):
        after, _ = predicted(trained, given)
    return {
        "heads": list(map(str, heads)),
        "kind": before.of,
        "before": before,
        "after": after,
        "notes": notes,
    }


def chosen_heads(
    trained: Trained, wanted: tuple[tuple[int, ...], ...], *, pictured: bool = True
) -> list[HeadName]:
    layers = layers_heads(trained.model, pictured=pictured)
    chosen = []
    for pair in wanted:
        layer, head = pair if len(pair) == 2 else (-1, -1)
        if not (0 <= layer < len(layers) and 0 <= head < len(layers[layer])):
            most = max(map(len, layers))
            raise ConfigError(
                f"There is no head {list(pair)}: give a layer from 0 to {len(layers) - 1} and a head from 0 "
                f"to {most - 1}."
            )
        chosen.append(layers[layer][head])
    return list(dict.fromkeys(chosen))


def ranked(trained: Trained, scores: Tensor) -> list[Answer]:
    """The most likely words by scores (V)."""
    tokenizer = trained.tokenizer.target
    best = scores.float().softmax(-1)[: tokenizer.size].topk(min(TOP, tokenizer.size))
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return [{"piece": shown(tokenizer, token), "probability": p} for token, p in pairs]
