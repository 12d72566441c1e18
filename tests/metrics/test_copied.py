"""What summaries copy from their sources, and the baseline of the first sentence."""

import numpy as np
import pytest
from sacrebleu.metrics import BLEU

from attnlab.checks.plain_metrics import PLAIN, Said
from attnlab.data.example import Example
from attnlab.evaluation.written_texts import of_texts
from attnlab.metrics import METRICS
from attnlab.metrics.copied import are_summaries
from attnlab.metrics.metric import Examples
from attnlab.session.baselines import lead_baselines

SOURCE = "The old cat sat on the mat. It slept, as cats do, until noon; then it went out to hunt for mice."


def summaries(*texts):
    named = {"generated": texts, "reference": ["a cat sleeps and hunts"] * len(texts)}
    return Examples(
        {name: of_texts(list(t)) for name, t in (named | {"source": [SOURCE] * len(texts)}).items()}
    )


def test_runs_of_words_are_counted_by_hand():
    examples = summaries("The cat sat on the roof.", "it slept")
    # the cat | cat sat, sat on, on the | cat sat on, sat on the | cat sat on the; and "it slept"
    # of single words all but "roof", the full stop among them
    expected = {"copied1": (6 + 2) / 9, "copied2": (3 + 1) / 7, "copied3": 2 / 5, "copied4": 1 / 4}
    for name, value in expected.items():
        assert METRICS.build(name).value(examples) == pytest.approx(value), name


def test_copied_words_of_one_text_are_sacrebleus_precisions_without_clipping():
    text = "it went out to sleep on the mat"  # no word comes twice: nothing is clipped
    precisions = BLEU(effective_order=True, lowercase=True).corpus_score([text], [[SOURCE]]).precisions
    values = [100 * METRICS.build(f"copied{n}").value(summaries(text)) for n in range(1, 5)]
    assert values[:2] == pytest.approx(precisions[:2])


def test_the_second_route_counts_the_same():
    rng = np.random.default_rng(0)
    words = SOURCE.split()
    texts = [" ".join(rng.choice([*words, "dog", "runs,"], size=rng.integers(0, 12))) for _ in range(60)]
    examples = summaries(*texts)
    for n in range(1, 5):
        ours = METRICS.build(f"copied{n}").parts(examples)
        plain = PLAIN[f"copied{n}"].parts(Said(examples.columns))
        assert np.array_equal(ours, plain)


def test_they_are_asked_of_summaries_alone():
    assert are_summaries(summaries("a"))
    digits = {"generated": of_texts(["305"]), "reference": of_texts(["305"])}
    assert not are_summaries(Examples(digits | {"source": of_texts(["three hundred and five"])}))
    assert not METRICS.build("copied1").applies(Examples(digits))


def test_the_lead_is_the_first_sentence():
    targets = ("The old cat sat there.", "Mice fear the cat.")
    examples = [Example(SOURCE, target=target) for target in targets]
    baselines = {baseline.metric: baseline for baseline in lead_baselines(examples)}
    lead = of_texts(["The old cat sat on the mat."] * 2)
    given = Examples({"generated": lead, "reference": of_texts([e.target for e in examples])})
    assert {*baselines} == {"rouge1", "rouge2", "rougeL"}
    for name, baseline in baselines.items():
        assert baseline.value == METRICS.build(name).value(given) and baseline.n == 2
    assert not lead_baselines([Example("three hundred and five", target="305")])
