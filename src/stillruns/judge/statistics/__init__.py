"""Numbers about counts and times, exact where they can be: intervals, tests, plans."""
