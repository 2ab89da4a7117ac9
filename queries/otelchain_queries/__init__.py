"""The questions, by name: one .sql file each, bundled or in folders of the user's own."""

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from otelchain_queries.finding import Finding
from otelchain_queries.query import Param, Query, QueryError, parse

__all__ = ["Finding", "Param", "Query", "QueryError", "load", "names", "parse"]


def names(folders: Iterable[Path] = ()) -> list[str]:
    """Return the names of all queries, sorted.

    Args:
        folders: The user's own; their .sql files join the bundle.

    Raises:
        QueryError: A folder is not there, or two queries have the same name.
    """
    return sorted(_found(folders))


def load(name: str, folders: Iterable[Path] = ()) -> Query:
    """Read a query.

    Args:
        name: One of `names`.
        folders: As in `names`.

    Raises:
        QueryError: There is none of that name, its header is wrong, or a folder is.
    """
    # Compared with the list and never joined to a path, so that no name leads out of a folder.
    found = _found(folders)
    if name not in found:
        known = sorted(found)
        close = get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(known)}"
        raise QueryError(f"no query is named {name!r}; {hint}")
    return read(found[name])


def read(file: Path) -> Query:
    """Read a query from its file.

    Raises:
        QueryError: It cannot be read, or its header is wrong.
    """
    try:
        return parse(file.read_text(encoding="utf-8"), file.name)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise QueryError(f"cannot read {str(file)!r}: {why}") from error


def _found(folders: Iterable[Path]) -> dict[str, Path]:
    found = _of(Path(__file__).parent)
    for folder in folders:
        if not folder.is_dir():
            raise QueryError(f"there is no folder {str(folder)!r} with queries")
        own = _of(folder)
        for name in own.keys() & found.keys():
            raise QueryError(
                f"{str(own[name])!r} has the name of another query, {name!r}; rename the file"
            )
        found.update(own)
    return found


def _of(folder: Path) -> dict[str, Path]:
    return {
        file.name.removesuffix(".sql").replace("_", "-"): file
        for file in folder.iterdir()
        if file.name.endswith(".sql") and file.is_file()
    }
