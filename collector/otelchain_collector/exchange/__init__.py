"""Stored data out to files and in from them; one module per format.

Everything that comes in becomes an OTLP request and takes the way that received ones take
(delivery.py); everything that goes out is read in pages from whoever has the file (pages.py).
"""
