"""Every knob of a run on one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_type_hints

from attnlab.config.pictures import PATCH, SIZE, PictureGrid
from attnlab.config.ranges import MOST, BelowOne, Count, NotNegative, Positive, Range, Seed, Whole
from attnlab.config.values import Choice, ConfigError, refuse_out_of_range, written


def chosen(table: str, default: str, *, by_layer: bool = False, later: bool = False) -> Any:
    """A field that holds a choice from a table, or a list with one for each layer.

    One that came `later` is recorded where it is not at its default: what was recorded before stays equal.
    """
    return field(default=Choice(default), metadata={"table": table, "by_layer": by_layer, "later": later})


def chosen_or(table: str, word: str) -> Any:
    """A field that came later and holds a choice from a table, or by default a word that is none of it."""
    return field(default=word, metadata={"table": table, "by_layer": False, "later": True, "word": word})


FAMILIES: dict[str, dict[str, Any]] = {
    "decoder": {"mask": "causal"},
    "encoder": {"mask": "bidirectional"},
    "encoder_decoder": {"mask": "causal"},
}
"""A family is a set of stacks, and these defaults."""


Biased = Literal["query_key_value", "attention_output", "feedforward", "norm"]
BIASED: tuple[Biased, ...] = get_args(Biased)
"""The parts of a block that can have a bias; a query-key norm's shift is one of queries and keys."""


def biased_parts(bias: bool | Sequence[Biased]) -> tuple[Biased, ...]:
    """The parts that `model.bias` names: all, none, or those of a list."""
    wanted = (BIASED if bias else ()) if isinstance(bias, bool) else bias
    return tuple(part for part in BIASED if part in wanted)


Depth = Annotated[int, Range(least=1, most=4096)]
"""Layers, each of which is a module: the deepest published transformers have 1,000."""
Tally = Annotated[int, Range(least=1)]
"""What is counted and never held at once, such as steps or tokens."""


def declared(section: Any) -> Mapping[str, Any]:
    """The annotations of a section's fields, ranges included."""
    return _declared(section)


@cache  # evaluating them takes longer than all else of a config
def _declared(section: Any) -> Mapping[str, Any]:
    return get_type_hints(section, include_extras=True)


