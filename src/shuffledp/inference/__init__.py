"""What the messages say about the population: learn its distribution, or test it."""
