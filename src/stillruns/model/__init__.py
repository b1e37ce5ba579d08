"""The nouns: frozen dataclasses, frozen structs where a start is short (decision 0006), and enums, one noun a file, importing nothing but each other."""
