"""Model files made here, without downloads."""
