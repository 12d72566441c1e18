"""Every variant of the tables that a config chooses from, as a function that gives the choice.

Made by `python -m tests.choices_source` from the tables and the constructors of their classes. A name that
two tables of parts have (Window, None) is asked for with its table: `lab.choice("masks", "window", size=8)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from attnlab.config import ranges
from attnlab.config.registry import choice
from attnlab.config.values import Choice

__all__ = [
    "Adamw",
    "Additive",
    "Alibi",
    "Answering",
    "Apart",
    "Argmax",
    "Bidirectional",
    "Bitfit",
    "Bottleneck",
    "Bpe",
    "Bucketed",
    "Causal",
    "Character",
    "Classification",
    "Concat",
    "Constant",
    "Contrast",
    "Copy",
    "Cosine",
    "Dates",
    "Ddp",
    "Denoising",
    "DocstringPairs",
    "Docstrings",
    "Document",
    "Dot",
    "Early",
    "Facts",
    "Features",
    "File",
    "Files",
    "Fsdp",
    "Full",
    "Geglu",
    "Gelu",
    "Greedy",
    "Group",
    "Grouped",
    "Gru",
    "Head",
    "Hub",
    "Image",
    "ImageApart",
    "ImagePrefix",
    "ImageText",
    "ImageTranslation",
    "Induction",
    "LanguageModel",
    "Late",
    "Layer",
    "Learned",
    "Linear",
    "LongestFirst",
    "Lora",
    "Lstm",
    "Masked",
    "ModularAddition",
    "Multilabel",
    "Muon",
    "Never",
    "NumberWords",
    "One",
    "Packed",
    "Padded",
    "Pair",
    "Pairs",
    "Patches",
    "Post",
    "Pre",
    "Prefix",
    "Prompt",
    "PythonDocs",
    "PythonNames",
    "PythonSource",
    "Question",
    "Recall",
    "Regression",
    "Relative",
    "Relu",
    "Reverse",
    "Rms",
    "Rotary",
    "Sample",
    "Sentence",
    "SentencePair",
    "Separate",
    "Seq2Seq",
    "Shapes",
    "SharedQk",
    "SharedQkv",
    "Similarity",
    "Single",
    "Sinusoidal",
    "Sorting",
    "Source",
    "Span",
    "SpanBoundary",
    "Summaries",
    "Swiglu",
    "Tagging",
    "Text",
    "TokenClassification",
    "Top",
    "Transformer",
    "Translation",
    "TwoEncoders",
    "Unigram",
    "Unilm",
    "Word",
    "Wordpiece",
    "Words",
    "Wsd",
]


def Adamw(
    *,
    learning_rate: ranges.Positive = 0.0005,
    weight_decay: ranges.NotNegative = 0.1,
    betas: Sequence[ranges.BelowOne] = (0.9, 0.95),
    eps: ranges.Positive = 1e-08,
) -> Choice:
    """AdamW: each weight's own step size, from running means of its gradient and its square."""
    return choice("optimizers", "adamw", **locals())


def Additive(*, hidden: ranges.Count | Literal["head_width"] = "head_width") -> Choice:
    """Additive: a small network with one hidden layer scores each pair."""
    return choice("attention", "additive", **locals())


def Alibi() -> Choice:
    """ALiBi: far tokens are penalised in proportion to their distance, each head at its own rate."""
    return choice("positions", "alibi")


def Answering(*, longest_answer: ranges.Count = 30, threshold: float | Literal["dev"] = "dev") -> Choice:
    """Answering: a question is answered by a span of its passage, or by none (SQuAD 2.0)."""
    return choice("tasks", "answering", **locals())


def Apart(*, cut: Literal["end", "start", "refuse"] = "end") -> Choice:
    """Two texts in one row and apart, each in the form of a single one: `ids`, and `target` for the second."""
    return choice("encodings", "apart", **locals())


def Argmax(*, straight_through: bool = False) -> Choice:
    """Hard attention: each query takes the value of its best key, and of no other."""
    return choice("attention", "argmax", **locals())


def Bidirectional() -> Choice:
    """Every token sees every token."""
    return choice("masks", "bidirectional")


