"""The conductor: one file a job, and the only part that knows the order of things."""
