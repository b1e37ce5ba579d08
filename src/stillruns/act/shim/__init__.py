"""C sources of the fault-injection shim the code that compiles it for `selftest`, and the table of its faults."""
