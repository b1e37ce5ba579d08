"""The conductor, and the only part that knows the order of things: a module for each verb, packages for its parts."""
