"""From a question to a verdict: arms, seeds, statistics, and a report."""
