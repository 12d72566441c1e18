"""What text is wanted, the same from Python and from the command line; refused before anything is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from attnlab.config.values import ConfigError, unknown_name

if TYPE_CHECKING:
    from attnlab.generation.decoder import Beyond
    from attnlab.generation.rules import DecodingRule

SAMPLED = "sample(temperature=0.8, top_p=0.95)"
LEAST = {"length": 1, "beam": 0, "copies": 1}
PENALTIES = (-10, 10)
"""Of a beam's length: further off, powers of a length are no numbers that a computer has."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """Up to `length` new tokens after each prompt (None: the usual number), in `copies`.

    Chosen by `rule`, or the most likely ones that `beam` beams find, with a length `penalty`; up to a
    text of `stop`, which is kept. `beyond` the trained context they are refused, or written in a window.
    """

    length: int | None = None
    rule: str | DecodingRule = ""
    beam: int = 0
    penalty: float = 1.0
    copies: int = 1
    stop: tuple[str, ...] = ()
    beyond: Beyond = "refuse"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            at_least(name, getattr(self, name), least)
        number_between("penalty", self.penalty, *PENALTIES)
        if not isinstance(self.rule, str) and not hasattr(self.rule, "choose"):
            raise ConfigError(f"rule is {self.rule!r}; give greedy, or sample(temperature=…, top_k=…, …).")
        if self.beyond not in ("refuse", "window"):
            raise ConfigError(f'--beyond takes refuse or window, not "{self.beyond}".')
        if "" in self.stop:
            raise ConfigError("--stop is empty, which every text holds; leave it out, or give some text.")
        if self.beam and (self.rule or self.stop):
            raise ConfigError(
                "A beam looks for the most likely whole text up to the model's own stop token: leave out "
                f"{'--rule' if self.rule else '--stop'}, or --beam."
            )

    def repeated(self, prompts: Sequence[str]) -> list[str]:
        """The prompt of every text."""
        return [prompt for prompt in prompts for _ in range(self.copies)]


BY_SAMPLING = 'rule="sample({}=…)"'
ELSEWHERE = {
    **dict.fromkeys(("max_new_tokens", "max_tokens", "max_length"), "length=…"),
    **{name: BY_SAMPLING.format(name) for name in ("temperature", "top_k", "top_p", "min_p")},
    "repetition_penalty": BY_SAMPLING.format("repetition"),
    "do_sample": 'rule="sample" or rule="greedy"',
    "num_beams": "beam=…",
    "length_penalty": "penalty=…",
    "num_return_sequences": "copies=…",
    "stop_strings": "stop=…",
}
"""What transformers calls an argument, as it is written here."""


def request_of(wanted: dict[str, Any]) -> Request:
    """A request from arguments by name; a name that there is not is told with the nearest that there is."""
    names = [field.name for field in fields(Request)]
    for name in wanted:
        if name in ELSEWHERE:
            raise ConfigError(f'generate: there is no "{name}"; give {ELSEWHERE[name]}.')
        if name not in names:
            raise unknown_name("generate", name, names)
    stop = several(wanted.get("stop", ()), "stop")
    return Request(**{**wanted, "stop": tuple(stop)})


def at_least(name: str, value: Any, least: int) -> None:
    if name == "length" and value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{name} is {value!r}; it must be a whole number of at least {least}.")


def number_between(name: str, value: Any, least: float, most: float) -> None:
    real = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not real or not least <= value <= most:
        raise ConfigError(f"{name} is {value!r}; it must be a number from {least} to {most}.")


def several(texts: str | Sequence[str], what: str) -> list[str]:
    """One text or several, as a list."""
    listed = [texts] if isinstance(texts, str) else texts
    if not isinstance(listed, Sequence) or not all(isinstance(text, str) for text in listed):
        raise ConfigError(f"{what} is {texts!r}; give a text, or a list of texts.")
    return list(listed)
