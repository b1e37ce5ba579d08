"""A run's parts: what is known before it, read during it, kept in the store, and judged again from there."""
