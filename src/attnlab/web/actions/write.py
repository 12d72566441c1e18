"""Text as it is written, token by token, with what else the model could have said there."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from torch import Tensor

from attnlab.config.ranges import Range, Seed, Whole
from attnlab.config.values import ConfigError
from attnlab.config.wording import count_of
from attnlab.data.inspection import shown
from attnlab.generation.request import Request
from attnlab.generation.rules import DecodingRule, Greedy, Sample
from attnlab.session.writing import start_writing, text_of, usual_length
from attnlab.web.actions import Answer, Parts
from attnlab.web.worker_request import WorkerRequest

if TYPE_CHECKING:
    from attnlab.generation.generate import Written
    from attnlab.session.trained import Trained

ALTERNATIVES = 5
HALF = "\ufffd"
"""What a character looks like whose last byte is still to come."""
PROBABILITIES = (
    "Probabilities are the model’s own, before temperature, top-k and top-p, over all {size:,} tokens."
)


@dataclass(frozen=True)
class WriteValues:
    prompt: str = ""
    length: Annotated[int, Range(least=1, most=500)] | None = None
    rule: Literal["greedy", "sampled"] = "sampled"
    temperature: Annotated[float, Range(above=0, most=100)] = 0.8
    top_p: Annotated[float, Range(above=0, most=1)] = 0.95
    top_k: Whole = 0
    seed: Seed = 0
    beyond: Literal["refuse", "window"] = "refuse"

    @property
    def decoding(self) -> DecodingRule:
        if self.rule == "greedy":
            return Greedy()
        return Sample(temperature=self.temperature, top_k=self.top_k, top_p=self.top_p)


class WatchedRule(DecodingRule):
    """Another rule, and the scores (B,V) that the model gave it last."""

    scores: Tensor

    def __init__(self, rule: DecodingRule):
        super().__init__()
        self.rule = rule

    def adjusted(self, logits: Tensor, earlier: Tensor) -> Tensor:
        self.scores = logits
        return self.rule.adjusted(logits, earlier)

    def choose(self, logits: Tensor, draws: Tensor) -> Tensor:
        return self.rule.choose(logits, draws)


def write(asked: WorkerRequest) -> Parts:
    values, trained = asked.read(WriteValues), asked.trained
    if not trained.reads_source and values.beyond == "refuse":
        refuse_beyond_context(trained, values)
    rule = WatchedRule(values.decoding)
    request = Request(length=values.length, rule=rule, beyond=values.beyond, seed=values.seed)
    (text,), tokens = start_writing(trained, [values.prompt], request)
    told = ""
    for _, token in tokens:
        whole = text_of(trained, text)
        new = "" if whole.endswith(HALF) else whole[len(told) :]
        told += new
        yield {"text": new, **token_facts(trained, token, rule.scores[0])}
    return {
        "text": text_of(trained, text),
        **ended(trained, text, rule),
        **asdict(UnknownText.of(trained, values.prompt)),
    }


def refuse_beyond_context(trained: Trained, values: WriteValues) -> None:
    """Refuse more than the model was trained to read at once, in the words of the page's form."""
    context, prompt = trained.config.longest_text, len(trained.prompt(values.prompt))
    length = values.length or usual_length(trained, [values.prompt])
    if prompt + length <= context:
        return
    fewer = (
        f"ask for at most {count_of(context - prompt, 'token')}" if prompt < context else "shorten the text"
    )
    raise ConfigError(
        f"The text and what is written after it make {prompt:,} + {length:,} tokens, and this model was "
        f"trained on {context:,}; it cannot be trusted beyond that. Either {fewer}, or choose “may forget "
        "the beginning”."
    )


@dataclass(frozen=True)
class UnknownText:
    """The parts of a text that are one and the same unknown word to the model, and the characters that its
    training text does not have."""

    unknown: list[str]
    unseen: list[str]

    @classmethod
    def of(cls, trained: Trained, text: str) -> UnknownText:
        known = trained.tokenizer.text
        return cls(trained.tokenizer.unknown_parts(text), [] if known is None else known.unseen(text))


def token_facts(trained: Trained, token: int, scores: Tensor) -> Answer:
    """A token as a person reads it, its probability, and the most likely ones at its place."""
    tokenizer = trained.tokenizer.target
    chances = scores.float().softmax(-1)
    best = chances[: tokenizer.size].topk(min(ALTERNATIVES, tokenizer.size))
    ranked = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return {
        "token": token,
        "piece": shown(tokenizer, token),
        "probability": float(chances[token]),
        "alternatives": [{"token": t, "piece": shown(tokenizer, t), "probability": p} for t, p in ranked],
    }


def ended(trained: Trained, text: Written, rule: WatchedRule) -> dict[str, Any]:
    size = rule.scores.shape[-1]
    stop = sorted(trained.stop) if text.stopped else []
    return {
        "stopped": text.stopped,
        "tokens": len(text.new),
        "stop": {"probability": float(rule.scores[0].float().softmax(-1)[stop].sum())} if stop else None,
        "note": PROBABILITIES.format(size=size),
    }
