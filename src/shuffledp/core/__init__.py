"""The vocabulary: seven concepts and the errors, on NumPy alone (no I/O, no clock, no randomness).

Here is what every layer reads: the version, and `load_later`, for packages whose names are imported when they are first
used. A command needs few of the protocols and engines there are, and should not wait for the rest.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__version__ = "0.1.0"


def load_later(
    package: str, homes: Mapping[str, str], modules: tuple[str, ...] = ()
) -> Callable[[str], Any]:
    """Make the `__getattr__` of a package: `homes` are the names by module, `modules` are known by their last name.

    >>> find = load_later("shuffledp.core", {"domain": "Bits Reals", "privacy": "Model"}, ("texts",))
    >>> find("Bits").__name__, find("texts").__name__
    ('Bits', 'shuffledp.core.texts')
    >>> find("Bytes")
    Traceback (most recent call last):
    AttributeError: module 'shuffledp.core' has no attribute 'Bytes'
    """
    places = {module.rpartition(".")[2]: module for module in modules}
    home = {name: module for module, names in homes.items() for name in names.split()}

    def find(name: str) -> Any:
        if name in places:
            return import_module(f"{package}.{places[name]}")
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{home[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