def check_ranges(section: Any, name: str) -> None:
    """Refuse numbers that the annotations of a section's fields do not allow, however it was made."""
    for field_name, kind in declared(type(section)).items():
        refuse_out_of_range(getattr(section, field_name), kind, f"{name}.{field_name}")


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """The model. `mask` is that of the decoder, or of the encoder where it stands alone."""

    trunk: Choice = chosen("trunks", "transformer", later=True)  # from token ids to hidden states
    family: Literal["decoder", "encoder", "encoder_decoder"] = "decoder"
    vocabulary: Count | Literal["tokenizer"] = (
        "tokenizer"  # rows of its table; tokenizer: as many as it has tokens
    )
    # rows of the encoder's own table, beside a decoder's; shared: both read with one
    source_vocabulary: Count | Literal["shared"] = field(default="shared", metadata={"later": True})
    length: Count = 128
    width: Count = 128
    layers: Depth = 4
    heads: Count = 4
    head_width: Count | Literal["even"] = "even"  # even: width / heads
    attention: Choice | tuple[Choice, ...] = chosen("attention", "dot", by_layer=True)  # a list: one a layer
    cross_attention: Choice = chosen("attention", "dot")
    mask: Choice = chosen("masks", "causal")
    masking: Literal["-inf", "zero"] = "-inf"
    positions: Choice = chosen("positions", "sinusoidal")
    projections: Choice = chosen("projections", "separate")
    norm: Choice = chosen("norms", "layer")
    residual: Choice = chosen("residuals", "pre")
    feedforward: Choice = chosen("feedforwards", "gelu")
    output: Choice = chosen("heads", "language_model")
    bias: bool | tuple[Biased, ...] = True  # true: every part
    dropout: BelowOne = 0.0
    attention_dropout: BelowOne = 0.0
    token_types: Whole = 0
    vectors: Whole = field(default=0, metadata={"later": True})  # numbers of a vector that a token may have
    embedding_scale: Positive | Literal["unit", "root"] = (
        "unit"  # unit: variance 1 at the start; root: √width
    )
    embedding_norm: bool = False
    inputs: Choice | tuple[Choice, ...] = chosen("inputs", "text", by_layer=True, later=True)  # what it reads
    fusion: Choice = chosen(
        "fusions", "early", later=True
    )  # in which layers image and text attend to each other

    def __post_init__(self) -> None:
        check_ranges(self, "model")
        self._check_inputs()
        if self.source_vocabulary != "shared" and self.family != "encoder_decoder":
            raise ConfigError(
                f"model.source_vocabulary is {self.source_vocabulary}, a table for the sources that an "
                f"encoder reads beside a decoder, and model.family is {self.family}; leave it out, or use "
                "family encoder_decoder."
            )
        has_heads = self.trunk == type(self).trunk
        if has_heads and self.head_width == "even" and self.width % self.heads:
            raise ConfigError(misfit(self.width, self.heads))
        if isinstance(self.attention, tuple):
            object.__setattr__(self, "attention", self._one_a_layer(self.attention))
        parts = biased_parts(self.bias)  # one form for settings that mean the same
        whole = {BIASED: True, (): False}
        object.__setattr__(self, "bias", whole.get(parts, parts))

    def _check_inputs(self) -> None:
        """One form for inputs that mean the same, and nothing that does not go with them."""
        kinds = self.modalities
        if len(set(kinds)) < len(kinds):
            raise ConfigError(f"model.inputs names {written(kinds)}; name each once.")
        if isinstance(self.inputs, tuple):
            ordered = tuple(sorted(self.inputs, key=lambda choice: choice.kind))  # image before text
            object.__setattr__(self, "inputs", ordered if len(ordered) > 1 else ordered[0])
        grid = self.picture
        if grid is not None and self.vectors not in (0, grid.width):
            raise ConfigError(
                f"model.vectors is {self.vectors}, and a patch of model.inputs has {grid.width} numbers; "
                "leave model.vectors out."
            )
        if self.fusion.kind != "early" and set(kinds) != {"image", "text"}:
            raise ConfigError(
                f'model.fusion is "{self.fusion.kind}", which says when image and text attend to each other, '
                f"and model.inputs is {written(kinds)}; leave model.fusion out, or read both: "
                'inputs = ["image", "text"].'
            )
        if self.fusion.kind != "early" and self.family == "encoder_decoder":
            raise ConfigError(
                f'model.fusion is "{self.fusion.kind}", which is of one stack, and an encoder_decoder has '
                "two: its encoder reads the image, its decoder attends to that in cross-attention; leave "
                "model.fusion out."
            )

    @property
    def modalities(self) -> tuple[str, ...]:
        """What it reads: image, text or both."""
        choices = self.inputs if isinstance(self.inputs, tuple) else (self.inputs,)
        return tuple(choice.kind for choice in choices)

    @property
    def picture(self) -> PictureGrid | None:
        """The pictures that it reads; None where it reads none."""
        choices = self.inputs if isinstance(self.inputs, tuple) else (self.inputs,)
        options = next((choice.options for choice in choices if choice.kind == "image"), None)
        if options is None:
            return None
        apart = self.trunk.kind == "two_encoders"
        return PictureGrid(int(options.get("size", SIZE)), int(options.get("patch", PATCH)), apart)

    @property
    def vector_width(self) -> int:
        """Numbers of the vector that a token may have: of a patch, where there are pictures."""
        return self.vectors if self.picture is None else self.picture.width

    def _one_a_layer(self, choices: tuple[Choice, ...]) -> Choice | tuple[Choice, ...]:
        """Choices for each layer; one where they are all equal, so that equal models have equal settings."""
        if len(choices) != self.layers:
            raise ConfigError(
                f"model.attention has {len(choices)} entries, and model.layers is {self.layers}; give one "
                f"entry for each layer, or a single choice for all, or set model.layers to {len(choices)}."
            )
        return choices[0] if all(choice == choices[0] for choice in choices) else choices

    @property
    def attention_by_layer(self) -> tuple[Choice, ...]:
        """The attention of each layer."""
        return self.attention if isinstance(self.attention, tuple) else (self.attention,) * self.layers

    def biased(self, part: Biased) -> bool:
        return part in biased_parts(self.bias)

    @property
    def tokens(self) -> int:
        """How many tokens its table has rows for."""
        if self.vocabulary == "tokenizer":
            raise ConfigError(
                'model.vocabulary is "tokenizer", and there is no tokenizer here; give a number.'
            )
        return self.vocabulary

    @property
    def source_tokens(self) -> int:
        """How many tokens the table has rows for that an encoder reads with."""
        return self.tokens if self.source_vocabulary == "shared" else self.source_vocabulary

    def with_tokenizer(self, size: int, source: int | None = None) -> ModelSettings:
        """The same for a tokenizer of this size: each token needs a row, and published tables have more.

        `source` is the size of another one that sources are read with.
        """
        if self.source_vocabulary == "shared" and source is not None:
            return replace(self, source_vocabulary=source).with_tokenizer(size, source)
        needed = size if source is None else source
        if self.source_vocabulary != "shared" and self.source_vocabulary < needed:
            raise ConfigError(
                f"model.source_vocabulary is {self.source_vocabulary}, but the tokenizer of sources has "
                f"{needed} tokens; use at least {needed}, or leave it out for as many as it has."
            )
        if self.vocabulary == "tokenizer":
            return replace(self, vocabulary=size)
        if self.vocabulary < size:
            raise ConfigError(
                f"model.vocabulary is {self.vocabulary}, but the tokenizer has {size} tokens; use at least "
                f'{size}, or "tokenizer" for as many as it has.'
            )
        return self

    @property
    def each_head_width(self) -> int:
        return self.width // self.heads if self.head_width == "even" else self.head_width


