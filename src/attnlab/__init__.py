"""A laboratory for transformers: change one part, keep everything else equal, trust the answer.

    import attnlab as lab
    model = lab.decoder(width=128, attention=lab.Additive(), positions=lab.Rotary())

Every variant of a config's tables is here under its name: `lab.Additive()` is a choice with options, built
with the model's sizes. A name that two tables have, and a variant of your own, is asked for with its table:
`lab.choice("masks", "window", size=8)`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from attnlab import choices
from attnlab.choices import *  # noqa: F403  # what it has is its __all__
from attnlab.config.registry import choice, table
from attnlab.config.values import Choice, ConfigError

if TYPE_CHECKING:
    from attnlab.checks.probing import Probe
    from attnlab.model.adapters.adapter import Adapter
    from attnlab.model.capture import Captured, Change
    from attnlab.model.model import Model
    from attnlab.runs.findings import Findings
    from attnlab.session.folds import CrossValidation
    from attnlab.session.scoring import Texts, TextScores
    from attnlab.session.trained import Trained
    from attnlab.studies.runner import EndedStudy, RunnableStudy
    from attnlab.tasks.task import Prediction
    from attnlab.training.strategies.launcher import Shown

__all__ = [
    "Choice",
    "ConfigError",
    "adapt",
    "attach",
    "average",
    "capture",
    "check",
    "choice",
    "compare_adapters",
    "convert",
    "cross_validate",
    "decoder",
    "encoder",
    "encoder_decoder",
    "label_words",
    "open",
    "patch",
    "preset",
    "probe",
    "score",
    "study",
    "train",
]
__all__ += choices.__all__
__version__ = "0.1.0"


def decoder(*, vocabulary: int = 10_000, seed: int = 0, **settings: Any) -> Model:
    """A decoder (GPT-like): sees what stands before. `settings` are those of [model] in a config."""
    return _model("decoder", seed, settings | {"vocabulary": vocabulary})


def encoder(*, vocabulary: int = 10_000, seed: int = 0, **settings: Any) -> Model:
    """An encoder (BERT-like): sees everything. `settings` are those of [model] in a config."""
    return _model("encoder", seed, settings | {"vocabulary": vocabulary})


def encoder_decoder(*, vocabulary: int = 10_000, seed: int = 0, **settings: Any) -> Model:
    """Both (T5-like): the decoder attends to the encoded source. `settings` as in [model]."""
    return _model("encoder_decoder", seed, settings | {"vocabulary": vocabulary})


def preset(name: str, *, seed: int = 0, **settings: Any) -> Model:
    """A published architecture (gpt2, bert, roberta, distilbert, llama, t5), with changes."""
    return _model(None, seed, {"preset": name} | settings)


def attach(
    model: Model, adapter: Choice | str = "lora", *, train: Collection[str] = (), seed: int = 0
) -> Adapter:
    """Freeze a model, and put a small trained part on it: `attach(model, lab.Lora(rank=8))`.

    `train` names parameters of the model itself that are trained with it, such as "head".
    """
    return cast("Adapter", table("adapters").build(adapter)).attach(model, train=train, seed=seed)


def average(run: str | Path, out: str | Path, *, last: int = 5) -> Trained:
    """The mean of the weights of a run's `last` checkpoints, written as a run of its own and opened."""
    from attnlab.session.averaging import average as write_average
    from attnlab.session.trained import Trained

    write_average(run, out, last=last)
    return Trained.at(out)


def compare_adapters(
    start: str | Path,
    adapters: Sequence[Choice | str],
    *,
    data: str | Path,
    task: str = "",
    seeds: int = 3,
    set: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
    **reading: Any,
) -> EndedStudy:
    """A study of several methods of adapting a model to one table of rows, the first is the baseline:
    `compare_adapters("minilm", ["full", "lora", "head"], data="reviews.csv")`. What it recommends is in
    `.outcome.extra["recommendation"]`; the rest as in `adapt`."""
    from attnlab.studies.methods import methods_study
    from attnlab.studies.runner import RunnableStudy

    asked = methods_study(start, adapters, data=data, task=task, reading=reading, set=set or {}, seeds=seeds)
    return RunnableStudy.of(asked).run(out, resume=resume, progress=progress)


