"""Where heads look, the output without some of them, and two texts patched into one another."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from attnlab.config.values import ConfigError
from attnlab.data.inspection import shown
from attnlab.explain import attention_page
from attnlab.explain.ablation import HeadName, divergences, effect_definition, outputs_without
from attnlab.explain.attention_maps import RowOfText, layers_heads
from attnlab.explain.text_patching import patch_texts as patch_rows
from attnlab.model.capture import patch
from attnlab.web.actions import Answer
from attnlab.web.actions.predict import predicted
from attnlab.web.worker_request import WorkerRequest

if TYPE_CHECKING:
    from attnlab.session.trained import Trained

MOST_WEIGHTS = 24_000_000
"""Bytes of weights that a page can draw."""
TOP = 5


@dataclass(frozen=True)
class RowValues:
    text: str
    pair: str = ""


@dataclass(frozen=True)
class WithoutValues:
    """`heads` are pairs of a layer and a head, both as `attention` numbers them."""

    text: str
    heads: tuple[tuple[int, ...], ...]
    pair: str = ""


@dataclass(frozen=True)
class PatchValues:
    """`at` is the token after which words are looked at: the last of the text where nobody says. For an
    encoder-decoder both texts are sources, and `target` is what it has written: what it writes for the
    first, where nobody gives one."""

    first: str
    second: str
    target: str = ""
    at: int | None = None


def attention(asked: WorkerRequest) -> Answer:
    """What the interactive figure of attention maps is drawn from."""
    values, trained = asked.read(RowValues), asked.trained
    pair = pair_of(trained, values.text, values.pair)
    refuse_many_weights(trained, trained.reading.row(values.text, pair))
    maps = trained.attention(values.text, pair)
    return {
        "maps": attention_page.page_data(maps),
        "weights": b64encode(attention_page.quantised(maps)).decode(),
        "pair": pair,
        "headline": maps.headline,
        "remark": maps.remark,
        "notes": attention_page.notes(maps),
    }


def pair_of(trained: Trained, text: str, pair: str) -> str:
    """The second text; of a translator what it writes for the first, where nobody gives one."""
    return str(trained.translate(text)) if trained.translates and not pair else pair


def refuse_many_weights(trained: Trained, row: RowOfText) -> None:
    heads = sum(map(len, layers_heads(trained.model)))
    longest = max(len(row.words), len(row.source_words))
    if (size := heads * longest**2) > MOST_WEIGHTS:
        fewer = int((MOST_WEIGHTS / heads) ** 0.5)
        raise ConfigError(
            f"{heads} heads on {longest} tokens have {size:,} weights, and the page draws at most "
            f"{MOST_WEIGHTS:,}; give a text of at most {fewer} tokens."
        )


def without_heads(asked: WorkerRequest) -> Answer:
    """The output with all heads and without some. Of words their probabilities place by place, else
    labels."""
    values, trained = asked.read(WithoutValues), asked.trained
    heads = chosen_heads(trained, values.heads)
    if not trained.task.predicts_words:
        before, notes = predicted(trained, values.text, values.pair)
        with patch(trained.model, {head.place: 0 for head in heads}):
            after, _ = predicted(trained, values.text, values.pair)
        return {"heads": list(map(str, heads)), "before": before, "after": after, "notes": notes}
    row = trained.reading.row(values.text, pair_of(trained, values.text, values.pair))
    usual, without = outputs_without(trained.model, row.inputs, heads)
    change = divergences(usual, without)
    return {
        "heads": list(map(str, heads)),
        "tokens": [
            {
                "text": word,
                "divergence": float(nats),
                "before": ranked(trained, old),
                "after": ranked(trained, new),
            }
            for word, nats, old, new in zip(row.words, change, usual, without, strict=True)
        ],
        "mean": float(change.mean()),
        "measure": effect_definition(trained.model),
    }


def chosen_heads(trained: Trained, wanted: tuple[tuple[int, ...], ...]) -> list[HeadName]:
    layers = layers_heads(trained.model)
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


def patch_texts(asked: WorkerRequest) -> Answer:
    """How far the output goes from the second text's to the first one's, layer by layer and place by
    place."""
    values, trained = asked.read(PatchValues), asked.trained
    trained.refuse_headless()
    target = pair_of(trained, values.first, values.target) if trained.reads_source else ""
    first, second = (trained.reading.row(text, target) for text in (values.first, values.second))
    last = None if trained.reads_source else -1 - len(trained.tokenizer.form.end)
    return patch_rows(trained.model, first, second, at=last if values.at is None else values.at).as_json()
