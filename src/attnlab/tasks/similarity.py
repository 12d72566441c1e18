from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from attnlab.config.ranges import Positive
from attnlab.config.values import ConfigError
from attnlab.data.batch import Batch
from attnlab.data.errors import DataError
from attnlab.data.example import Example
from attnlab.data.labels import Labels, at, number_of
from attnlab.metrics.metric import CLUSTER
from attnlab.metrics.retrieval import ranks
from attnlab.model.heads.head import Head
from attnlab.model.losses import LossSum
from attnlab.model.tokens import Tokens
from attnlab.targets import TARGETS
from attnlab.targets.pairs import PairTarget
from attnlab.tasks.labelled import summed
from attnlab.tasks.task import ExampleColumns, Prediction, Prepared, SplitColumns, Task, tokens_of
from attnlab.tasks.vocabulary import Vocabulary

OF_NUMBERS = ("spearman", "pearson", "mean_squared_error", "explained_variance", "loss")


class Similarity(Task):
    """Similarity: two texts that belong together get vectors that are near, so that one finds the other.

    Formula: `objective=negatives`: −log softmax(cos(a, b) / temperature)[own b] over all second texts of the
    batch, equal ones left out. `objective=symmetric`: the mean of that and of the same from each second text
    to all first ones, as in CLIP. `objective=cosine`: (cos(a, b) − number / highest)², for pairs with a
    number that says how alike they are. Vectors are those of the head `sentence`; one model reads both
    texts, or a picture and its text (data.encoding = "image_apart").

    Cost: two texts a row. With negatives, larger batches are harder and teach more.

    When it helps: search, duplicates, clustering. Judge it by recall and reciprocal rank among all second
    texts of the split, compared with BM25 (of pictures, with chance); of graded pairs by Spearman's
    correlation.

    Paper: Reimers and Gurevych 2019, "Sentence-BERT"; van den Oord et al. 2018 (InfoNCE); Radford et al. 2021
    (CLIP).
    """

    target = TARGETS["pair"]
    sees = "all"
    packs = False
    heads: ClassVar[tuple[str, ...]] = ("sentence", "contrast")
    head: ClassVar[str] = "sentence"
    encodings: ClassVar[tuple[str, ...]] = ("apart", "image_apart")
    metrics: tuple[str, ...] = (  # type: ignore[misc]  # the same
        "reciprocal_rank",
        "recall_at_1",
        "recall_at_10",
        "loss",
    )

    def __init__(
        self,
        vocabulary: Vocabulary,
        labels: Labels,
        *,
        objective: Literal["negatives", "symmetric", "cosine"] = "negatives",
        temperature: Positive = 0.05,
        highest: Positive = 1.0,
    ):
        super().__init__(vocabulary, labels)
        for name, value in (("temperature", temperature), ("highest", highest)):
            if not value > 0:
                raise ConfigError(f"task.{name} is {value}; it must be above 0.")
        self.objective, self.temperature, self.highest = objective, temperature, highest
        symmetric = objective == "symmetric"
        self.target = PairTarget(temperature, symmetric) if self.contrasts else TARGETS["number"]
        if not self.contrasts:
            self.metrics = OF_NUMBERS

    @property
    def contrasts(self) -> bool:
        """Whether each text is compared with all second ones of its batch."""
        return self.objective != "cosine"

    def label_of(self, example: Example) -> Any:
        if not self.contrasts:
            number = number_of(example)
            if abs(number) > self.highest:
                raise DataError(
                    f"The label {number:g}{at(example)} is above task.highest {self.highest:g}, which stands "
                    "for equal texts; set task.highest to the top of your scale."
                )
            return number
        if example.second is None:
            raise DataError(
                f"An example{at(example)} has no second text; name the column that holds it with --pair "
                "COLUMN, in a config with data.corpus.pair."
            )
        return example.second

    def blind_loss(self, prepared: Prepared) -> float:
        if not self.contrasts:
            return float(prepared.targets.square().mean())
        return math.log(max(1, len(prepared.targets.unique())))

    @property
    def command(self) -> str:
        return 'search RUN --in FOLDER "…"'

    def prepare(self, batch: Batch, seed: int) -> Prepared:
        prepared = self.unlabelled(batch)
        if self.contrasts:
            return replace(prepared, targets=same_texts(prepared.second))
        if batch.number is None:
            raise DataError("These rows have no number, and the task is to predict it.")
        return replace(prepared, targets=(batch.number / self.highest).float())

    def unlabelled(self, batch: Batch) -> Prepared:
        assert batch.target_ids is not None and batch.target_real is not None  # the encoding's own
        real = batch.target_real
        return Prepared(
            ids=batch.ids,
            targets=torch.zeros(len(batch.ids), dtype=torch.long),
            tokens=tokens_of(batch),
            vectors=batch.vectors,
            second=batch.target_ids.masked_fill(~real, -1).clamp(min=0),
            second_tokens=Tokens.of(real.shape[1], real=None if bool(real.all()) else real),
            of_examples=True,
        )

    def head_loss(self, head: Head, hidden: Tensor, prepared: Prepared, *, training: bool) -> LossSum:
        first, second = both_vectors(hidden)
        if not self.contrasts:
            return summed(((first * second).sum(-1) - prepared.targets.to(first.dtype)).square())
        own = torch.arange(len(first), device=first.device)
        equal = prepared.targets[:, None] == prepared.targets
        scores = first @ second.T / self.temperature
        scores = scores.masked_fill(equal & (own[:, None] != own), -torch.inf)  # they are right as well
        each = F.cross_entropy(scores, own, reduction="none")
        if self.objective == "symmetric":
            each = (each + F.cross_entropy(scores.T, own, reduction="none")) / 2
        return summed(each)

    def truth(self, prepared: Prepared) -> ExampleColumns:
        if not self.contrasts:
            return {"number": prepared.targets.cpu().double() * self.highest}
        assert prepared.second is not None
        return {"passage": keys_of(prepared.second)}

    def head_outputs(self, head: Head, hidden: Tensor, prepared: Prepared) -> ExampleColumns:
        first, second = both_vectors(hidden)
        cosine = F.cosine_similarity(first, second, dim=-1)
        if not self.contrasts:
            return {"predicted_number": cosine.cpu().double() * self.highest}
        return {"cosine": cosine, "query_vector": first, "passage_vector": second}

    def by_example(
        self, columns: SplitColumns, example: NDArray[np.int64]
    ) -> tuple[SplitColumns, NDArray[np.int64]]:
        """Each text's own second one is ranked among all of them, each counted once."""
        if "query_vector" not in columns or "passage" not in columns:
            return columns, example
        queries, passages, keys = (columns[name] for name in ("query_vector", "passage_vector", "passage"))
        _, first, own = np.unique(keys, return_index=True, return_inverse=True)
        among = passages[first]
        return columns | {"rank": ranks(lambda some: queries[some] @ among.T, own), CLUSTER: own}, example

    def predictions(self, columns: Mapping[str, Any], texts: Sequence[Example]) -> list[Prediction]:
        column = columns["cosine"] if self.contrasts else columns["predicted_number"]
        return [Prediction(answer=float(number)) for number in column.tolist()]


def both_vectors(stacked: Tensor) -> tuple[Tensor, Tensor]:
    """(B,D) each the vectors of length 1 of both texts, of (B,2,D), in float32 at the least."""
    wide = stacked.float() if stacked.dtype in (torch.float16, torch.bfloat16) else stacked
    first, second = wide.unbind(1)
    return first, second


def keys_of(ids: Tensor) -> Tensor:
    """(B) a number for each row of ids (B,T), whatever its padding with 0: equal for equal rows."""
    powers = torch.ones(ids.shape[1], dtype=torch.long)
    for place in range(1, len(powers)):
        powers[place] = powers[place - 1] * 6364136223846793005  # modulo 2⁶⁴
    return ((ids.cpu() + 1) * (ids.cpu() != 0) * powers).sum(1)


def same_texts(ids: Tensor | None) -> Tensor:
    """(B) for each row the number of the first that is equal to it."""
    assert ids is not None
    keys = keys_of(ids).tolist()
    return torch.tensor([keys.index(key) for key in keys])
