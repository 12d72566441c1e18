"""Checks of written text: each fault is found, and texts of a fair model raise none."""

import functools
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from attnlab.checks.decoded_texts import DecodedTexts, TargetStart, guesses
from attnlab.checks.outputs import Outputs
from attnlab.checks.seen_references import SeenReferences
from attnlab.checks.text_pairs import TextPairs
from attnlab.config.files import config_of
from attnlab.data.encode.texts import ends
from attnlab.evaluation.evaluator import Evaluation
from attnlab.evaluation.written_texts import ids_of, of_texts
from attnlab.generation.generate import generate
from attnlab.generation.rules import Sample
from attnlab.metrics.metric import Examples
from attnlab.model.isolation import undisturbed
from attnlab.session.session import Session
from tests.checks.cases import case, found, shared
from tests.evaluation.copying_run import PREFIXED, copying
from tests.training.small_run import merged

NAMES = ("Anna", "Paul", "The dog", "Our neighbour", "Nobody")
VERBS = ("doesn't like", "has seen", "is (almost) as old as", "wrote to", "lives near")
PLACES = ("the well-known house.", "Paris!", "my sister's friend.", "3.5 km of road.", "you, I think.", "me?")
ALL = [f"{a} {b} {c}" for a in NAMES for b in VERBS for c in PLACES]
RIGHT = [ALL[number] for number in np.random.default_rng(0).permutation(len(ALL))]
SOURCES = [f"source {number} of {text.upper()}" for number, text in enumerate(RIGHT)]


def fair(seed=0):
    """What a model writes that is right in two words of three, and sometimes shorter or longer."""
    draw = np.random.default_rng(seed)
    pool = " ".join(RIGHT).split()
    texts = []
    for text in RIGHT:
        words = [word if draw.random() < 0.7 else str(draw.choice(pool)) for word in text.split()]
        texts.append(" ".join(words[: len(words) - draw.integers(2)] + ["so"] * (draw.random() < 0.2)))
    return texts


def parted(text):
    return re.sub(r"([.,!?()])", r" \1 ", text).replace("'", " '").strip()


def examples_of(texts, references=RIGHT, **columns):
    return Examples({"generated": of_texts(texts), "reference": of_texts(references), **columns})


def pieces(mark):
    return [mark(text) for text in fair()]


PAIRS = {
    "pieces": [
        pieces(lambda text: text.replace("r", "r@@ ")),
        pieces(lambda text: text.replace(" ", " ▁")),
        pieces(lambda text: text.replace("igh", "i ##gh").replace("ous", "o ##us")),
        pieces(lambda text: text.replace(" ", "Ġ")),
    ],
    "tokenised": [pieces(parted)],
    "escaped": [pieces(lambda text: text.replace("'", "&apos;"))],
    "lower_case": [pieces(str.lower)],
}


@pytest.mark.parametrize(("kind", "texts"), [(kind, texts) for kind, many in PAIRS.items() for texts in many])
def test_text_of_another_form_is_found_on_either_side(kind, texts):
    for texts_first in (True, False):
        sides = (texts, RIGHT) if texts_first else (fair(), texts)
        finding = TextPairs().judge("evaluation", examples_of(*sides))
        assert (finding.outcome, finding.kind) == ("warn", kind), finding.found
        assert finding.values["side"] == ("texts" if texts_first else "references")
        assert finding.found.count("%") >= 2 and "{" not in finding.sentence


def test_text_that_is_tokenised_on_both_sides_is_found():
    right = [parted(text) for text in RIGHT if text.endswith(".")]
    both = examples_of([f"So {text}" for text in right], right)
    assert TextPairs().judge("evaluation", both).kind == "both_tokenised"


