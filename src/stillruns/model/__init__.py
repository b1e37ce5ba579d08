"""The nouns: frozen dataclasses and enums, one noun a file, importing nothing but each other."""
