"""Foreign worklogs and logs that came alone, in the store: their form, their reading, their cells."""