def test_rouge_is_doubted_where_it_reads_nothing():
    cyrillic = ["Собака спит на ковре.", "Кошка сидит у окна."] * 8
    finding = TextPairs().judge("evaluation", examples_of(cyrillic, cyrillic))
    assert finding.kind == "unread_by_rouge" and finding.number == 1
    french = ["Où est passé le garçon ?", "Il a été là-bas, à côté."] * 8
    assert TextPairs().judge("evaluation", examples_of(french, french)).outcome == "pass"
    typeset = ["Où est-il\u202f?", "Viens !", "Il dit : « non » ; et toi ?", "C'est l'ami d'Anne."] * 8
    plain = ["Où est-il", "Viens", "Il dit non et toi", "C'est l'ami d'Anne."] * 8
    assert TextPairs().judge("evaluation", examples_of(plain, typeset)).outcome == "pass", (
        "no tokenizer did it"
    )


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("shifted", ["", *RIGHT[:-1]]),
        ("shifted", [*fair()[1:], ""]),
        ("identical", RIGHT),
        (
            "as_long_as_references",
            [" ".join(word if n % 3 else "the" for n, word in enumerate(text.split())) for text in RIGHT],
        ),
    ],
)
def test_lines_that_do_not_belong_together_are_found_in_files(kind, texts):
    assert TextPairs().judge("evaluation", examples_of(texts), files=True).kind == kind
    assert TextPairs().judge("evaluation", examples_of(texts)).outcome == "pass", (
        "a model may be as good as that"
    )


@pytest.mark.parametrize("seed", range(5))
def test_texts_of_a_fair_model_raise_no_alarm(seed):
    examples = examples_of(fair(seed), source=of_texts(SOURCES), stopped=np.ones(len(RIGHT), bool))
    assert TextPairs().judge("evaluation", examples, files=True).outcome == "pass"
    finding = Outputs().judge("evaluation", examples)
    assert finding.outcome == "pass" and "{" not in finding.found


def some(texts, change, share=0.2):
    """Every n-th text changed."""
    return [change(number) if number % round(1 / share) == 0 else text for number, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("empty", some(fair(), lambda number: " ")),
        ("copied", some(fair(), lambda number: SOURCES[number])),
        ("loops", some(fair(), lambda number: "so " * 9 + str(number))),
        ("loops", some(fair(), lambda number: f"{number} " + "I am " * 5)),
        ("loops", some(fair(), lambda number: f"{number} " + "the end of the day " * 4)),
        ("one_text", some(fair(), lambda number: RIGHT[0], share=1)),
    ],
)
def test_outputs_that_are_no_texts_of_their_own_are_found(kind, texts):
    finding = Outputs().judge("evaluation", examples_of(texts, source=of_texts(SOURCES)))
    assert (finding.outcome, finding.kind) == ("warn", kind), finding.found
    assert finding.number >= 0.19


def test_cut_texts_are_found_and_what_is_not_known_is_not_said():
    stopped = np.arange(len(RIGHT)) % 5 > 0
    finding = Outputs().judge("evaluation", examples_of(fair(), stopped=stopped))
    assert finding.kind == "cut" and "20% cut" in finding.found and "copies" not in finding.found
    assert "cut" not in Outputs().judge("evaluation", examples_of(fair())).found


def test_references_that_loop_or_are_their_source_are_no_fault():
    """Of copying, and of sequences that repeat, the text is as it should be."""
    looping = [f"{number} a a a a b b b b" for number in range(40)]
    assert (
        Outputs().judge("evaluation", examples_of(looping, looping, source=of_texts(looping))).outcome
        == "pass"
    )


def test_runs_are_asked_of_what_they_wrote_and_not_in_the_first_steps():
    empty = examples_of(some(fair(), lambda number: ""))
    evaluation = Evaluation(1.0, {}, Examples({}), texts=empty)
    late = case("seq2seq", when="evaluation", step=400, evaluation=evaluation)
    assert found("outputs", late).kind == "empty"
    early = case("seq2seq", when="evaluation", step=20, evaluation=evaluation)
    assert {found(name, early).kind for name in ("outputs", "text_pairs")} == {"too_early"}
    assert found("text_pairs", late).outcome == "pass"
    silent = case("seq2seq", when="evaluation", evaluation=Evaluation(1.0, {}, Examples({})))
    assert {found(name, silent).kind for name in ("outputs", "text_pairs")} == {"nothing_written"}


