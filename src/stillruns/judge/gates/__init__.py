"""Whether each layer of the stack lets a path through, and what follows from all of them."""