def adapt(
    start: str | Path,
    adapter: Choice | str = "full",
    *,
    data: str | Path,
    task: str = "",
    rates: str | Sequence[float] = (),
    template: str = "",
    label_words: Mapping[str, str] | None = None,
    set: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    allow: Collection[str] = (),
    progress: bool = True,
    **reading: Any,
) -> Trained:
    """Train a run, a checkpoint or a folder of transformers on labelled rows, as `attnlab adapt` does.

    `adapt("minilm", data="reviews.csv", text="text", label="label", adapter=lab.Lora(rank=8))` says what it
    will do, does it, and opens the best checkpoint. `reading` names columns and files: text, pair, label,
    dev, test. `rates` are learning rates to try ("usual", or numbers): the best on dev is kept. `template`
    and `label_words` are those of the baseline that needs no training, see `label_words`.
    """
    from attnlab.config.visible_text import visible_lines
    from attnlab.runs.display import Display
    from attnlab.runs.faults import RunError
    from attnlab.session.adapting import adapt as run
    from attnlab.session.adapting import adapting_config, run_folder
    from attnlab.session.baselines import Wording
    from attnlab.session.trained import Trained
    from attnlab.targets.report import baselines_sentence

    config = adapting_config(start, data=data, adapter=adapter, task=task, reading=reading, set=set or {})
    ended = run(
        config,
        run_folder(config, data) if out is None else Path(out),
        display=lambda: Display(shown=progress),
        tell=print,
        rates=rates,
        wording=Wording(template, dict(label_words or {})),
        resume=resume,
        allow=allow,
    )
    if ended.rates and ended.signal:
        raise RunError(
            f"Stopped as requested; continue with resume=True. What was tried is in {ended.rates.folder}."
        )
    for sentence in (
        ended.collapsed or ended.shortfall,
        str(ended.rates or ""),
        baselines_sentence(ended.baselines),
    ):
        if sentence:
            print(visible_lines(sentence))
    return Trained.at(ended.folder)


def cross_validate(
    start: str | Path,
    adapter: Choice | str = "full",
    *,
    data: str | Path,
    folds: int = 5,
    task: str = "",
    set: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    allow: Collection[str] = (),
    progress: bool = True,
    **reading: Any,
) -> CrossValidation:
    """Adapt a model once for each fold of labelled rows, as `attnlab adapt --folds` does: every row is scored
    once, by a model that was trained on others. `result.score` is over all rows, with its interval."""
    from attnlab.runs.display import Display
    from attnlab.session.adapting import adapt as run
    from attnlab.session.adapting import adapting_config, run_folder

    config = adapting_config(start, data=data, adapter=adapter, task=task, reading=reading, set=set or {})
    ended = run(
        config,
        run_folder(config, data) if out is None else Path(out),
        display=lambda: Display(shown=progress),
        tell=print,
        folds=folds,
        resume=resume,
        allow=allow,
    ).folds
    assert ended is not None
    return ended


def label_words(
    start: str | Path,
    texts: Sequence[str | tuple[str, str]],
    labels: Sequence[str],
    *,
    template: str = "",
    words: Mapping[str, str] | None = None,
) -> list[Prediction]:
    """What a language model says of texts without any training.

    `label_words("runs/gpt", texts, ["bad", "good"], template="{text} It was {label}")` scores each label by
    the probability of its word, which is its name unless `words` has another.
    """
    from attnlab.session.baselines import Wording, predict_words

    return predict_words(start, texts, labels, Wording(template, dict(words or {})))


def train(
    config: str | Path,
    *,
    set: Mapping[str, Any] | None = None,
    corpus: str | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    allow: Collection[str] = (),
    watch: str | None = None,
    progress: bool = True,
    processes: int = 1,
    restarts: int = 0,
) -> Trained:
    """Train a ready config or a file's, as `attnlab train` does: `train("mini-gpt", corpus="notes.txt")`.

    `watch` is a prompt that is continued after 1, 10, 100, … steps (watch.html of the run);
    `progress=False` shows nothing while it trains. Several `processes` of this machine train it together,
    and are started again so many times if they die; a script that torchrun starts trains in its own.
    """
    from attnlab.config.files import identity, load
    from attnlab.runs.display import Display
    from attnlab.session.baselines import keep_baselines
    from attnlab.session.launching import RunRequest, launch_run
    from attnlab.session.run_display import displayed_session, train_displayed
    from attnlab.training.strategies.own_processes import current, restarted

    changes = dict(set or {}) | ({} if corpus is None else {"data.corpus": corpus})
    settings = load(config, set=changes)
    place = Path(out) if out is not None else Path("runs") / f"{Path(config).stem}-{identity(settings)[:8]}"
    here = current()
    if (processes > 1 or restarts) and here.world == 1:
        request = RunRequest(settings, place, resume, tuple(allow), watch)
        shown: Shown = "progress" if progress else "nothing"
        launch_run(request, processes=processes, restarts=restarts, tell=print, shown=shown)
        return open(place)
    with Display(shown=progress and here.first) as display, here.guarded():
        again = resume or restarted()
        session = displayed_session(display, settings, place, resume=again)
        ended = train_displayed(display, session, place, resume=again, allow=allow, watch=watch)
        if ended.reason != "interrupted" and here.first:
            keep_baselines(session, place)
        here.meet()
    return open(place)


