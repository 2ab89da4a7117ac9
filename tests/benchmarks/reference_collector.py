"""The collector with the plain decoder for every request, to compare with (bench_collector.py)."""

import sys

from otelchain_collector import decoding
from otelchain_collector.__main__ import main

if __name__ == "__main__":
    decoding._LEAST_BYTES_FOR_COLUMNS = sys.maxsize
    main()
