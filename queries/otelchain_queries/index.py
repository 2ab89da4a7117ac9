"""The index of the bundle as Markdown, for queries/README.md (generated, checked by cog)."""

from otelchain_queries import Query, load, names


def index_markdown() -> str:
    """Return one section per bundled query: all that its header says."""
    return "\n".join(_section(load(name)) for name in names())


def _section(query: Query) -> str:
    rows = [
        f"| `{param.name}` | {f'`{param.default}`' if param.default else ''} | {param.help} |"
        for param in query.params
    ]
    return "\n".join(
        [
            f"### {query.name}",
            "",
            f"**{query.title}.** {query.description}",
            "",
            f"*Why:* {query.why}",
            "",
            f"    {query.example}",
            "",
            f"*Next:* {query.next}",
            "",
            "| parameter | default | |",
            "| --- | --- | --- |",
            *(row.replace("|  |", "| |") for row in rows),
            "",
        ]
    )
