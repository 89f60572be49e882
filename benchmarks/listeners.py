"""
The cost of clients that listen to changes of the list: memory, processor, and the time to tell all.

    python -m benchmarks.listeners [NUMBER]

Starts uvicorn with one worker and a database in a file, opens the subscriptions over sockets, and
switches a tool in another process. Linux only: it reads /proc.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.processes import test_end_of_servers
from tests.processes.test_end_of_servers import SERVERS, Server
from tests.processes.test_live_streams import listening, message_of, toggle
from tests.support.processes import ROOT

PEACE = 40


def memory_of(pid: int) -> float:
    """Return the resident memory of a process in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise LookupError(pid)


def processor_of(pid: int) -> float:
    """Return the seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(server: Server, number: int) -> None:
    pid = server.process.pid
    opened = []

    async def subscribe() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(listening(server))
        await message_of(reader)
        opened.append((reader, writer))

    await subscribe()
    before = memory_of(pid)
    began = time.monotonic()
    while len(opened) < number:
        await asyncio.gather(*(subscribe() for _ in range(min(50, number - len(opened)))))
    print(f"{number:,} subscriptions opened in {time.monotonic() - began:.1f} s")
    await asyncio.sleep(2)
    print(f"memory: {memory_of(pid) - before:.1f} MiB above one subscription")
    used = processor_of(pid)
    await asyncio.sleep(PEACE)
    print(f"processor in peace: {(processor_of(pid) - used) / PEACE:.2%} of a core")
    for enabled in (False, True):
        await asyncio.to_thread(toggle, server, "look", enabled)
        began = time.monotonic()
        await asyncio.gather(*(message_of(reader) for reader, _ in opened))
        print(f"all told {time.monotonic() - began:.2f} s after the switch had been made")
    for _, writer in opened:
        writer.close()


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    )
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder, "site.sqlite3")
        env = {**test_end_of_servers.environment(database), "SERVED_SUBSCRIPTIONS": "5000"}
        subprocess.run(
            [sys.executable, "-m", "django", "migrate", "-v0"], cwd=ROOT, env=env, check=True
        )
        command = [part.format(port=8765) for part in SERVERS["uvicorn"]]
        command += ["--log-level", "warning"]
        process = subprocess.Popen([sys.executable, "-m", *command], cwd=ROOT, env=env)
        try:
            time.sleep(4)
            asyncio.run(measure(Server(process, 8765, database), number))
        finally:
            process.terminate()
            process.wait(30)


if __name__ == "__main__":
    main()
