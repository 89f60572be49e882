"""A browser for programs that open one, with the newsroom's editor: ``… browser.py ADDRESS``."""

from __future__ import annotations

import asyncio
import sys
import urllib.request

from testproject.demo.login import Browser

browser = Browser("editor", "demo")
asyncio.run(browser.visit(sys.argv[1]))
# The address at which the program waits for its user to come back.
urllib.request.urlopen(browser.url, timeout=30).close()
