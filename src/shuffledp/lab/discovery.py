"""Where the experiments are: shipped inside the package, or beside the source tree."""

import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType

from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.lab.contract import Experiment

__all__ = ["experiments", "folders", "load"]

_PACKAGE = Path(__file__).resolve().parents[1]
_PLACES = (_PACKAGE / "experiments", _PACKAGE.parents[1] / "experiments")
_MODULE = "shuffledp_experiments"


def folders() -> dict[str, Path]:
    """Return the folder of each experiment, by name.

    >>> "laplace_tail" in folders()
    True
    """
    for place in _PLACES:
        found = {path.parent.name: path.parent for path in sorted(place.glob("*/run.py"))}
        if found:
            return found
    raise UnsupportedError(
        "no experiments are installed: looked in " + " and ".join(map(str, _PLACES))
    )


def load(name: str) -> Experiment:
    """Return the experiment of that name.

    >>> load("laplace").name
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: experiment='laplace' must be one of adaptive, amplification, ...
    """
    known = folders()
    if name not in known:
        raise ParameterError("experiment", name, "must be one of " + ", ".join(known))
    return _experiment(name, _module(name, known[name]))


def experiments() -> tuple[Experiment, ...]:
    """Return all of them, in the order of the report.

    >>> experiments()[0].name
    'laplace_tail'
    """
    return tuple(sorted(map(load, folders()), key=lambda each: (each.order, each.name)))


def _module(name: str, folder: Path) -> ModuleType:
    full = f"{_MODULE}_{name}"
    if full in sys.modules:
        return sys.modules[full]
    # A package whose code is run.py, so that it may import the files beside it: from .checks import ...
    spec = importlib.util.spec_from_file_location(
        full, folder / "run.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[full] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[full]
        raise
    return module


def _experiment(name: str, module: ModuleType) -> Experiment:
    title, _, about = inspect.cleandoc(module.__doc__ or "").partition("\n")
    return Experiment(
        name=name,
        title=title.rstrip("."),
        about=about.strip(),
        order=module.ORDER,
        run=module.run,
    )
