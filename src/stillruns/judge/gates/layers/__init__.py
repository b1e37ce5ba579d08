"""One file a layer: what decides it, and how a wrong state looks."""