def study(
    name: str | Path,
    *,
    quick: bool = False,
    seeds: int | None = None,
    set: Mapping[str, Any] | None = None,
    only: Iterable[str] = (),
) -> RunnableStudy:
    """A built-in study, or a file's: `study("masking", seeds=3).run().report("masking.html")`. One that was
    published (.zip), or the folder of one that was run, is repeated."""
    from attnlab.studies.publishing import open_study
    from attnlab.studies.runner import RunnableStudy
    from attnlab.studies.study_files import adjusted

    return RunnableStudy.of(adjusted(open_study(name), quick=quick, seeds=seeds, set=set or {}, only=only))


def score(
    hypotheses: Texts | Mapping[str, Texts],
    references: Texts | Sequence[Sequence[str]],
    *,
    sources: Texts | None = None,
) -> TextScores:
    """BLEU, chrF, ROUGE and exact match of texts, as `attnlab score` gives them: `lab.score("out.txt",
    "ref.txt")["bleu"]`, or lists of texts in place of files.

    Several references for each text are a list of lists, each as long as the texts. Several systems,
    `{"old": "old.txt", "new": "new.txt"}`, are compared with the first, paired by line.
    """
    from attnlab.session.scoring import score_texts

    named = hypotheses if isinstance(hypotheses, Mapping) else {_name_of(hypotheses): hypotheses}
    single = isinstance(references, str | Path) or all(isinstance(texts, str) for texts in references)
    streams = cast("Sequence[Texts]", [references] if single else references)
    return score_texts(named, streams, sources=sources)


def _name_of(texts: Texts) -> str:
    return str(texts) if isinstance(texts, str | Path) else "texts"


def convert(source: str | Path, target: str | Path, *, adapter: bool = False) -> None:
    """Import a checkpoint of another project, or export a run, as `attnlab convert` does; with `adapter`
    only what was tuned, in peft's files."""
    from attnlab.session.convert import convert as run
    from attnlab.session.convert import export_adapter

    export_adapter(source, target) if adapter else run(source, target)


def open(run: str | Path) -> Trained:
    """A run at its best checkpoint, one of its checkpoints, a folder in transformers' layout, or "minilm":
    `lab.open("runs/mine").generate("Once")`."""
    from attnlab.session.trained import Trained

    return Trained.at(run)


def probe(model: Any, vocabulary: int | None = None, mask: Any = "causal", **settings: Any) -> Probe:
    """What a model's outputs really depend on, against the mask it claims: `lab.probe(model).show()`."""
    from attnlab.checks.probing import probe

    return probe(model, vocabulary, mask, **settings)


def capture(model: Model, *places: str) -> AbstractContextManager[Captured]:
    """Keep what flows through places of a model inside a block:
    `with lab.capture(model, "layers.*.attention.weights") as seen: model(ids)`. See attnlab.model.places."""
    from attnlab.model.capture import capture

    return capture(model, *places)


def patch(model: Model, changes: Mapping[str, Change]) -> AbstractContextManager[Model]:
    """Change what flows through places of a model inside a block: `with lab.patch(model, {"layers.3.heads.5":
    0}): model(ids)`. A change is a number, a tensor, or a function of what flows there."""
    from attnlab.model.capture import patch

    return patch(model, changes)


def check(model: Any, tokenizer: Any = None, **settings: Any) -> Findings:
    """What the checks find in any torch module, of transformers or your own: `lab.check(model, tokenizer)`.

    Dependency, padding and batch invariance, the cache, and whether the tokenizer is the model's. `settings`:
    vocabulary and mask ("causal" or "bidirectional") where the model does not tell, and `forward`, as `probe`
    takes it.
    """
    from attnlab.interop.module_checks import check_module
    from attnlab.runs.findings import Findings

    return Findings(check_module(model, tokenizer=tokenizer, **settings))


def _model(family: str | None, seed: int, settings: dict[str, Any]) -> Model:
    from attnlab.config.files import section_of
    from attnlab.config.memory import refuse_beyond_memory
    from attnlab.model.assemble import build_model

    resolved = section_of("model", settings if family is None else settings | {"family": family})
    draft = build_model(resolved, device="meta")
    refuse_beyond_memory(sum(p.numel() for p in draft.parameters()), "This model", "make it smaller")
    return build_model(resolved, seed=seed)
