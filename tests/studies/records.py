"""Records of studies that never ran."""

import math

from attnlab.evaluation.comparison import Comparison, Verdict
from attnlab.evaluation.spread import Spread
from attnlab.studies.outcome import ArmOutcome, StudyFacts, StudyOutcome


def comparison(arm, baseline, verdict, *, metric="loss", low=0.1, high=0.3, **facts):
    """A comparison whose numbers come to this verdict."""
    verdict, middle = Verdict(verdict), facts.pop("difference", (low + high) / 2)
    found = Comparison(
        **{
            "arm": arm,
            "baseline": baseline,
            "metric": metric,
            "difference": middle,
            "low": low,
            "high": high,
            "p": 0.001 if verdict in ("better", "worse") else 0.5,
            "p_corrected": 0.001 if verdict in ("better", "worse") else 0.5,
            "seeds": 3,
            "documents": 40,
            "lower_is_better": (verdict == "better") == (middle < 0),
            "level": 0.95,
            "margin": 0.01,
            "p_same": 0.001 if verdict is Verdict.SAME else 0.5,
            "identical": verdict is Verdict.IDENTICAL,
            "half_width_over_texts": math.nan,
            "failed": ("dependency",) if verdict is Verdict.INVALID else (),
            "checks": ("dependency",) if verdict is Verdict.INVALID else (),
            "spread": Spread(0.01, 0.02),
        }
        | facts
    )
    assert found.verdict is verdict
    return found


def arm(name, state="finished", *reasons, **facts):
    from attnlab.studies.outcome import ArmState

    return ArmOutcome(name=name, state=ArmState(state), reasons=reasons, **facts)


def verdict_of(study, arms, comparisons, notes=()):
    """What is said of a study with these arms and comparisons."""
    facts = StudyFacts(baseline=study.baseline, against=dict(study.against), metric=study.metric)
    told = {"arms": tuple(arms), "comparisons": tuple(comparisons), "notes": tuple(notes)}
    return StudyOutcome(study=facts, **told).verdict
