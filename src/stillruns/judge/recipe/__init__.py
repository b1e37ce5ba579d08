"""The judge of recipes: what reads each name, whether its value is taken, and what to write instead. Pure."""
