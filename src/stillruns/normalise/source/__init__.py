"""Following one option through source text: parse, lower, solve, fold. Pure: bytes in, values out."""
