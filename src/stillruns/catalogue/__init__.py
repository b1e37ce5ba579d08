"""Data shipped with the package and the strict loader for it."""
