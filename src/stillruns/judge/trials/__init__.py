"""One trial: how it ended, whether its condition was applied, and the proof of it."""
