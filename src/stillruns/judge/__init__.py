"""Facts to verdicts, pure: applied, outcomes, statistics, which trial next."""