def Bitfit() -> Choice:
    """BitFit: only the model's own biases are trained."""
    return choice("adapters", "bitfit")


def Bottleneck(*, tokens: ranges.Count = 4, layers: ranges.Whole = 0) -> Choice:
    """Bottleneck: image and text exchange what they know through a few learned tokens alone."""
    return choice("fusions", "bottleneck", **locals())


def Bpe(
    *,
    vocabulary: ranges.Words = 8000,
    minimum_count: ranges.Whole = 2,
    digits: Literal["merged", "single"] = "merged",
) -> Choice:
    """Byte-pair encoding over bytes: no text is unknown, and decoding gives the text back exactly."""
    return choice("tokenizers", "bpe", **locals())


def Bucketed(*, buckets: ranges.Count = 32, distance: ranges.Count = 128) -> Choice:
    """Bucketed: one number a head for each bucket of distances, near ones fine, far ones coarse."""
    return choice("positions", "bucketed", **locals())


def Causal() -> Choice:
    """Each token sees itself and what stands before it."""
    return choice("masks", "causal")


def Character(*, vocabulary: ranges.Words = 1114112, minimum_count: ranges.Whole = 1) -> Choice:
    """One token a character (a Unicode code point, white space included)."""
    return choice("tokenizers", "character", **locals())


def Classification(
    *,
    classes: ranges.Count | Literal["labels"] = "labels",
    pooling: Literal["first", "mean", "last"] = "first",
    transform: Literal["none", "tanh", "relu"] = "none",
) -> Choice:
    """Classification: a score for each class (or one number), from one vector for the whole text."""
    return choice("heads", "classification", **locals())


def Concat(*, part: ranges.Count = 16, table: Literal["learned", "sinusoidal"] = "learned") -> Choice:
    """Concatenated: some of the model's width is kept for the position, apart from the word."""
    return choice("positions", "concat", **locals())


def Constant(*, warmup: ranges.Share = 0.0) -> Choice:
    """Constant: one rate after the warm-up."""
    return choice("schedules", "constant", **locals())


def Contrast(*, pooling: Literal["ends", "mean", "first", "last"] = "ends") -> Choice:
    """Contrast: one vector for a picture or a text, whose products are cosines times a learned scale."""
    return choice("heads", "contrast", **locals())


def Copy(
    *,
    symbols: Annotated[int, ranges.Range(least=1, most=100000)] = 26,
    shortest: Annotated[int, ranges.Range(least=1, most=100000)] = 2,
    longest: Annotated[int, ranges.Range(least=1, most=100000)] = 12,
    examples: ranges.Words = 10000,
    seed: ranges.Seed = 0,
) -> Choice:
    """`d a c` → `d a c`: the simplest use of attention, learned within seconds or not at all."""
    return choice("corpora", "copy", **locals())


def Cosine(*, warmup: ranges.Share = 0.02, final: ranges.Share = 0.1) -> Choice:
    """Cosine: half a wave from the full rate down to `final` of it."""
    return choice("schedules", "cosine", **locals())


def Dates(
    *, to: Literal["digits", "words"] = "digits", examples: ranges.Words = 20000, seed: ranges.Seed = 0
) -> Choice:
    """`3rd of May 1987` → `1987-05-03`, from six spellings; or back into that one, with `to = "words"`."""
    return choice("corpora", "dates", **locals())


def Ddp() -> Choice:
    """DDP: every process has the whole model, takes its parts of a step, and gradients are averaged."""
    return choice("strategies", "ddp")


def Denoising(
    *, share: ranges.Share = 0.3, mean: ranges.Positive = 3.0, smoothing: ranges.BelowOne = 0.0
) -> Choice:
    """Denoising: the encoder reads a text with holes, the decoder writes the whole text."""
    return choice("tasks", "denoising", **locals())


def DocstringPairs(
    *,
    packages: Sequence[str] = (
        "asyncio",
        "email",
        "http",
        "importlib",
        "logging",
        "multiprocessing",
        "unittest",
        "urllib",
        "xml",
    ),
) -> Choice:
    """Docstrings in two: the first paragraph, and the rest as its second text. Embedded data for similarity."""
    return choice("corpora", "docstring_pairs", **locals())


