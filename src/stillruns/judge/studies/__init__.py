"""Foreign worklogs and logs that came alone: requests as trials, and what their own tables could not show."""
