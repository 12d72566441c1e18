"""Speed side by side with peers: both in one run, in interleaved rounds, as ratios of medians."""