def Docstrings(
    *,
    packages: Sequence[str] = (
        "asyncio",
        "email",
        "http",
        "importlib",
        "logging",
        "multiprocessing",
        "unittest",
        "urllib",
        "xml",
    ),
) -> Choice:
    """Docstrings labelled by the package they come from: embedded data for classification."""
    return choice("corpora", "docstrings", **locals())


def Document(*, long: Literal["split", "cut", "refuse"] = "split") -> Choice:
    """Text for language modelling: <START> text <STOP>, long ones parted into rows, nothing lost."""
    return choice("encodings", "document", **locals())


def Dot(*, scale: ranges.Positive | Literal["root"] = "root", softcap: ranges.NotNegative = 0.0) -> Choice:
    """Scaled dot product: how well query and key align, through a softmax."""
    return choice("attention", "dot", **locals())


def Early() -> Choice:
    """Early: in all layers, image and text attend to each other as if they were one text."""
    return choice("fusions", "early")


def Facts(
    *,
    facts: ranges.Count = 4,
    unanswerable: ranges.BelowOne = 0.5,
    examples: ranges.Count = 8000,
    seed: ranges.Seed = 0,
) -> Choice:
    """Facts: `Jill lives in Oslo. Udo owns a farm. …`, asked `Where does Jill live?` → `Oslo`, or nothing."""
    return choice("corpora", "facts", **locals())


def Features(
    *, pooling: Literal["none", "first", "mean", "last"] = "none", transform: Literal["none", "tanh"] = "none"
) -> Choice:
    """Features: the trunk's own vectors, one a token, or one for the whole text."""
    return choice("heads", "features", **locals())


def File(*, path: str = "tokenizer.json") -> Choice:
    """A tokenizer from files: tokenizer.json, or those of BERT, GPT-2, RoBERTa, LLaMA and T5."""
    return choice("tokenizers", "file", **locals())


def Files(
    *,
    path: str | Sequence[str] = (),
    dev: str | Sequence[str] = (),
    test: str | Sequence[str] = (),
    text: str | Sequence[str] = (
        "text",
        "sentence",
        "sentence1",
        "premise",
        "question",
        "source",
        "review",
        "content",
        "document",
        "tokens",
    ),
    pair: str | Sequence[str] = ("pair", "sentence2", "hypothesis", "passage", "context"),
    target: str | Sequence[str] = ("target", "summary", "translation"),
    label: str | Sequence[str] = ("label", "labels", "class", "sentiment", "answer"),
    answers: str | Sequence[str] = ("answers",),
    tags: str | Sequence[str] = ("tags", "ner_tags", "spans", "entities"),
    group: str | Sequence[str] = ("group",),
    labels: Sequence[str] = (),
    unit: Literal["document", "paragraph", "line", "sentence"] = "paragraph",
    encoding: str = "utf-8",
    skip_bad: bool = False,
    separator: Literal["auto", ",", ";", "tab", "|"] = "auto",
    target_path: str | Sequence[str] = (),
    target_dev: str | Sequence[str] = (),
    target_test: str | Sequence[str] = (),
    image: str | Sequence[str] = ("image", "img", "picture", "file_name"),
) -> Choice:
    """Local files: .txt, .jsonl, .csv, .tsv, .parquet, .conll, SQuAD's .json, folders, globs, .gz of them."""
    return choice("corpora", "files", **locals())


def Fsdp(*, replicas: ranges.Count = 1) -> Choice:
    """FSDP: every process has a part of each weight, of its gradient and of the optimizer's state."""
    return choice("strategies", "fsdp", **locals())


def Full() -> Choice:
    """Full: every weight of the model is trained."""
    return choice("adapters", "full")


def Geglu(
    *,
    expand: ranges.Multiple = 2.6875,
    approximate: Literal["none", "tanh"] = "none",
    dropout: ranges.BelowOne = 0.0,
) -> Choice:
    """GeGLU: a hidden layer gated by a GELU."""
    return choice("feedforwards", "geglu", **locals())


def Gelu(
    *,
    expand: ranges.Multiple = 4.0,
    approximate: Literal["none", "tanh", "sigmoid"] = "none",
    dropout: ranges.BelowOne = 0.0,
) -> Choice:
    """GELU: the smooth default."""
    return choice("feedforwards", "gelu", **locals())


