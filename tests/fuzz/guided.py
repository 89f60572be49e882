"""
Run a target with input that a coverage guide makes (libFuzzer, by atheris) from its seeds.

    python -m tests.fuzz.guided TARGET SECONDS FOLDER SEED

Input that a target raises for ends the run, and is in FOLDER as ``crash-…``; input that takes long
goes on, and is there as ``slow-…``. Its own process: libFuzzer never returns. The same seed begins
with the same input, in the same order, if the code is the same and PYTHONHASHSEED is set.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from random import Random
from time import process_time

import atheris

# In seconds of CPU, with instruments: without them a test measures again.
MOST = 0.05
# The modules that read the input: instruments in the whole package would take long.
READERS = [
    *("mcp_bridge.protocol", "mcp_bridge.schemas", "mcp_bridge.sources.operations"),
    *("mcp_bridge.outbound.addresses", "mcp_bridge.calls.arguments"),
    *("mcp_bridge.calls.media", "mcp_bridge.transports.http", "mcp_bridge.confirmation.confirm"),
    *("mcp_bridge.confirmation.queue", "mcp_bridge.confirmation.rendering"),
    *("mcp_bridge.records.redaction", "mcp_bridge.admin.schema_tables"),
    "mcp_bridge.admin.try_tool",
    *("mcp_bridge.registry.definitions", "mcp_bridge.registry.linting"),
]
# Longer input finds little more, and takes longer.
MAX_BYTES = 4096


def main(name: str, seconds: str, folder: str, seed: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
    with atheris.instrument_imports(include=READERS):
        import django

        django.setup()
        from tests.fuzz.mutations import structure, written
        from tests.fuzz.targets import CORPUS, TARGETS
    logging.disable(logging.CRITICAL)
    target, found = TARGETS[name], Path(folder)

    def run(data: bytes) -> None:
        # Once, however long it takes: to run it again would be counted as coverage.
        before = process_time()
        target.run(data)
        taken = process_time() - before
        if taken > MOST:
            (found / f"slow-{taken * 1000:05.0f}-{sha256(data).hexdigest()[:8]}").write_bytes(data)

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        random = Random(seed)
        if random.random() < 0.7:
            with suppress(ValueError, RecursionError):
                changed = written(random, structure(random, json.loads(data)))
                if len(changed) <= max_size:
                    return changed
        mutated: bytes = atheris.Mutate(data, max_size)
        return mutated

    corpus = found / "corpus"
    corpus.mkdir()
    flags = {
        # libFuzzer takes 0 for no seed at all.
        **{"max_total_time": seconds, "seed": int(seed) % 2**32 or 1},
        **{"max_len": MAX_BYTES, "rss_limit_mb": 2048, "timeout": 20},
        # Its comparisons include addresses in memory, which no seed makes the same.
        **{"use_cmp": 0, "use_memmem": 0},
        **{"artifact_prefix": f"{folder}/", "print_final_stats": 1},
    }
    arguments = [f"-{name}={value}" for name, value in flags.items()]
    custom = {"custom_mutator": mutate} if target.is_json else {}
    atheris.Setup([sys.argv[0], *arguments, str(corpus), str(CORPUS / name)], run, **custom)
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
