"""RoBERTa's files: BERT's trunk, positions that begin after the padding id, heads of its own."""

from __future__ import annotations

from dataclasses import dataclass

from attnlab.config.values import ConfigError
from attnlab.interop.families.bert import MASKED, SIZES, TIED, TRUNK
from attnlab.interop.family import Family, HeadOf
from attnlab.interop.fields import Classes, Field, Settings, Theirs, get, put, whole
from attnlab.model.presets import PRESETS


@dataclass(frozen=True)
class Offset(Field):
    """Their table of positions has rows for 0 … pad that no token uses; we count those apart."""

    def read(self, theirs: Theirs, ours: Settings) -> None:
        rows, pad = theirs.get("max_position_embeddings", 514), theirs.get("pad_token_id", 1)
        if not whole(rows) or not isinstance(pad, int) or not 0 <= pad < rows - 1:
            raise ConfigError(
                f"config.json has max_position_embeddings = {rows!r} and pad_token_id = {pad!r}; positions "
                "begin after the padding id, so the one must be well above the other."
            )
        ours["length"] = rows - pad - 1
        put(ours, "positions.offset", pad + 1)

    def write(self, ours: Settings, theirs: Theirs) -> None:
        offset = get(ours, "positions.offset") or 0
        theirs["max_position_embeddings"] = ours["length"] + offset
        theirs["pad_token_id"] = max(offset - 1, 0)


ROBERTA = Family(
    model_type="roberta",
    preset=PRESETS["roberta"],
    prefix="roberta",
    fields=(*SIZES, Offset()),
    names=TRUNK,
    heads=(
        HeadOf(
            "RobertaForMaskedLM",
            MASKED,
            names={
                "lm_head.decoder.weight": "head.table.weight",
                "lm_head.decoder.bias": "head.bias",
                "lm_head.bias": "head.bias",
                "lm_head.dense": "head.transform.0",
                "lm_head.layer_norm": "head.transform.2",
            },
            copies=("lm_head.bias",),
            fields=(TIED,),
            beside=("pooler.dense.*",),
        ),
        HeadOf(
            "RobertaForSequenceClassification",
            {"kind": "classification", "pooling": "first", "transform": "tanh"},
            names={"classifier.dense": "head.transform.0", "classifier.out_proj": "head.scores"},
            fields=(Classes(),),
            beside=("pooler.dense.*",),
        ),
        HeadOf(
            "RobertaForTokenClassification",
            {"kind": "token_classification", "classes": 2},
            names={"classifier": "head.scores"},
            fields=(Classes(),),
            beside=("pooler.dense.*",),
        ),
        HeadOf(
            "RobertaForQuestionAnswering",
            {"kind": "span"},
            names={"qa_outputs": "head.scores"},
            beside=("pooler.dense.*",),
        ),
        HeadOf(
            "RobertaModel",
            {"kind": "features", "pooling": "first", "transform": "tanh"},
            names={"pooler.dense": "head.transform.0"},
            bare=True,
        ),
    ),
    beside=("embeddings.position_ids",),
    old={".gamma": ".weight", ".beta": ".bias"},
)
