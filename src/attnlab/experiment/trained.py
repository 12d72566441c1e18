"""A model that was trained here, opened again: its config, its own tokenizer, its verified weights."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from attnlab.checks.decoding import miswrites
from attnlab.config.schema import Config
from attnlab.config.values import Choice, ConfigError
from attnlab.data.tokenizers.files import load as load_tokenizer
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.experiment.filling import Places, places
from attnlab.experiment.model import build_model
from attnlab.experiment.request import SAMPLED, Request, request_of, several
from attnlab.generation import DECODING
from attnlab.generation.beam import beam_searches
from attnlab.generation.decoder import Beyond, Decoder, padded, window_start
from attnlab.generation.generate import Written, stream
from attnlab.generation.rules import DecodingRule, Greedy
from attnlab.generation.weights import Difference, PackedHead, by_columns, difference, pack
from attnlab.model.heads.classification import pooled
from attnlab.model.heads.language import LanguageModel
from attnlab.model.model import Model
from attnlab.model.tokens import Tokens
from attnlab.runs.checkpoints import Checkpoints, DamagedError
from attnlab.runs.findings import unsound_of
from attnlab.runs.folder import RunFolder
from attnlab.runs.record import RECORD, read_record
from attnlab.runs.run_error import RunError
from attnlab.tasks import TASKS
from attnlab.tasks.task import Task
from attnlab.tasks.vocabulary import Vocabulary
from attnlab.training.checkpoint import load_checked, read_checkpoint


@dataclass(frozen=True)
class Trained:
    """A trained model with everything that gives its numbers a meaning."""

    folder: Path
    step: int
    config: Config
    tokenizer: Tokenizer
    model: Model

    @property
    def unsound(self) -> list[str]:
        """The checks that the run failed: while there is one, its numbers do not mean what they say."""
        found = unsound_of(self.folder)
        return sorted({*found, "decoding"}) if self.miswrites else found

    @cached_property
    def miswrites(self) -> bool:
        """Whether cached decoding gives other scores than each text alone, as the model is now."""
        return miswrites(self.model, self.tokenizer.size, self.config.model.length)

    @cached_property
    def task(self) -> Task:
        """What it was trained to predict."""
        return TASKS.build(self.config.task, vocabulary=Vocabulary.of(self.tokenizer))

    def prompt(self, text: str) -> list[int]:
        """A text as the beginning of one: the tokens before it, its own, and none that end it."""
        return [*self.tokenizer.form.before, *self.tokenizer.encode(text)] or [self.first]

    @property
    def unknown(self) -> int:
        """The token of words that the tokenizer does not know; no token (-1) where it knows every text."""
        found = self.tokenizer.specials.unknown
        return -1 if found is None else found

    @property
    def stop(self) -> set[int]:
        """The tokens that end a text."""
        ends = self.tokenizer.form.end or (self.tokenizer.specials.stop,)
        return {token for token in ends if token is not None}

    def write(
        self,
        prompts: Sequence[str],
        *,
        rule: DecodingRule | None = None,
        length: int = 50,
        stop: Collection[str] = (),
        seed: int = 0,
        beyond: Beyond = "refuse",
    ) -> list[Written]:
        """Texts after each prompt; their tokens, to be read with `text`."""
        texts = [Written(self.prompt(prompt)) for prompt in prompts]
        for _ in self.streamed(texts, rule=rule, length=length, stop=stop, seed=seed, beyond=beyond):
            pass
        return texts

    def streamed(
        self,
        texts: list[Written],
        *,
        rule: DecodingRule | None = None,
        length: int = 50,
        stop: Collection[str] = (),
        seed: int = 0,
        beyond: Beyond = "refuse",
    ) -> Iterator[tuple[int, int]]:
        """Writes into `texts`, and gives each (row, token) as it comes."""

        def ends(row: int, new: list[int]) -> bool:
            return bool(stop) and any(end in self.tokenizer.decode(new) for end in stop)

        sources = self._sources(texts)
        by_columns(self.model)
        yield from stream(
            self.model,
            texts,
            rule=rule or Greedy(),
            length=length,
            stop=self.stop,
            stop_when=ends,
            sources=sources,
            seed=seed,
            context=self.config.model.length,
            beyond=beyond,
        )

    @torch.inference_mode()
    def pack(self, weights: str, prompts: Sequence[str]) -> Difference:
        """Hold the weights in fewer bits from here on: float16 or int8, faster and approximate.

        Gives how far that moves the scores of the token after each of these prompts.
        """
        texts = [Written(self.prompt(prompt)) for prompt in prompts]
        sources, context = self._sources(texts), self.config.model.length
        held = [text.prompt[window_start(0, len(text.prompt), context) :] for text in texts]
        exact = Decoder(self.model, held, sources=sources).next
        pack(self.model, weights)
        return difference(exact, Decoder(self.model, held, sources=sources).next)

    def _sources(self, texts: Sequence[Written]) -> list[list[int]] | None:
        """Ready to write. For an encoder-decoder the prompts are what is read, and text is written from the
        start token on."""
        trunk = self.model.trunk
        if trunk.decoder is None or not isinstance(self.model.head, (LanguageModel, PackedHead)):
            raise ConfigError(
                "This model reads a whole text and does not go on with one. A masked model fills in: "
                'attnlab generate RUN --fill "The [MASK] sat."'
            )
        if trunk.encoder is None:
            return None
        if any(text.prompt == self.prompt("") for text in texts):
            raise ConfigError(
                "This model writes a target for a source that it reads, and there is none; give it a text to "
                'read: attnlab generate RUN "…"'
            )
        sources = [[*text.prompt, *self.tokenizer.form.end] for text in texts]
        longest, room = max(map(len, sources)), self.config.model.length
        if longest > room:
            raise ConfigError(
                f"A prompt of {longest} tokens is longer than the {room} that this model reads."
            )
        for text in texts:
            text.prompt = [self.first]
        return sources

    @property
    def reads_source(self) -> bool:
        """Whether what it writes stands apart from the prompt, which is its source."""
        return self.model.trunk.encoder is not None and self.model.trunk.decoder is not None

    @property
    def first(self) -> int:
        """What an encoder-decoder's text begins with."""
        found = self.tokenizer.specials.start
        return self.tokenizer.pad if found is None else found

    def beams(
        self,
        prompts: Sequence[str],
        *,
        width: int = 4,
        best: int = 1,
        length: int = 50,
        penalty: float = 1.0,
        beyond: Beyond = "refuse",
    ) -> list[Written]:
        """The `best` most likely texts after each prompt that a beam of this width finds, best first."""
        if best > width:
            raise ConfigError(f"A beam of width {width} ends with {width} texts, not {best}; widen it.")
        texts = [Written(self.prompt(prompt)) for prompt in prompts]
        sources = self._sources(texts)
        by_columns(self.model)
        found = beam_searches(
            self.model,
            [text.prompt for text in texts],
            width=width,
            length=length,
            penalty=penalty,
            stop=self.stop,
            sources=sources,
            context=self.config.model.length,
            beyond=beyond,
        )
        return [
            Written(text.prompt, hypothesis.new, hypothesis.stopped)
            for text, ended in zip(texts, found, strict=True)
            for hypothesis in ended[:best]
        ]

    def generate(self, prompts: str | Sequence[str], **wanted: Any) -> str | list[str]:
        """Text that goes on with a prompt, or a list of texts for several prompts or `copies`.

        `wanted` is what `attnlab generate` takes: length, rule, beam, penalty, copies, stop, beyond and
        seed (see Request); without them it is sampled, of `usual_length`.
        """
        request, asked = request_of(wanted), several(prompts, "The prompt")
        if not asked:
            return []
        texts, tokens = self.writing(asked, request)
        for _ in tokens:
            pass
        found = [self.text(text) for text in texts]
        return found[0] if isinstance(prompts, str) and request.copies == 1 else found

    def writing(
        self, prompts: Sequence[str], request: Request
    ) -> tuple[list[Written], Iterator[tuple[int, int]]]:
        """The texts that are wanted after each prompt; they grow as the iterator gives their tokens."""
        usual = 50 if request.beyond == "window" else self.usual_length(prompts)
        limits: dict[str, Any] = {"length": request.length or usual, "beyond": request.beyond}
        if request.beam:
            best: dict[str, Any] = {"width": request.beam, "best": request.copies, "penalty": request.penalty}
            return self.beams(prompts, **best, **limits), iter(())
        rule = DECODING.build(request.rule or SAMPLED) if isinstance(request.rule, str) else request.rule
        texts = [Written(self.prompt(prompt)) for prompt in request.repeated(prompts)]
        return texts, self.streamed(texts, rule=rule, stop=request.stop, seed=request.seed, **limits)

    def usual_length(self, prompts: Sequence[str], usual: int = 50) -> int:
        """How many new tokens to write where nobody says: the usual number, or what the context leaves."""
        longest = 1 if self.reads_source else max(len(self.prompt(prompt)) for prompt in prompts)
        return max(min(usual, self.config.model.length - longest), 1)

    def evaluate(
        self,
        split: str = "dev",
        *,
        on: str | Path | None = None,
        probes: Sequence[str] = (),
        rows: int = 32,
        **reading: Any,
    ) -> dict[str, Any]:
        """Scores on a split of the run's own corpus, or on the texts of a file (`reading` are options of
        the corpus `files`), and of probe sentences, as `attnlab evaluate` gives them."""
        from attnlab.experiment.scores import of_probes, of_split, of_text  # which score what is opened here

        scored = of_split(self, split, rows=rows) if on is None else of_text(self, on, **reading)
        return scored | ({"probes": of_probes(self, probes)} if probes else {})

    def text(self, written: Written) -> str:
        """What was written after the prompt, with the space between the two where words have one."""
        whole = self.tokenizer.written([*written.prompt, *written.new])
        return whole.removeprefix(self.tokenizer.written(written.prompt))

    @torch.inference_mode()
    def embed(
        self, texts: Sequence[str], *, pooling: Literal["first", "mean", "last"] = "mean", batch: int = 32
    ) -> Tensor:
        """One vector of length 1 for each text, (N, D): near ones are alike in meaning, if trained so."""
        if self.model.trunk.encoder is not None and self.model.trunk.decoder is not None:
            raise ConfigError("Texts are embedded by a model of one stack; this one has two.")
        most, form = self.config.model.length, self.tokenizer.form
        rows = [
            form.single(ids[: most - form.single_room]) for ids in self.tokenizer.encode_many(list(texts))
        ]
        order = sorted(range(len(rows)), key=lambda row: len(rows[row]))  # alike in length, little padding
        found = torch.empty(len(rows), self.config.model.width)
        for start in range(0, len(rows), batch):
            chosen = order[start : start + batch]
            ids, real = padded([rows[row] for row in chosen], side="right")
            tokens = Tokens.of(ids.shape[1], real=real)
            found[chosen] = pooled(self.model.eval().trunk(ids, tokens), tokens, pooling)
        return torch.nn.functional.normalize(found, dim=-1)

    def fill(self, text: str, *, top: int = 5) -> Places:
        """For each [MASK] of a text, the most likely words and their probabilities."""
        return places(self, text, top=top)


