"""The signals by which a person or a machine asks a program to end."""

STOPS = {"SIGINT": 2, "SIGTERM": 15, "SIGHUP": 1}
"""Name -> number, which is the same on every Linux (signal(7)): Ctrl-C, `kill` or a shutdown, a terminal that closes.
Numbers, since this is read before anything that is slow to load."""
