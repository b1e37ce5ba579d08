"""What went wrong in logs of servers and kernels: which lines, whose fault, known or not."""
