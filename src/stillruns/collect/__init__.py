"""One file per source of evidence about this machine: reads, never parses."""