def open_run(path: str | Path, *, which: Literal["last", "best"] = "last") -> Trained:
    """A run's folder, or one of its checkpoints (…/checkpoints/step-N), verified before it is believed."""
    place = Path(path)
    folder, step = place, None
    if place.name.startswith("step-") and place.parent.name == "checkpoints":
        folder, step = place.parent.parent, int(place.name.removeprefix("step-"))
    if (folder / "config.json").is_file() and not (folder / RECORD).is_file():
        raise ConfigError(
            f"{folder} is a checkpoint of another project; take it in first: attnlab convert {folder} TARGET"
        )
    record = read_record(folder)
    config = RunFolder(folder).config()
    tokenizer = load_tokenizer(folder / "tokenizer.json")
    if record.get("tokenizer", tokenizer.fingerprint) != tokenizer.fingerprint:
        raise RunError(
            f"{folder / 'tokenizer.json'} is not the tokenizer that this run was trained with "
            f"({tokenizer.fingerprint}, not {record['tokenizer']}): its ids would mean other words."
        )
    if record.get("status") == "converted":  # its tokenizer is its own file, wherever the folder is
        own = Choice("file", {"path": str(folder / "tokenizer.json")})
        config = replace(config, data=replace(config.data, tokenizer=own))
    step = _step(record, folder, which) if step is None else step
    vocabulary = record.get("vocabulary", tokenizer.size)  # published tables have rows to spare
    model = build_model(replace(config.model, vocabulary=vocabulary), device="meta")
    try:
        load_checked(model, read_checkpoint(Checkpoints.of(folder), step))
    except DamagedError as damage:
        raise RunError(f"The checkpoint of step {step} in {folder} is damaged: {damage}") from damage
    return Trained(folder, step, config, tokenizer, model.eval())


def _step(record: dict[str, object], folder: Path, which: str) -> int:
    steps = Checkpoints.of(folder).steps()
    if not steps:
        raise RunError(
            f"{folder} has no checkpoint yet; train on with: attnlab train --resume --out {folder}"
        )
    best = record.get("best")
    if which == "best" and isinstance(best, dict) and best.get("step") in steps:
        return int(best["step"])
    return steps[-1]
