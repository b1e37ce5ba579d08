"""C sources of the fault-injection shim and the code that compiles it at test time."""
