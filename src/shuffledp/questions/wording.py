"""How the bins of an answer are called where messages carry them."""

from shuffledp.core.domain import Categories, Domain, Integers
from shuffledp.core.protocol import ShuffleProtocol

__all__ = ["name_bins"]


def name_bins(protocol: ShuffleProtocol, declared: Domain) -> Domain:
    """The bins by name: messages carry the names of categories, not the ends of a range."""
    domain = protocol.match_domain(declared)
    if isinstance(protocol.randomizer.domain, Categories) and isinstance(domain, Integers):
        return Categories(k=domain.size, names=domain.labels)
    return domain