Unlimited = Literal["unlimited"]


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """The text and its way into batches. Shares and their seed decide the splits that are not given."""

    corpus: Choice = chosen("corpora", "python_docs")
    tokenizer: Choice = chosen("tokenizers", "bpe")
    # of targets, where they have a vocabulary of their own; data.tokenizer then reads the sources alone
    target_tokenizer: Choice | Literal["shared"] = chosen_or("tokenizers", "shared")
    encoding: Choice = chosen("encodings", "document")
    batching: Choice = chosen("batching", "packed")
    length: Annotated[int, Range(least=2, most=MOST)] = 128
    tokens: Tally | Unlimited = "unlimited"  # of the training text, from its start; later ones are left out
    train_rows: Tally | Unlimited = "unlimited"  # drawn by the run's seed, each class in proportion
    padding: Literal["right", "left"] = "right"
    dev_share: BelowOne = 0.05
    test_share: BelowOne = 0.05
    split_seed: Seed = 0  # apart from the run's seed: runs with other seeds are judged on the same examples

    @property
    def writing_tokenizer(self) -> Choice:
        """What targets are written with: their own tokenizer, else the one of all text."""
        return self.tokenizer if self.target_tokenizer == "shared" else self.target_tokenizer

    def __post_init__(self) -> None:
        check_ranges(self, "data")
        if self.dev_share + self.test_share >= 1:
            raise ConfigError(
                f"data.dev_share {self.dev_share} and data.test_share {self.test_share} leave nothing to "
                "train on; together they must stay below 1."
            )


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How long to train. Whichever limit is reached first ends the run."""

    steps: Tally | Unlimited = "unlimited"  # of the optimizer
    tokens: Tally | Unlimited = "unlimited"  # of text that is trained on, padding not counted
    epochs: Positive | Unlimited = "unlimited"  # passes over the training text
    seconds: Positive | Unlimited = "unlimited"  # the one budget under which a resumed run is not exact
    flops: Positive | Unlimited = "unlimited"  # operations of forward and backward passes, counted

    def __post_init__(self) -> None:
        check_ranges(self, "training.budget")
        if not self.limits:
            raise ConfigError(
                "training.budget has no limit, so the run would never end; "
                "set training.budget.steps, tokens, epochs, seconds or flops."
            )

    @property
    def limits(self) -> dict[str, float]:
        """The limits that there are."""
        named = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: float(value) for name, value in named.items() if value != "unlimited"}


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """The loop: how weights change, for how long, and what is kept of it. `every` counts steps."""

    optimizer: Choice = chosen("optimizers", "adamw")
    schedule: Choice = chosen("schedules", "cosine")
    budget: Budget = Budget(epochs=1.0)
    accumulate: Count = 1  # batches of one step
    clip: Positive | Literal["off"] = 1.0  # the largest norm of a step's gradient
    precision: Literal["float32", "bfloat16"] = "float32"  # bfloat16: by autocast; weights stay float32
    gradient_checkpointing: bool = False  # activations computed anew: less memory, a third more time
    compile: bool = False
    device: Literal["best", "cpu", "cuda", "mps"] = "best"
    evaluate_every: Tally | Literal["epoch", "never"] = 500  # epoch: at the end of each
    evaluate_batches: Tally | Literal["all"] = "all"
    # evaluation: at each of them; else at those whose step it divides, and at the last
    generate_every: Tally | Literal["evaluation", "never"] = field(default="never", metadata={"later": True})
    generate_examples: Tally | Literal["all"] = field(default=100, metadata={"later": True})  # of dev
    generate_beam: Count = field(default=1, metadata={"later": True})  # 1: greedily
    generate_penalty: NotNegative = field(default=1.0, metadata={"later": True})  # of length, see beam search
    checkpoint_every: Tally = 500
    keep: Annotated[int, Range(least=2)] = 2  # last checkpoints, and the best; the last may be damaged
    patience: Tally | Unlimited = "unlimited"  # evaluations that are not kept before stopping
    best_by: str = field(default="task", metadata={"later": True})  # a metric; task: the first of its own
    listeners: tuple[str, ...] = ()
    strategy: Choice = chosen("strategies", "ddp", later=True)  # how several processes share one model
    process_timeout: Positive = field(default=600.0, metadata={"later": True})  # seconds without an answer

    def __post_init__(self) -> None:
        check_ranges(self, "training")

    def deciding(self, metrics: Sequence[str]) -> str:
        """The metric that chooses the best checkpoint and ends a run early: the first of these, those of its
        task, unless another is named."""
        return metrics[0] if self.best_by == "task" else self.best_by


SCRATCH = "scratch"
"""The start of a model whose weights are drawn."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """One run."""

    model: ModelSettings = field(default_factory=ModelSettings)
    data: DataSettings = field(default_factory=DataSettings)
    task: Choice = chosen("tasks", "causal")
    start: str = SCRATCH  # or a run, one of its checkpoints, a folder of transformers
    adapter: Choice = chosen("adapters", "full")  # what of the start's weights is trained
    training: TrainingSettings = field(default_factory=TrainingSettings)
    seed: Seed = 0

    @property
    def longest_text(self) -> int:
        """How many tokens of text the model reads: those of a prompt or prefix stand before them."""
        return self.model.length - int(self.adapter.options.get("tokens", 0))


SECTIONS: dict[str, type] = {"model": ModelSettings, "data": DataSettings, "training": TrainingSettings}
"""The tables of a config file; every other field of Config is a plain value or a choice."""


def misfit(width: int, heads: int) -> str:
    """Which widths and heads would have fitted."""
    below, above = width // heads * heads, (width // heads + 1) * heads
    widths = " or ".join(str(w) for w in (below, above) if w)
    fitting = sorted((h for h in range(1, width + 1) if width % h == 0), key=lambda h: abs(h - heads))[:4]
    return (
        f"model.width {width} is not divisible by model.heads {heads}; use width {widths}, "
        f"or heads {', '.join(map(str, sorted(fitting)))}, or set model.head_width."
    )


def declares_dropout(settings: Any) -> bool:
    """Whether a setting or option named dropout, anywhere in these, is above 0."""
    if isinstance(settings, Mapping):
        own = (value for name, value in settings.items() if str(name).endswith("dropout"))
        return any(isinstance(one, float | int) and one > 0 for one in own) or any(
            map(declares_dropout, settings.values())
        )
    return isinstance(settings, list | tuple) and any(map(declares_dropout, settings))
