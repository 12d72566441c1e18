"""From a question to a verdict: arms that each change one thing, trained alike, compared, reported."""
