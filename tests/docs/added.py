"""What guides build, registered as their line would: a plugin of pytest, or imported.

In processes of its own: registries are changed. The code is the page's own.
"""

import importlib
import sys
import types

from tests.docs.pages import PAGES, blocks, built, kind_of, name_of
from tests.proofs import SHOWN


def register(name):
    """Make the module from the page, and put its record into the registry."""
    kind, module = kind_of(PAGES[name]), types.ModuleType(name_of(name))
    sys.modules[module.__name__] = module
    code = compile(built(PAGES[name]), f"docs/guides/{PAGES[name]}", "exec")
    exec(code, module.__dict__)
    registry = getattr(importlib.import_module(f"dpmcmc.{kind}s"), f"{kind.upper()}S")
    registry[name] = getattr(module, kind.upper())
    (SHOWN[name],) = blocks(PAGES[name], "markdown")


for added in PAGES:
    register(added)
