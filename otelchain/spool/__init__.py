"""The spool: batches of spans wait on disk while no collector takes them.

An SDK holds a batch for about 7 seconds and 2,048 spans in all; an outage of the collector that
lasts longer loses spans. With ``configure(spool=DIRECTORY)`` they are written to files instead and
sent, oldest first, when the collector is back: by this process, or by the next one that uses the
directory. What was decided, and why:

* **The disk is used in an outage only.** While the collector answers, a batch goes straight to the
  OTLP exporter. The batch processor's thread waits one second for it at most; the exporter's own
  retries (10 seconds by default) would let the processor's queue overflow. After that second, and
  for as long as batches wait, a batch costs one encoding and one file.
* **One thread sends**, in order: the batch at hand or the oldest file. Batches that come while
  others wait go behind them.
* **A file is what OTLP sends**, one serialised ``ExportTraceServiceRequest``, so it can also be
  posted by hand. Spans of otelchain have passed the redactor before they were spans; spans of other
  instrumentations are written as these made them. Files have mode 0600, their directory 0700.
* **Replay goes through the same exporter** (its endpoint, headers, TLS, compression), by its public
  ``export``: the spans are built again from the file. Neither exporter has a public door for bytes,
  and the private ones differ between releases.
* **A file is deleted when the collector has acknowledged it.** A process that dies in between, or
  an answer that is lost, leads to a second sending. The otelchain collector stores a span once all
  the same; another backend may not.
* **Each process has a directory of its own** below the spool's, held by a file lock. The kernel
  drops the lock when the process dies, however it dies; whoever gets the lock then sends what is
  left. So no batch is sent by two, and none is orphaned. This needs a local file system.
* **When the spool is full the oldest batch goes**, as in the SDK's own queue: in an outage it is
  the present that people look at, and a batch that no collector takes cannot keep the others out.
  The limit is for each process.
* **A batch that is refused while others are accepted** is set aside with the suffix ``.refused``,
  as ``.corrupt`` is one that cannot be read. Both count towards the limit.
* **A disk that takes nothing** (full, read-only) leaves what there is without a spool.
"""