def Greedy(*, repetition: ranges.Positive = 1.0) -> Choice:
    """Greedy: always the most likely token."""
    return choice("decoding", "greedy", **locals())


def Group(
    *,
    inner: Choice | str = "dot",
    groups: ranges.Count = 4,
    by: Literal["position", "ids", "modality"] = "position",
) -> Choice:
    """Group: tokens attend only inside their own group."""
    return choice("attention", "group", **locals())


def Grouped(*, shared: ranges.Count = 1, query_key_norm: Literal["none", "layer", "rms"] = "none") -> Choice:
    """Grouped queries: several query heads share one head of keys and values."""
    return choice("projections", "grouped", **locals())


def Gru(*, attention: Literal["none", "additive", "dot"] = "none") -> Choice:
    """GRU: one state that is handed on from token to token, and gates that say what of it is kept."""
    return choice("trunks", "gru", **locals())


def Head() -> Choice:
    """Head: only the model's head is trained, on what the frozen trunk makes of each text."""
    return choice("adapters", "head")


def Hub(
    *,
    name: str = "",
    subset: str = "default",
    revision: str = "main",
    text: str | Sequence[str] = (
        "text",
        "sentence",
        "sentence1",
        "premise",
        "question",
        "source",
        "review",
        "content",
        "document",
        "tokens",
    ),
    pair: str | Sequence[str] = ("pair", "sentence2", "hypothesis", "passage", "context"),
    target: str | Sequence[str] = ("target", "summary", "translation"),
    label: str | Sequence[str] = ("label", "labels", "class", "sentiment", "answer"),
    answers: str | Sequence[str] = ("answers",),
    group: str | Sequence[str] = ("group",),
    labels: Sequence[str] = (),
    unit: Literal["document", "paragraph", "line", "sentence"] = "document",
    skip_bad: bool = False,
) -> Choice:
    """A data set of the hub: `hub:google/boolq`, downloaded once by the `datasets` library."""
    return choice("corpora", "hub", **locals())


def Image(*, size: ranges.Count = 32, patch: ranges.Count = 4) -> Choice:
    """Image: a picture as a row of patches, each a token whose vector is a linear map of its pixels."""
    return choice("inputs", "image", **locals())


def ImageApart(
    *, fit: Literal["pad", "crop", "stretch"] = "pad", cut: Literal["end", "start", "refuse"] = "end"
) -> Choice:
    """A picture and its text apart, each in the form of a single text."""
    return choice("encodings", "image_apart", **locals())


def ImagePrefix(
    *, fit: Literal["pad", "crop", "stretch"] = "pad", cut: Literal["end", "start", "refuse"] = "end"
) -> Choice:
    """A picture and its target in one row, the picture marked as the source."""
    return choice("encodings", "image_prefix", **locals())


def ImageText(
    *, fit: Literal["pad", "crop", "stretch"] = "pad", cut: Literal["end", "start", "refuse"] = "end"
) -> Choice:
    """A picture and then its text in one row, with its label: [CLS] patches [SEP] text [SEP]."""
    return choice("encodings", "image_text", **locals())


def ImageTranslation(
    *, fit: Literal["pad", "crop", "stretch"] = "pad", cut: Literal["end", "start", "refuse"] = "end"
) -> Choice:
    """A picture and its target apart, for an encoder and a decoder: `target` is <START> … <STOP>."""
    return choice("encodings", "image_translation", **locals())


def Induction(
    *,
    symbols: Annotated[int, ranges.Range(least=1, most=100000)] = 26,
    length: Annotated[int, ranges.Range(least=1, most=100000)] = 16,
    examples: ranges.Words = 10000,
    seed: ranges.Seed = 0,
) -> Choice:
    """`… a b … a` → `b`: what followed the last symbol when it was there before, once."""
    return choice("corpora", "induction", **locals())


def LanguageModel(
    *,
    tied: bool = True,
    bias: bool = False,
    transform: Literal["none", "dense"] = "none",
    scale: ranges.Positive | Literal["inverse_root"] = 1.0,
) -> Choice:
    """Language model: a score for every word of the vocabulary, at every position."""
    return choice("heads", "language_model", **locals())


