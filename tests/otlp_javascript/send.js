// Send one span over each transport, one log record and one metric; print what an exporter says is
// wrong. Arguments: host:port of gRPC, host:port of HTTP.
const { diag, DiagLogLevel, SpanKind, SpanStatusCode } = require("@opentelemetry/api");
const { OTLPLogExporter } = require("@opentelemetry/exporter-logs-otlp-http");
const { OTLPMetricExporter } = require("@opentelemetry/exporter-metrics-otlp-http");
const grpc = require("@opentelemetry/exporter-trace-otlp-grpc");
const json = require("@opentelemetry/exporter-trace-otlp-http");
const proto = require("@opentelemetry/exporter-trace-otlp-proto");
const { LoggerProvider, SimpleLogRecordProcessor } = require("@opentelemetry/sdk-logs");
const { MeterProvider, PeriodicExportingMetricReader } = require("@opentelemetry/sdk-metrics");
const { SimpleSpanProcessor, TracerProvider } = require("@opentelemetry/sdk-trace");

const complain = (...what) => console.log("complaint:", ...what);
const quiet = () => {};
diag.setLogger(
  { error: complain, warn: complain, info: quiet, debug: quiet, verbose: quiet },
  DiagLogLevel.WARN,
);

async function trace(transport, exporter) {
  const provider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] });
  const span = provider.getTracer("javascript", "1.0").startSpan(`js ${transport}`, {
    kind: SpanKind.CLIENT,
    attributes: { text: "é😀", whole: 7, double: 1.5, yes: true, list: ["a", "b"] },
  });
  span.addEvent("tick", { of: "clock" });
  span.setStatus({ code: SpanStatusCode.ERROR, message: "no" });
  span.end();
  await provider.forceFlush();
  await provider.shutdown();
}

async function log(exporter) {
  const provider = new LoggerProvider({ processors: [new SimpleLogRecordProcessor({ exporter })] });
  provider.getLogger("javascript").emit({ body: { said: ["hello", 1] }, eventName: "js.event" });
  await provider.forceFlush();
  await provider.shutdown();
}

async function measure(exporter) {
  const reader = new PeriodicExportingMetricReader({ exporter });
  const provider = new MeterProvider({ readers: [reader] });
  provider.getMeter("javascript").createHistogram("js.duration").record(3);
  await provider.shutdown();
}

async function main([grpcAddress, httpAddress]) {
  const url = (signal) => `http://${httpAddress}/v1/${signal}`;
  await trace("grpc", new grpc.OTLPTraceExporter({ url: `http://${grpcAddress}` }));
  await trace("json", new json.OTLPTraceExporter({ url: url("traces") }));
  await trace("protobuf", new proto.OTLPTraceExporter({ url: url("traces"), compression: "gzip" }));
  await log(new OTLPLogExporter({ url: url("logs") }));
  await measure(new OTLPMetricExporter({ url: url("metrics") }));
}

main(process.argv.slice(2)).catch((error) => complain(error));
