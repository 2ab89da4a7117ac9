"""The bundled questions: one .sql file each, by name."""

from difflib import get_close_matches
from importlib.resources import files

from otelchain_queries.query import Param, Query, QueryError, parse

__all__ = ["Param", "Query", "QueryError", "load", "names", "parse"]


def names() -> list[str]:
    """Return the names of all bundled queries, sorted."""
    return sorted(
        entry.name.removesuffix(".sql").replace("_", "-")
        for entry in files(__name__).iterdir()
        if entry.name.endswith(".sql")
    )


def load(name: str) -> Query:
    """Read a bundled query.

    Raises:
        QueryError: There is none of that name, or its header is wrong.
    """
    # Compared with the list and never joined to a path, so that no name leads out of the folder.
    known = names()
    if name not in known:
        close = get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(known)}"
        raise QueryError(f"no query is named {name!r}; {hint}")
    file_name = name.replace("-", "_") + ".sql"
    return parse(files(__name__).joinpath(file_name).read_text(encoding="utf-8"), file_name)
