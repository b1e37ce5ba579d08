"""What a crash leaves in a log: signals, exit codes, frames, and the signature of them."""
