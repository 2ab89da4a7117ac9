"""``otelchain doctor``: what usually goes wrong between an application and its collector."""
