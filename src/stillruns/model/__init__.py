"""The nouns: frozen dataclasses (structs where a start has to be short, docs/decisions/0006) and enums, one noun a
file, importing nothing but each other."""
