"""
How large documents of OpenAPI become tools: python -m benchmarks.openapi FILE...

The files are anybody's, in JSON; none comes with this project. Prints a line of a Markdown table
for each: its operations, how many are tools, the sizes of their input schemas, and the seconds of
CPU that reading and mapping took, without and with the schemas of answers.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from time import process_time

from mcp_bridge.ext.openapi.source import read_document
from mcp_bridge.schemas.walk import size_of
from mcp_bridge.sources.operations.mapping import MappedOperation, map_operation
from mcp_bridge.sources.operations.read import Unmappable

HEADINGS = (
    *("document", "MB", "operations", "tools"),
    *("median bytes", "largest", "read (s)", "map (s)", "with answers (s)"),
)


def measured(file: Path) -> list[str]:
    """The cells of a document's line."""
    seconds, mapped = {}, list[MappedOperation]()
    for output_schema in (True, False):
        begun = process_time()
        document = read_document(file)
        operations = list(document.operations())
        read = process_time() - begun
        begun = process_time()
        mapped = []
        for operation in operations:
            try:
                mapped.append(map_operation(document, operation, output_schema=output_schema))
            except Unmappable as why:
                if not output_schema:
                    print(f"{operation}: {why}.", file=sys.stderr)
        seconds[output_schema] = process_time() - begun
    sizes = [size_of(each.input_schema) for each in mapped] or [0]
    return [
        *(
            file.stem,
            f"{file.stat().st_size / 1e6:.1f}",
            f"{len(operations):,}",
            f"{len(mapped):,}",
        ),
        *(f"{median(sizes):,.0f}", f"{max(sizes):,}"),
        *(f"{each:.2f}" for each in (read, seconds[False], seconds[True])),
    ]


def main() -> None:
    for cells in (HEADINGS, ["---"] * len(HEADINGS), *map(measured, map(Path, sys.argv[1:]))):
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