def Late(*, layers: ranges.Count = 2) -> Choice:
    """Late: the first layers attend within each modality, the others across."""
    return choice("fusions", "late", **locals())


def Layer(*, eps: ranges.Positive = 1e-05) -> Choice:
    """Layer norm: zero mean and unit variance, then a gain and a shift."""
    return choice("norms", "layer", **locals())


def Learned(*, offset: ranges.Whole = 0, patches: Literal["grid", "order"] = "grid") -> Choice:
    """Learned: one trained vector a position, added to the embedding."""
    return choice("positions", "learned", **locals())


def Linear(*, feature: Literal["elu", "relu"] = "elu") -> Choice:
    """Linear: keys and values are summed into one state, which every query reads."""
    return choice("attention", "linear", **locals())


def LongestFirst(*, batch_size: ranges.Count = 32) -> Choice:
    """Rows sorted from the longest to the shortest, each batch padded to its longest row."""
    return choice("batching", "longest_first", **locals())


def Lora(
    *,
    rank: ranges.Count = 8,
    alpha: ranges.Positive = 16.0,
    scaling: Literal["rank", "root"] = "rank",
    targets: Sequence[str] = ("query", "value"),
    shared_down: bool = False,
    dropout: ranges.BelowOne = 0.0,
) -> Choice:
    """LoRA: chosen maps get an update of low rank."""
    return choice("adapters", "lora", **locals())


def Lstm(*, attention: Literal["none", "additive", "dot"] = "none") -> Choice:
    """LSTM: a cell that is added to, behind gates, beside the state that is handed on."""
    return choice("trunks", "lstm", **locals())


def Masked(
    *,
    share: ranges.Share = 0.15,
    mask: ranges.Share = 0.8,
    random: ranges.Share = 0.1,
    whole_words: bool = False,
) -> Choice:
    """Masked: some tokens are hidden, and the model says which they were."""
    return choice("tasks", "masked", **locals())


def ModularAddition(
    *, modulus: Annotated[int, ranges.Range(least=1, most=2000)] = 97, seed: ranges.Seed = 0
) -> Choice:
    """`12 + 40 =` → `52`: sums modulo a prime, every pair once."""
    return choice("corpora", "modular_addition", **locals())


def Multilabel(*, separator: str = ",") -> Choice:
    """Multilabel: each text has any number of labels, each decided by itself."""
    return choice("tasks", "multilabel", **locals())


def Muon(
    *,
    learning_rate: ranges.Positive = 0.002,
    adamw_learning_rate: ranges.Positive | Literal["same"] = "same",
    weight_decay: ranges.NotNegative = 0.1,
    momentum: ranges.BelowOne = 0.95,
    betas: Sequence[ranges.BelowOne] = (0.9, 0.95),
    eps: ranges.Positive = 1e-08,
) -> Choice:
    """Muon: the momentum of each hidden matrix, made orthogonal; AdamW for everything else."""
    return choice("optimizers", "muon", **locals())


def Never() -> Choice:
    """Never: image and text never attend to each other."""
    return choice("fusions", "never")


def NumberWords(
    *,
    to: Literal["digits", "words"] = "digits",
    digits: Annotated[int, ranges.Range(least=1, most=12)] = 12,
    examples: ranges.Words = 20000,
    seed: ranges.Seed = 0,
) -> Choice:
    """`three hundred and five` → `305`, up to twelve digits; or back, with `to = "words"`."""
    return choice("corpora", "number_words", **locals())


def One() -> Choice:
    """One process: every part of a step is its own."""
    return choice("strategies", "one")


def Packed(*, batch_size: ranges.Count = 32) -> Choice:
    """Several whole rows in one line of the batch, placed where they fit best: hardly any padding."""
    return choice("batching", "packed", **locals())


def Padded(*, batch_size: ranges.Count = 32) -> Choice:
    """Rows in random order, each batch padded to its longest row."""
    return choice("batching", "padded", **locals())


def Pair(
    *,
    shorten: Literal["longest", "first", "second"] = "longest",
    cut: Literal["end", "start", "refuse"] = "end",
    types: bool = True,
) -> Choice:
    """Two texts in one row, with segment ids: [CLS] A [SEP] B [SEP] (Devlin et al. 2019)."""
    return choice("encodings", "pair", **locals())


