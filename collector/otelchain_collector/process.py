"""Set up the process for what a collector does: many threads, connections, short-lived objects.

Figures: 160 requests of 512 spans over eight connections, on two cores (`bench_collector.py`).
"""

import ctypes
import gc
import os
import sys
import threading
from contextlib import suppress

import pyarrow as pa

_M_TRIM_THRESHOLD = -1  # malloc.h of glibc
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_MIB = 1024 * 1024
# Python's own is 5 ms, for which a thread that decodes keeps all others from going on: a question
# goes to DuckDB and back a dozen times, and had a median of 203 ms during load instead of 139; the
# slowest acknowledgements took 2.4 s instead of 1.3 on cores that seven others shared.
_SWITCH_SECONDS = 0.0002

# What macOS takes where it says that there is no limit (OPEN_MAX).
_MOST_OPEN_FILES = 10_240

# Of 19. With it a question during load, on a million spans, has a median of 65 ms instead of 117
# (on cores that others share); acknowledgements take as long as before.
_NICE = 5


def give_way() -> None:
    """Let others have the core before the calling thread: questions, and who is being traced."""
    if sys.platform == "linux":  # where a thread has a priority of its own
        thread = threading.get_native_id()
        # Relative: to go up again from what the process has would need a privilege.
        nice = os.getpriority(os.PRIO_PROCESS, thread) + _NICE
        os.setpriority(os.PRIO_PROCESS, thread, min(nice, 19))


def share_the_interpreter() -> None:
    """Let threads that wait for the interpreter have it sooner."""
    sys.setswitchinterval(_SWITCH_SECONDS)


def open_as_many_files_as_may_be() -> int | None:
    """Raise the limit of open descriptors, usually 1,024, to what the system allows; return it.

    None where there is no such limit (Windows), or no end to it.
    """
    if sys.platform == "win32":
        return None
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in (hard, _MOST_OPEN_FILES):
        if soft == resource.RLIM_INFINITY:
            break
        if limit == resource.RLIM_INFINITY or limit > soft:
            with suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
                soft = limit
    return None if soft == resource.RLIM_INFINITY else soft


def keep_memory_of_requests() -> None:
    """Let glibc keep up to 64 MiB of freed memory; elsewhere, do nothing.

    By default it gives the memory of each request back and takes it again page by page: decoding
    512 spans costs 24.7 µs of CPU a span that way, and 16.5 µs with this.
    """
    if not sys.platform.startswith("linux"):
        return
    # An allocator of its own would keep what it frees for itself: 528 MiB over gRPC, with this 497.
    pa.set_memory_pool(pa.system_memory_pool())
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 8 * _MIB)
        mallopt(_M_TRIM_THRESHOLD, 64 * _MIB)
        # Every thread would keep its own 64 MiB; with two areas the peak is 15 MiB lower.
        mallopt(_M_ARENA_MAX, 2)


def leave_out_of_collections() -> None:
    """Leave what is there now, which stays, out of every garbage collection.

    The modules are 100,000 objects, and looking through them all takes 24 ms, in which nothing else
    is done.
    """
    gc.collect()
    gc.freeze()
