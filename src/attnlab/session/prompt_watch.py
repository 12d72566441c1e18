"""A listener that looks at one prompt after 1, 10, 100, … steps, and keeps what it sees with the run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import torch

from attnlab.config.values import ConfigError
from attnlab.config.visible_text import visible
from attnlab.data.inspection import shown
from attnlab.explain.prompt_history import PromptHistory, PromptMoment
from attnlab.generation.generate import generate
from attnlab.model.isolation import undisturbed
from attnlab.runs.atomic import replace_bytes
from attnlab.runs.events import Ended, Event, Started, Stepped
from attnlab.runs.faults import reading
from attnlab.session.session import Session

NEW, KEPT = 12, 200
"""Tokens of a continuation, and next tokens whose probability is kept."""
FILE, PAGE = "watch.json", "watch.html"


def is_power_of_ten(step: int) -> bool:
    return str(step).rstrip("0") == "1"


class PromptWatch:
    """Continues a prompt at the start, after every power of ten of steps, and at the end. It disturbs no
    stream of random numbers, and leaves the model as it was."""

    def __init__(self, session: Session, folder: Path, prompt: str, tell: Callable[[str], None]):
        if not (session.draft.writes and session.draft_task.continues):
            raise ConfigError(
                "--watch continues a text, and this model does not write from left to right; watch one whose "
                "task is causal, such as mini-gpt."
            )
        if not prompt.strip():
            raise ConfigError('--watch has no words; give the beginning of a text, such as "The function".')
        self.session, self.folder, self.prompt, self.tell = session, folder, prompt, tell
        self.moments: list[PromptMoment] = []

    @property
    def history(self) -> PromptHistory:
        return PromptHistory(self.prompt, self.moments)

    def __call__(self, event: Event) -> None:
        if isinstance(event, Started):
            self.moments = [moment for moment in self.kept() if moment.step <= event.step]
            if event.step == 0:
                self.look(0)
            return
        if self.asks_weights(event) or (isinstance(event, Ended) and event.reason != "interrupted"):
            self.look(event.step)

    def asks_weights(self, event: Event) -> bool:
        return isinstance(event, Stepped) and is_power_of_ten(event.step)

    def kept(self) -> list[PromptMoment]:
        """What a run that is resumed saw of the same prompt."""
        file = self.folder / FILE
        if not file.exists():
            return []
        with reading(file):
            held = json.loads(file.read_text(encoding="utf-8"))
            same = held["moments"] if held["prompt"] == self.prompt else []
            return [
                PromptMoment(m["step"], m["continuation"], m["each"], [(w, p) for w, p in m["next"]])
                for m in same
            ]

    def look(self, step: int) -> None:
        """See what the model makes of the prompt now, say it in a line, and keep it."""
        if self.moments and self.moments[-1].step == step:
            return
        moment = self.moment(step)
        self.moments.append(moment)
        self.tell(
            f"watch, step {step:,}: {self.prompt!r} → {visible(moment.continuation)!r} (p of a token "
            f"{moment.each:.2g})"
        )
        replace_bytes(self.folder / FILE, json.dumps(self.history.as_json(), ensure_ascii=False).encode())
        self.history.save(self.folder / PAGE)

    def moment(self, step: int) -> PromptMoment:
        tokenizer, model = self.session.tokenizer, self.session.model
        prompt = [*tokenizer.form.before, *tokenizer.encode(self.prompt)]
        room = self.session.config.longest_text - len(prompt)
        if room < 1:
            raise ConfigError(
                f"--watch has {len(prompt):,} tokens, and the model reads {room + len(prompt):,}."
            )
        stop = {token for token in (tokenizer.specials.stop,) if token is not None}
        with undisturbed(model), torch.no_grad():
            (text,) = generate(model, [prompt], length=min(NEW, room), stop=stop)
            device = next(model.parameters()).device
            scores = model(torch.tensor([[*prompt, *text.new]], device=device))[0].double().log_softmax(-1)
        new = torch.tensor(text.new, device=scores.device)
        places = scores[len(prompt) - 1 : len(prompt) - 1 + len(new)]
        each = float(places.gather(1, new[:, None]).mean().exp()) if len(new) else 0.0
        chances, ids = scores[len(prompt) - 1].exp().topk(min(KEPT, scores.shape[-1]))
        likeliest = [(shown(tokenizer, i), p) for i, p in zip(ids.tolist(), chances.tolist(), strict=True)]
        return PromptMoment(step, tokenizer.written(text.new), each, likeliest)
