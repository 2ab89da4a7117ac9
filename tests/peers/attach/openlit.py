import os

import openlit

os.environ.setdefault("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")
openlit.init(service_name="my-app", disable_metrics=True, disable_events=True)