def Pairs(
    *,
    pairs: Annotated[int, ranges.Range(least=1, most=100000)] = 8,
    fewest: Annotated[int, ranges.Range(least=1, most=100000)] | Literal["pairs"] = "pairs",
    keys: Annotated[int, ranges.Range(least=1, most=100000)] = 32,
    values: Annotated[int, ranges.Range(least=1, most=100000)] = 32,
    examples: ranges.Words = 10000,
    seed: ranges.Seed = 0,
) -> Choice:
    """`k3 v8 k1 v5 :` → `k1 v5 k3 v8`: associative recall of every pair, in the order of the keys."""
    return choice("corpora", "pairs", **locals())


def Patches() -> Choice:
    """For pictures alone: a class token, and one id for all patches, as ViT has them. It reads no text."""
    return choice("tokenizers", "patches")


def Post() -> Choice:
    """Post-norm: the sum is normalised after each part."""
    return choice("residuals", "post")


def Pre() -> Choice:
    """Pre-norm: each part sees a normalised input; the residual stream stays as it is."""
    return choice("residuals", "pre")


def Prefix() -> Choice:
    """The source sees all of the source; the target sees the source and its own left."""
    return choice("masks", "prefix")


def Prompt(*, tokens: ranges.Count = 20) -> Choice:
    """Prompt: trained embeddings stand before the input."""
    return choice("adapters", "prompt", **locals())


def PythonDocs(
    *,
    unit: Literal["document", "paragraph", "line", "sentence"] = "document",
    docstrings: bool = True,
    leave_out: Sequence[str] = (),
) -> Choice:
    """Python's language reference, with the standard library's docstrings."""
    return choice("corpora", "python_docs", **locals())


def PythonNames(
    *,
    packages: Sequence[str] = (
        "asyncio",
        "email",
        "http",
        "importlib",
        "logging",
        "multiprocessing",
        "unittest",
        "urllib",
        "xml",
    ),
) -> Choice:
    """Statements of the standard library, their names tagged by what they stand for: data for tagging."""
    return choice("corpora", "python_names", **locals())


def PythonSource(*, unit: Literal["document", "paragraph", "line", "sentence"] = "document") -> Choice:
    """The standard library's source code: one document a module, about 10 million characters."""
    return choice("corpora", "python_source", **locals())


def Question(*, overlap: ranges.Whole = 32, question_length: ranges.Count = 48, types: bool = True) -> Choice:
    """Question and passage, the passage in overlapping windows, with the answer's place in tokens."""
    return choice("encodings", "question", **locals())


def Recall(
    *,
    pairs: Annotated[int, ranges.Range(least=1, most=100000)] = 8,
    fewest: Annotated[int, ranges.Range(least=1, most=100000)] | Literal["pairs"] = "pairs",
    queries: Annotated[int, ranges.Range(least=1, most=100000)] = 1,
    keys: Annotated[int, ranges.Range(least=1, most=100000)] = 32,
    values: Annotated[int, ranges.Range(least=1, most=100000)] = 32,
    examples: ranges.Words = 10000,
    seed: ranges.Seed = 0,
) -> Choice:
    """`k3 v8 k1 v5 … : k1` → `v5`: associative recall, the value that went with a key."""
    return choice("corpora", "recall", **locals())


def Regression() -> Choice:
    """Regression: each text, or pair of texts, has a number."""
    return choice("tasks", "regression")


def Relative(*, clip: ranges.Count | Literal["length"] = "length") -> Choice:
    """Relative: each layer and head learns one number for each distance."""
    return choice("positions", "relative", **locals())


def Relu(*, expand: ranges.Multiple = 4.0, dropout: ranges.BelowOne = 0.0) -> Choice:
    """ReLU: the first transformer's choice."""
    return choice("feedforwards", "relu", **locals())


