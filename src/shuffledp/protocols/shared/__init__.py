"""What several protocols share: assembly into a protocol, analyzers of frequencies, sums and means, joint budgets."""
