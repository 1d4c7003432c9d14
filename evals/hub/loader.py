"""Loading public data sets by name, with the package `datasets`."""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

from evals.errors import ItemsUnreadable, NotInstalled
from evals.hub.sets import SETS, HubSet
from evals.items import Item, interleaved, unique

Rows = Sequence[Mapping[str, Any]]
Load = Callable[[HubSet], Rows]
# Rows are shuffled by this seed, the same in every run: many sets are in an order that means something.
SEED = 7


def load_sets(names: Sequence[str], per_set: int, load: Load | None = None, *, programs: bool = True) -> Sequence[Item]:
    """The first `per_set` items of each set, taken in turns.

    Args:
        names: Names in `SETS`.
        per_set: Items of each [count, >= 1].
        load: Gets the rows of a set; left out: from the hub, through `datasets`.
        programs: Whether items may ask for programs, which are judged by running their tests.

    Raises:
        ItemsUnreadable: For an unknown name, a set of programs where none may be, a set that cannot be loaded, or a row
            that lacks what it should have.
        NotInstalled: When `datasets` is not installed.
    """
    unknown = [name for name in names if name not in SETS]
    if unknown:
        raise ItemsUnreadable(f"there is no public set {', '.join(unknown)}; there are {', '.join(SETS)}")
    wrong = [name for name in names if SETS[name].programs and not programs]
    if wrong:
        raise ItemsUnreadable(f"{', '.join(wrong)}: programs are not scored by this evaluation; leave these sets out")
    taken = [_items(name, (load or from_hub)(SETS[name]), per_set) for name in names]
    return unique(interleaved(taken))


def from_hub(wanted: HubSet) -> Rows:
    """The rows of a set, from the hub or its cache, in the shuffled order that is the same in every run.

    Raises:
        NotInstalled: When `datasets` is not installed.
        ItemsUnreadable: When the set cannot be loaded; names the reason, and what to do instead.
    """
    try:
        import datasets
    except ImportError as missing:
        message = "public data sets need the package `datasets`: pip install 'metacog[evaluation]'; or give --data"
        raise NotInstalled(message, package="datasets") from missing
    try:
        loaded = datasets.load_dataset(wanted.path, wanted.subset or None, split=wanted.split)
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:  # a script: RuntimeError
        message = (
            f"{wanted.path} cannot be loaded: {error}; take another set, or give its questions as a folder, --data"
        )
        raise ItemsUnreadable(message) from error
    rows: Rows = loaded.shuffle(seed=SEED)
    return rows


def _items(name: str, rows: Rows, per_set: int) -> Sequence[Item]:
    made = [_item(name, place, row) for place, row in enumerate(islice(rows, per_set))]
    if not made:
        raise ItemsUnreadable(f"{name} has no items")
    return made


def _item(name: str, place: int, row: Mapping[str, Any]) -> Item:
    try:
        return SETS[name].read(row, f"{name}-{place}")
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise ItemsUnreadable(f"row {place} of {name} is not as its readers expect: {error!r}") from error