# ---------------------------------------------------------------- texts that a model wrote itself
@functools.cache
def learned(task):
    """A small model that has learned to end its texts, and what it writes of dev."""
    given = copying(shared(), budget={"steps": 60}, evaluate_every=60, generate_every="evaluation")
    if task == "prefix":
        given = merged(given, PREFIXED)
    session = Session(config_of(given))
    optimizer = torch.optim.AdamW(session.model.parameters(), 1e-2)
    batches = iter(session.dataset.trained(0))
    for step in range(60):
        prepared = session.task.prepare(next(batches), step)
        loss = session.model(**prepared.inputs, objective=session.task.loss_of(prepared))
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        optimizer.step()
    return session


def judged_texts(session, beam=1, penalty=1.0, **columns):
    writer = replace(session.writer("dev"), beam=beam, penalty=penalty)
    texts = writer(16)
    return DecodedTexts().judge("evaluation", writer, Examples({**texts.columns, **columns}))


def as_columns(session, ids):
    """Tokens as what a model wrote and ended."""
    texts = [session.tokenizer.decode(row).strip() for row in ids]
    return {"written_ids": ids_of(ids), "generated": of_texts(texts), "stopped": np.ones(len(ids), bool)}


@pytest.mark.parametrize("task", ["seq2seq", "prefix"])
@pytest.mark.parametrize(("beam", "penalty"), [(1, 1.0), (4, 1.0), (4, 0.0)])
def test_texts_that_a_model_writes_by_itself_raise_no_alarm(task, beam, penalty):
    finding = judged_texts(learned(task), beam, penalty)
    assert finding.outcome == "pass" and finding.values["n"] >= 4, finding.found


@pytest.mark.parametrize("task", ["seq2seq", "prefix"])
@pytest.mark.parametrize("beam", [1, 4])
def test_guesses_after_the_right_words_are_found(task, beam):
    """Under teacher forcing each token is guessed after those of the reference."""
    session = learned(task)
    rows = session.dataset.rows("dev")
    with undisturbed(session.model):
        ids = [guesses(session.model, TargetStart.of(rows, row)) for row in range(16)]
    finding = judged_texts(session, beam, **as_columns(session, ids))
    assert (finding.outcome, finding.kind) == ("fail", "teacher_forced"), finding.found


def test_texts_that_are_not_greedy_or_below_greedy_are_found():
    """Sampled ones, as of a beam whose scores are mixed up."""
    session = learned("seq2seq")
    start, stop = ends(session.tokenizer)
    sources = [session.writer("dev").source(row).ids for row in range(16)]
    about = {"sources": sources, "length": 20, "stop": {stop}}
    with undisturbed(session.model):
        sampled = generate(session.model, [[start]] * 16, rule=Sample(), **about)
    columns = as_columns(session, [text.new for text in sampled])
    for beam, kind in ((1, "not_greedy"), (4, "below_greedy")):
        finding = judged_texts(session, beam, **columns)
        assert (finding.outcome, finding.kind) == ("fail", kind), finding.found


def test_a_text_that_is_not_that_of_its_tokens_is_found():
    session = learned("seq2seq")
    references = of_texts([example.target for example in session.dataset.texts("dev")[:16]])
    assert judged_texts(session, generated=references).kind == "other_text"
    cut = judged_texts(session, stopped=np.zeros(16, bool))
    assert (cut.outcome, cut.kind) == ("not applicable", "none_ended")


def test_references_that_were_trained_on_are_found():
    """Under other sources too; what recurs in training by itself is no fault."""
    train, dev = [f"Sentence number {n}." for n in range(200)], [f"Another one, {n}." for n in range(50)]
    check = SeenReferences()
    assert check.judge("before", train, dev).outcome == "pass"
    shared_with = [*dev[:40], *(text.upper() for text in train[:10])]
    finding = check.judge("before", train, shared_with)
    assert (finding.outcome, finding.kind, finding.number) == ("warn", "seen", 0.2)
    assert check.judge("before", ["yes", "no"] * 100, ["yes"] * 50).outcome == "pass"
    assert found("seen_references", case("causal")).kind == "no_references"
    assert found("seen_references", case("seq2seq")).outcome == "pass"
