"""The version of all three packages, which are one distribution."""

__version__ = "0.1.0"
