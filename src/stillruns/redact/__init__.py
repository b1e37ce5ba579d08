"""Pure redaction rules: text in, text and a span list out."""
