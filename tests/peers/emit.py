"""Run the application under one peer: ``python emit.py ATTACH``, in an environment that has it."""

import importlib
import sys

# First: LangSmith reads its variables when langchain-core is imported.
attached = importlib.import_module(f"attach.{sys.argv[1]}")
application = importlib.import_module("application")
handler = getattr(attached, "handler", None)
application.run([handler] if handler else [])
