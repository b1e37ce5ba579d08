"""What people write: specs, hypothesis files, paths. Text to checked values, or one sentence of why not."""
