"""What compile jobs are made of: programs, the values they run on, what is timed beside them."""
