"""What touches the world: runtimes, trials, the launcher, synthetic models, the fault shim."""
