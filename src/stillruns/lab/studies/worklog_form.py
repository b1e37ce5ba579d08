"""How an imported worklog's runs are marked in the store, and the names of the files that tell most."""

from __future__ import annotations

FORM = "worklog"
META = "meta.json"
JOURNAL = "ollama_journal_since_start.txt"
PROBE = "backend_probe.txt"
VERSION = "ollama_version.txt"
"""What the client's `ollama --version` printed, beside a run."""
