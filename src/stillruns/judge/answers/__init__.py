"""What servers answered: whether an output agrees with the reference's, and how far apart two may lie."""
