"""Runtime adapters, one a file; tests/test_conformance.py finds and calls each of them."""
