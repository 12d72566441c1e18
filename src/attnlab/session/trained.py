"""A model that was trained before, with all that gives its numbers a meaning, and what can be asked of it."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from torch import Tensor

from attnlab.checks.decoding import miswrites
from attnlab.config.schema import SCRATCH, Config
from attnlab.config.values import ConfigError
from attnlab.config.wording import in_words
from attnlab.data.corpora.records import ANSWER_COLUMNS, Columns, Names
from attnlab.data.dataset import Dataset, no_progress
from attnlab.data.encode import ENCODINGS
from attnlab.data.encode.encoding import Cut
from attnlab.data.images.picture import Picture
from attnlab.data.labels import Labels
from attnlab.data.passage_index import Hit
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.evaluation.evaluation_result import EvaluationResult
from attnlab.explain.attention_maps import AttentionMaps
from attnlab.explain.head_losses import HeadLosses
from attnlab.explain.head_vectors import HeadVectors
from attnlab.explain.model_reading import Reading
from attnlab.explain.picture_attention import PictureAttention
from attnlab.generation.request import PENALTIES, at_least, number_between, request_of, several
from attnlab.interop.exchange import read_published
from attnlab.model.model import Model
from attnlab.runs.findings import unsound_of
from attnlab.session.embedding import Embedder, Pooling
from attnlab.session.evaluating import evaluate, evaluate_heads
from attnlab.session.filling import Places, places
from attnlab.session.picture_reading import picture_attention
from attnlab.session.predicting import Predictor, predict_each, predict_pictures, unread_sentence
from attnlab.session.questions import RankedAnswers, ask
from attnlab.session.searching import Searcher
from attnlab.session.session import Session, default_cache
from attnlab.session.start import Origin, Start, has_start, start_at
from attnlab.session.stored import Stored, is_published, model_folder, name_of, stored_at
from attnlab.session.translating import (
    BEAM,
    Candidate,
    Translator,
    examples_of,
    refuse_untranslating,
)
from attnlab.session.writing import text_of, write
from attnlab.tasks.task import Prediction, Task

if TYPE_CHECKING:
    from attnlab.generation.decoder import Beyond
    from attnlab.generation.rules import DecodingRule


class Trained(Session):
    """A session whose model was trained: a run at one of its checkpoints, or a model of another project.

    `decision` is what its predictions go by that was chosen on dev, such as the threshold of answers. Of a
    model that was `imported` it is not known what it was trained on.
    """

    def __init__(
        self,
        config: Config,
        folder: Path,
        *,
        tokenizer: Tokenizer,
        labels: Labels,
        model: Model,
        stored: Stored | None = None,
    ):
        self.config, self.folder, self.cache, self.progress = config, folder, default_cache(), no_progress
        self.tokenizer, self.labels, self.model = tokenizer, labels, model
        self.taken = True
        self.step = 0 if stored is None else stored.step
        self.record: Mapping[str, Any] = {} if stored is None else stored.record
        self.decision: Mapping[str, float] = {} if stored is None else stored.decision
        self.imported = stored is None or stored.imported
        self.origin = Origin(self.record.get("start", SCRATCH), fresh=() if stored is None else stored.fresh)

    @classmethod
    def at(cls, path: str | Path, *, which: Literal["last", "best"] = "best") -> Self:
        """A run's folder, one of its checkpoints (…/checkpoints/step-N), a folder in transformers' layout, or
        a packaged model by its name: verified before it is used.

        Of a run, the checkpoint that was best on dev, and the last where none was evaluated.
        """
        folder = model_folder(path)
        if is_published(folder):
            published = read_published(folder)
            model, tokenizer, labels = published.model, published.tokenizer, published.labels
            return cls(published.config, folder, tokenizer=tokenizer, labels=labels, model=model)
        stored = stored_at(folder, which=which)
        model, tokenizer, labels = stored.model(), stored.tokenizer, stored.labels
        return cls(
            stored.config, stored.folder, tokenizer=tokenizer, labels=labels, model=model, stored=stored
        )

    def __repr__(self) -> str:
        count = sum(p.numel() for p in self.model.parameters())
        about = f"{name_of(self.folder)!r}, step {self.step:,}, {self.config.task.kind}, {count:,} parameters"
        return f"{type(self).__name__}({about})"

    @cached_property
    def start(self) -> Start | None:  # type: ignore[override]  # resolved when it is asked for: it may be gone
        """What it began from, where that can still be read."""
        scratch = self.config.start == SCRATCH or not has_start(self.config)
        return None if scratch else start_at(self.config.start)

    @cached_property
    def dataset(self) -> Dataset:
        """The text that it was trained on, as it is now."""
        return self.read_dataset()

    @property
    def checkpoint(self) -> str:
        """Which checkpoint it is, in words."""
        if self.imported:
            return "as it was published"
        if averaged := self.record.get("averaged"):
            return f"the mean of steps {in_words(averaged['steps'])}"
        best = self.record.get("best") or {}
        if best.get("value") is None or best.get("step") != self.step:
            return f"step {self.step:,}"
        is_top = best.get("top_step", self.step) == self.step
        return f"step {self.step:,}, {'the best on dev' if is_top else 'as good as the best on dev'}"

    @property
    def unsound(self) -> list[str]:
        """The checks that the run failed: while there is one, its numbers do not mean what they say."""
        failed = unsound_of(self.folder)
        return sorted({*failed, "decoding"}) if self.miswrites else failed

    @cached_property
    def miswrites(self) -> bool:
        """Whether cached decoding gives other scores than each text alone, as the model is now."""
        return miswrites(self.model, self.tokenizer.common_size, self.config.longest_text)

    @cached_property
    def deciding(self) -> Task:
        """The same, with what was chosen on dev: for texts that it was not chosen on."""
        return self.task.with_decision(self.decision)

    @property
    def headless(self) -> bool:
        """Whether its head gives neither words nor labels, as that of a bare trunk."""
        return self.config.model.output.kind not in self.task.heads

    def refuse_headless(self) -> None:
        """Say what can be done with a model whose head gives neither words nor labels, such as a trunk."""
        if self.headless:
            name = name_of(self.folder)
            raise ConfigError(
                f"{name} has no head for words or labels. Get the vectors of texts in Python: "
                f'lab.open("{name}").embed(["…"]); or train a head: attnlab adapt {shlex.quote(name)} '
                "--data FILE"
            )

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of an example that its task reads from a table with what is right."""
        return self.task.target.columns

    def columns(self, part: str) -> Names:
        """Where a part of an example stands in a table: as in the run's own, else by the usual names."""
        own, usual = self.config.data.corpus.options.get(part), getattr(Columns(), part)
        usual = ANSWER_COLUMNS if part == "answers" else usual
        return (own, *usual) if isinstance(own, str) else usual

    def prompt(self, text: str) -> list[int]:
        """A text as the beginning of one: the tokens before it, its own, and none that end it."""
        return [*self.tokenizer.form.before, *self.tokenizer.encode(text)] or [self.tokenizer.first]

    @property
    def unknown_token(self) -> int:
        """The token of words that the tokenizer does not know, in what is read; no token (-1) where it knows
        every text."""
        unknown = self.tokenizer.specials.unknown
        return -1 if unknown is None else unknown

    @property
    def stop(self) -> set[int]:
        """The tokens that end a text."""
        writes = self.tokenizer.target
        ends = writes.form.end or (writes.specials.stop,)
        return {token for token in ends if token is not None}

    @property
    def continues(self) -> bool:
        """Whether it was trained to go on with any text, and so gives one a probability."""
        return self.model.writes and self.task.continues

    @property
    def fills(self) -> bool:
        """Whether it was trained to say what is hidden within a text."""
        hides = self.tokenizer.specials.mask is not None
        return hides and self.model.head.scores_words and self.task.fills

    @property
    def reads_source(self) -> bool:
        """Whether what it writes stands apart from the prompt, which is its source."""
        return self.model.trunk.reads_source

    @property
    def translates(self) -> bool:
        """Whether it was trained to write a target for a source: a translation, a summary."""
        of_pairs = "target" in ENCODINGS[self.config.data.encoding.kind].uses
        writes = self.task.predicts_words and self.model.writes
        return writes and (of_pairs or (self.imported and self.reads_source))

    @property
    def captions(self) -> bool:
        """Whether what it writes a target for is a picture."""
        return self.translates and self.config.model.picture is not None

    @property
    def fitting_command(self) -> str:
        """What a person can ask it for, as a command."""
        if self.captions:
            return "let it describe pictures: attnlab caption RUN FILE"
        if self.translates:
            return 'let it translate: attnlab translate RUN "…"'
        if self.fills:
            return 'let it fill in: attnlab generate RUN --fill "The [MASK] sat."'
        return f"ask it: attnlab {self.task.command}"

    # ---------------------------------------------------------------- what can be asked of it
    def generate(
        self,
        prompts: str | Sequence[str],
        *,
        length: int | None = None,
        rule: str | DecodingRule = "",
        beam: int = 0,
        penalty: float = 1.0,
        copies: int = 1,
        stop: str | Sequence[str] = (),
        beyond: Beyond = "refuse",
        seed: int = 0,
        **elsewhere: Any,
    ) -> str | list[str]:
        """Text that continues a prompt, or a list of texts for several prompts or `copies`.

        Up to `length` new tokens, chosen by `rule` (sampled, where nobody says otherwise) or the most likely
        ones that `beam` beams find, with a length `penalty`; up to a text of `stop`, which is kept. `beyond`
        the trained context they are refused, or written in a window. Names that other projects use are
        answered with these.
        """
        settings = {"length": length, "rule": rule, "beam": beam, "penalty": penalty, "copies": copies}
        request = request_of(settings | {"stop": stop, "beyond": beyond, "seed": seed} | elsewhere)
        asked = several(prompts, "The prompt")
        if not asked:
            return []
        written = [text_of(self, text) for text in write(self, asked, request)]
        return written[0] if isinstance(prompts, str) and copies == 1 else written

    def translate(
        self,
        texts: str | Sequence[str],
        *,
        beam: int = BEAM,
        penalty: float = 1.0,
        cut: Cut = "refuse",
    ) -> str | list[str]:
        """The translation of a text, or of each of a list; an empty one of an empty text.

        The most likely text that `beam` beams find, with a length `penalty`. A text that is longer than the
        model reads is refused, or loses its "end" or its "start".
        """
        refuse_untranslating(self, "translate")
        best = self.candidates(texts, best=1, beam=beam, penalty=penalty, cut=cut)
        written = [candidates[0].text for candidates in best]
        return written[0] if isinstance(texts, str) else written

    def summarise(
        self,
        texts: str | Sequence[str],
        *,
        beam: int = BEAM,
        penalty: float = 1.0,
        cut: Cut = "end",
    ) -> str | list[str]:
        """The summary of a text, or of each of a list. Of a long text the end is left out, with a warning."""
        return self.translate(texts, beam=beam, penalty=penalty, cut=cut)

    def caption(
        self,
        pictures: str | Path | bytes | Sequence[str | Path | bytes],
        *,
        beam: int = BEAM,
        penalty: float = 1.0,
    ) -> str | list[str]:
        """What it writes for a picture (its file, or its bytes), or for each of a list: the most likely text
        that `beam` beams find, with a length `penalty`."""
        refuse_untranslating(self, "caption")
        best = self.candidates(pictures, best=1, beam=beam, penalty=penalty)
        written = [candidates[0].text for candidates in best]
        return written[0] if isinstance(pictures, (str, Path, bytes)) else written

    def candidates(
        self,
        texts: str | Path | bytes | Sequence[str | Path | bytes | Picture],
        *,
        best: int = BEAM,
        beam: int = BEAM,
        penalty: float = 1.0,
        cut: Cut = "refuse",
    ) -> list[list[Candidate]]:
        """The `best` translations of each text with their scores, best first; of each picture the captions,
        where the model describes pictures."""
        for name, value in (("best", best), ("beam", beam)):
            at_least(name, value, 1)
        number_between("penalty", penalty, *PENALTIES)
        translator = Translator(self, beam=beam, penalty=penalty, best=best, cut=cut)
        candidates = translator.candidates(examples_of(texts, translator))
        if translator.cuts.cut:
            warnings.warn(f"{translator.cuts} at {translator.room} tokens.", stacklevel=2)
        return candidates

    @property
    def reading(self) -> Reading:
        """The model as one that can be looked into."""
        return Reading(self.model, self.tokenizer, self.config.model, self.config.longest_text)

    def evaluate(
        self,
        split: str = "dev",
        *,
        on: str | Path | None = None,
        probes: Sequence[str] = (),
        rows: int = 32,
        **reading: Any,
    ) -> EvaluationResult:
        """Scores on a split of the run's own corpus, or on the texts of a file (`reading` are options of
        the corpus `files`), and of probe sentences, as `attnlab evaluate` gives them."""
        at_least("rows", rows, 2)
        asked = several(probes, "probes")
        return evaluate(self, split, on=on, probes=asked, rows=rows, **reading)

    def attention(self, text: str, pair: str = "", *, layer: int = -1, head: int = -1) -> AttentionMaps:
        """Where each head looks on a text or a pair, and what happens without it; a notebook draws it.

        A translator's second text is what it writes for the first, unless another target is given.
        """
        if self.translates and not pair:
            pair = str(self.translate(text))
        return self.reading.attention(text, pair, layer=layer, head=head)

    def picture_attention(
        self, image: str | Path | Picture, text: str = "", *, layer: int = -1, head: int = -1
    ) -> PictureAttention:
        """Where each head looks on a picture (its file), with a text where the model reads both; of a model
        that writes for pictures the text that it has written, by default what it writes."""
        return picture_attention(self, image, text, layer=layer, head=head)

    def heads(
        self, on: str | Path | None = None, *, texts: int = 200, **reading: Any
    ) -> HeadLosses | HeadVectors:
        """The change of the loss without each head, on texts of a file or of the run's own dev split."""
        return evaluate_heads(self, on, texts=texts, **reading)

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
        """The passages of files that are nearest in meaning to a query, best first; of a folder of pictures
        the pictures, where the model reads them (a hit's `file`). The files are indexed once; `wanted`:
        `index`, a folder for that, and the files' `encoding`."""
        return Searcher.of(Embedder.of(self, pooling), inside, **wanted).search(query, top=top)

    def predict(
        self, texts: Sequence[str | tuple[str, str] | Path | bytes], *, batch_size: int = 64
    ) -> list[Prediction]:
        """What a model that was trained on labels makes of texts, or of pairs of them; of pictures (files or
        bytes), or of pairs of a picture and a text. One that cannot be read, such as an empty one, has no
        answer (None), and its `unread` says why."""
        if isinstance(texts, (str, bytes)) or not isinstance(texts, Iterable):
            raise ConfigError(f"texts is {texts!r:.200}; give a list of texts, also of one.")
        predictor = Predictor(self, batch_size=batch_size)
        if predictor.pictured:
            predictions = predict_pictures(texts, predictor)
        else:
            predictions = predict_each(texts, predictor, pairs=predictor.pairs)
        if missing := unread_sentence(predictions):
            warnings.warn(missing, stacklevel=2)
        if predictor.cuts.cut:
            warnings.warn(f"{predictor.cuts} at data.length {self.config.data.length}.", stacklevel=2)
        return predictions

    def ask(
        self, question: str, passages: str | Sequence[str] | Mapping[str, str], *, batch_size: int = 64
    ) -> RankedAnswers:
        """The answer to a question that stands in a passage, or in the best of several; see RankedAnswers."""
        return ask(self, question, passages, batch_size=batch_size)

    def fill(self, text: str, *, top: int = 5) -> Places:
        """For each [MASK] of a text, the most likely words and their probabilities."""
        return places(self, text, top=top)