def Reverse(
    *,
    symbols: Annotated[int, ranges.Range(least=1, most=100000)] = 26,
    shortest: Annotated[int, ranges.Range(least=1, most=100000)] = 2,
    longest: Annotated[int, ranges.Range(least=1, most=100000)] = 12,
    examples: ranges.Words = 10000,
    seed: ranges.Seed = 0,
) -> Choice:
    """`d a c` → `c a d`: needs to know positions, and from the end."""
    return choice("corpora", "reverse", **locals())


def Rms(*, eps: ranges.Positive = 1e-06) -> Choice:
    """RMS norm: unit mean square, then a gain."""
    return choice("norms", "rms", **locals())


def Rotary(*, base: ranges.AboveOne = 10000.0, patches: Literal["grid", "order"] = "grid") -> Choice:
    """Rotary: queries and keys are turned by an angle that grows with their position."""
    return choice("positions", "rotary", **locals())


def Sample(
    *,
    temperature: ranges.NotNegative = 1.0,
    top_k: ranges.Whole = 0,
    top_p: ranges.Share = 1.0,
    min_p: ranges.Share = 0.0,
    repetition: ranges.Positive = 1.0,
) -> Choice:
    """Sampled: a token drawn by its probability, from those that the limits leave."""
    return choice("decoding", "sample", **locals())


def Sentence(*, pooling: Literal["mean", "first", "last"] = "mean") -> Choice:
    """Sentence: one vector of length 1 for the whole text; the cosine of two is their product."""
    return choice("heads", "sentence", **locals())


def SentencePair(
    *, tied: bool = True, bias: bool = False, transform: Literal["none", "dense"] = "none"
) -> Choice:
    """Sentence pair: a language model that also judges whether its second text follows the first."""
    return choice("heads", "sentence_pair", **locals())


def Separate(*, query_key_norm: Literal["none", "layer", "rms"] = "none") -> Choice:
    """Separate: queries, keys and values each have their own map."""
    return choice("projections", "separate", **locals())


def Seq2Seq(*, smoothing: ranges.BelowOne = 0.0) -> Choice:
    """Sequence to sequence: the encoder reads the source, the decoder predicts the target after it."""
    return choice("tasks", "seq2seq", **locals())


def Shapes(
    *,
    task: Literal["label", "matching", "caption"] = "label",
    shapes: Annotated[int, ranges.Range(least=2, most=3)] = 2,
    size: Annotated[int, ranges.Range(least=16, most=512)] = 32,
    examples: ranges.Words = 4000,
    seed: ranges.Seed = 0,
) -> Choice:
    """Two or three coloured shapes and their relation: "a red circle left of a blue square"."""
    return choice("corpora", "shapes", **locals())


def SharedQk(*, query_key_norm: Literal["none", "layer", "rms"] = "none") -> Choice:
    """Shared Q = K: one map gives queries and keys, another the values."""
    return choice("projections", "shared_qk", **locals())


def SharedQkv(*, query_key_norm: Literal["none", "layer", "rms"] = "none") -> Choice:
    """Shared Q = K = V: one map gives all three."""
    return choice("projections", "shared_qkv", **locals())


def Similarity(
    *,
    objective: Literal["negatives", "symmetric", "cosine"] = "negatives",
    temperature: ranges.Positive = 0.05,
    highest: ranges.Positive = 1.0,
) -> Choice:
    """Similarity: two texts that belong together get vectors that are near, so that one finds the other."""
    return choice("tasks", "similarity", **locals())


def Single(*, cut: Literal["end", "start", "refuse"] = "end") -> Choice:
    """One text, one row, with its label: [CLS] A [SEP], or what the tokenizer's own form is."""
    return choice("encodings", "single", **locals())


def Sinusoidal(*, patches: Literal["grid", "order"] = "grid") -> Choice:
    """Sinusoidal: fixed waves of many lengths are added to the embedding."""
    return choice("positions", "sinusoidal", **locals())


def Sorting(
    *,
    symbols: Annotated[int, ranges.Range(least=1, most=100000)] = 26,
    shortest: Annotated[int, ranges.Range(least=1, most=100000)] = 2,
    longest: Annotated[int, ranges.Range(least=1, most=100000)] = 12,
    examples: ranges.Words = 10000,
    seed: ranges.Seed = 0,
) -> Choice:
    """`31 7 19` → `7 19 31`: every output looks at every input."""
    return choice("corpora", "sorting", **locals())


