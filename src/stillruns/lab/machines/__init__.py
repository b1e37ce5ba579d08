"""A machine, here or in a snapshot: its probes, its files, what its tools and backends say."""
