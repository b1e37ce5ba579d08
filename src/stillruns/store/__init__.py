"""The append-only evidence store: journal, blobs, derived index, verification."""
