"""Pure walkers of binary formats over bytes or a `read_at(offset, n)` callable; nothing here opens a file."""