def Source() -> Choice:
    """Every token sees the source, and nothing else."""
    return choice("masks", "source")


def Span() -> Choice:
    """Span: for each token, how well an answer starts and ends there."""
    return choice("heads", "span")


def SpanBoundary(*, tied: bool = True, longest: ranges.Count = 10) -> Choice:
    """Span boundary: a language model that also guesses each masked word from its span's two neighbours."""
    return choice("heads", "span_boundary", **locals())


def Summaries() -> Choice:
    """Docstrings to summarise: the body is the source, and the first sentence that stood above it the target."""
    return choice("corpora", "summaries")


def Swiglu(*, expand: ranges.Multiple = 2.6875, dropout: ranges.BelowOne = 0.0) -> Choice:
    """SwiGLU: a hidden layer gated by a SiLU."""
    return choice("feedforwards", "swiglu", **locals())


def Tagging(*, pieces: Literal["first", "mean"] = "first") -> Choice:
    """Tagging: each word of a text has a tag, such as B-PERSON, I-PERSON or O."""
    return choice("tasks", "tagging", **locals())


def Text() -> Choice:
    """Text: tokens, each with a vector of a table."""
    return choice("inputs", "text")


def TokenClassification(*, classes: ranges.Count | Literal["labels"] = "labels") -> Choice:
    """Token classification: a score for each class, at every token."""
    return choice("heads", "token_classification", **locals())


def Top(*, layers: ranges.Count = 2) -> Choice:
    """Top: the last layers and the head are trained, everything below them is frozen."""
    return choice("adapters", "top", **locals())


def Transformer() -> Choice:
    """Transformer: blocks of attention and feed-forward, as an encoder, a decoder, or both."""
    return choice("trunks", "transformer")


def Translation(*, cut: Literal["end", "start", "refuse"] = "end") -> Choice:
    """Source and target apart, for an encoder and a decoder: `ids`, and `target` <START> … <STOP>."""
    return choice("encodings", "translation", **locals())


def TwoEncoders(
    *,
    projection: ranges.Count = 64,
    image_width: ranges.Count = 64,
    image_layers: ranges.Count = 3,
    image_heads: ranges.Count = 4,
    image_expand: ranges.Multiple = 4.0,
) -> Choice:
    """Two encoders: one reads pictures and another one texts, and both give vectors of one width."""
    return choice("trunks", "two_encoders", **locals())


def Unigram(*, vocabulary: ranges.Words = 8000) -> Choice:
    """Pieces with probabilities: a text becomes the most probable sequence of them."""
    return choice("tokenizers", "unigram", **locals())


def Unilm(
    *,
    bidirectional: ranges.Share = 0.3333333333333333,
    causal: ranges.Share = 0.3333333333333333,
    share: ranges.Share = 0.15,
    mask: ranges.Share = 0.8,
    random: ranges.Share = 0.1,
    whole_words: bool = False,
) -> Choice:
    """UniLM: masked tokens under a mixture of three masks: both sides, left only, source and left."""
    return choice("tasks", "unilm", **locals())


def Word(
    *, vocabulary: ranges.Words = 10000, minimum_count: ranges.Whole = 2, lowercase: bool = False
) -> Choice:
    """Whole words and stretches of punctuation; what is rarer than the minimum is <UNK>."""
    return choice("tokenizers", "word", **locals())


def Wordpiece(
    *,
    vocabulary: ranges.Words = 8000,
    minimum_count: ranges.Whole = 2,
    lowercase: bool = False,
    score: Literal["likelihood", "ratio", "frequency"] = "likelihood",
) -> Choice:
    """Parts of words, ##-marked when they go on; encoding takes the longest match first."""
    return choice("tokenizers", "wordpiece", **locals())


def Words(*, overlap: ranges.Whole = 64) -> Choice:
    """One text, with the word that each token belongs to, and that word's tag at its first token."""
    return choice("encodings", "words", **locals())


def Wsd(*, warmup: ranges.Share = 0.02, decay: ranges.Share = 0.2, final: ranges.Share = 0.0) -> Choice:
    """WSD: warm-up, a long stable stretch, then a fast decay to `final`."""
    return choice("schedules", "wsd", **locals())
