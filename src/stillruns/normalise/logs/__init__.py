"""Log grammars: one runtime a file, lines to events to server facts."""
