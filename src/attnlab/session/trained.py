"""A model that was trained here, and what can be asked of it."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from attnlab.config.memory import refuse_beyond_memory
from attnlab.config.values import ConfigError
from attnlab.data.encode.encoding import Cut
from attnlab.data.passage_index import Hit
from attnlab.explain.attention_maps import AttentionMaps
from attnlab.explain.head_losses import HeadLosses
from attnlab.generation import DECODING
from attnlab.generation.beam import beam_searches
from attnlab.generation.decoder import Beyond, Decoder, window_start
from attnlab.generation.generate import Written, stream
from attnlab.generation.packed_weights import PackingDifference, by_columns, difference, pack
from attnlab.generation.rules import DecodingRule, Greedy
from attnlab.session.embedding import Embedder, Pooling
from attnlab.session.evaluating import of_probes, of_split, of_text
from attnlab.session.explaining import Subject, heads_of
from attnlab.session.filling import Places, places
from attnlab.session.opened import Opened
from attnlab.session.predicting import Predictor, example
from attnlab.session.questions import RankedAnswers, ask
from attnlab.session.request import SAMPLED, Request, at_least, request_of, several
from attnlab.session.score_table import Scores
from attnlab.session.searching import Searcher
from attnlab.tasks.task import Prediction


@dataclass(frozen=True, repr=False)
class Trained(Opened):
    """A trained model that writes, fills in, embeds and is scored."""

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
            context=self.config.longest_text,
            beyond=beyond,
        )

    @torch.inference_mode()
    def pack(self, weights: str, prompts: Sequence[str]) -> PackingDifference:
        """Hold the weights in fewer bits from here on: float16 or int8, faster and approximate.

        Gives how far that moves the scores of the token after each of these prompts.
        """
        _ = self.miswrites  # asked while the weights are exact
        texts = [Written(self.prompt(prompt)) for prompt in prompts]
        sources, context = self._sources(texts), self.config.longest_text
        held = [text.prompt[window_start(0, len(text.prompt), context) :] for text in texts]
        exact = Decoder(self.model, held, sources=sources).next
        pack(self.model, weights)
        return difference(exact, Decoder(self.model, held, sources=sources).next)

    def _sources(self, texts: Sequence[Written]) -> list[list[int]] | None:
        """Ready to write. For an encoder-decoder the prompts are what is read, and text is written from the
        start token on."""
        self.refuse_headless()
        if not self.task.predicts_words:
            raise ConfigError(
                'This model predicts labels and writes no text; ask it: attnlab predict RUN "…"'
            )
        if not self.model.writes:
            raise ConfigError(
                "This model reads a whole text and cannot continue one. A masked model fills in: "
                'attnlab generate RUN --fill "The [MASK] sat."'
            )
        if not self.reads_source:
            return None
        if any(text.prompt == self.prompt("") for text in texts):
            raise ConfigError(
                "This model generates a target from a source text, and none was given; give one: "
                'attnlab generate RUN "…"'
            )
        sources = [[*text.prompt, *self.tokenizer.form.end] for text in texts]
        longest, room = max(map(len, sources)), self.config.longest_text
        if longest > room:
            raise ConfigError(
                f"A prompt of {longest} tokens is longer than the {room} that this model reads."
            )
        for text in texts:
            text.prompt = [self.tokenizer.first]
        return sources

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
        at_least("width", width, 1)
        self._refuse_many(len(prompts) * min(width, self.tokenizer.size ** min(length, 64)), "the beam")
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
            context=self.config.longest_text,
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
        self._refuse_many(len(prompts) * request.copies, "copies")
        texts = [Written(self.prompt(prompt)) for prompt in request.repeated(prompts)]
        return texts, self.streamed(texts, rule=rule, stop=request.stop, seed=request.seed, **limits)

    def _refuse_many(self, texts: int, what: str) -> None:
        """Stop before more texts are written at once than memory has room for the scores of."""
        told = f"Writing {texts:,} texts at once"
        refuse_beyond_memory(texts * self.tokenizer.size, told, f"lower {what}, or give fewer prompts")

    def usual_length(self, prompts: Sequence[str], usual: int = 50) -> int:
        """How many new tokens to write where nobody says: the usual number, or what the context leaves."""
        longest = 1 if self.reads_source else max(len(self.prompt(prompt)) for prompt in prompts)
        return max(min(usual, self.config.longest_text - longest), 1)

    def text(self, written: Written) -> str:
        """What was written after the prompt, with the space between the two where words have one."""
        whole = self.tokenizer.written([*written.prompt, *written.new])
        return whole.removeprefix(self.tokenizer.written(written.prompt))

    def evaluate(
        self,
        split: str = "dev",
        *,
        on: str | Path | None = None,
        probes: Sequence[str] = (),
        rows: int = 32,
        **reading: Any,
    ) -> Scores:
        """Scores on a split of the run's own corpus, or on the texts of a file (`reading` are options of
        the corpus `files`), and of probe sentences, as `attnlab evaluate` gives them."""
        at_least("rows", rows, 2)
        asked = several(probes, "probes")
        found = {"probes": of_probes(self, asked)} if asked else {}
        if on is not None:
            return Scores(of_text(self, on, **reading) | found)
        if self.imported and asked:  # it has no text of its own
            return Scores(found)
        return Scores(of_split(self, split, rows=rows) | found)

    def attention(self, text: str, pair: str = "", *, layer: int = -1, head: int = -1) -> AttentionMaps:
        """Where each head looks on a text or a pair, and what happens without it; a notebook draws it."""
        return Subject.of(self).attention(text, pair, layer=layer, head=head)

    def heads(self, on: str | Path | None = None, *, texts: int = 200, **reading: Any) -> HeadLosses:
        """The change of the loss without each head, on texts of a file or of the run's own dev split."""
        return heads_of(self, on, texts=texts, **reading)

    def embed(
        self,
        texts: Sequence[str],
        *,
        pooling: Pooling = "trained",
        batch: int = 32,
        cut: Cut = "refuse",
    ) -> Tensor:
        """One vector of length 1 for each text, (N, D): near ones are alike in meaning, if trained so.

        `pooling` is how its tokens' vectors become one: as it was trained, else the mean. `cut` is what
        happens to a text that is longer than the model reads, as in data.encoding: "refuse", or leave out
        its "end" or its "start".
        """
        return Embedder.of(self, pooling)(texts, batch=batch, cut=cut)

    def search(
        self,
        query: str,
        *,
        inside: str | Path,
        top: int = 5,
        pooling: Pooling = "trained",
        **wanted: Any,
    ) -> list[Hit]:
        """The passages of files that are nearest in meaning to a query, best first. The files are indexed
        once; `wanted`: `index`, a folder for that, and the files' `encoding`."""
        return Searcher.of(Embedder.of(self, pooling), inside, **wanted).search(query, top=top)

    def predict(self, texts: Sequence[str | tuple[str, str]], *, batch_size: int = 64) -> list[Prediction]:
        """What a model that was trained on labels makes of texts, or of pairs of them."""
        if isinstance(texts, (str, bytes)) or not isinstance(texts, Iterable):
            raise ConfigError(f"texts is {texts!r:.200}; give a list of texts, also of one.")
        predictor = Predictor(self, batch_size=batch_size)
        found = list(predictor(example(text, pairs=predictor.pairs) for text in texts))
        if predictor.cuts.cut:
            warnings.warn(f"{predictor.cuts} at data.length {self.config.data.length}.", stacklevel=2)
        return found

    def ask(
        self, question: str, passages: str | Sequence[str] | Mapping[str, str], *, batch_size: int = 64
    ) -> RankedAnswers:
        """The answer to a question that stands in a passage, or in the best of several; see RankedAnswers."""
        return ask(self, question, passages, batch_size=batch_size)

    def fill(self, text: str, *, top: int = 5) -> Places:
        """For each [MASK] of a text, the most likely words and their probabilities."""
        return places(self, text, top=top)


def open_run(path: str | Path, *, which: Literal["last", "best"] = "best") -> Trained:
    """A run's folder, or one of its checkpoints (…/checkpoints/step-N), verified before it is believed.

    Of a run, the checkpoint that was best on dev, and the last where none was evaluated.
    """
    return Trained.at(path, which=which)
