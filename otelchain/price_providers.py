"""What genai-prices calls the providers that it does not find by their name."""

from typing import Final

# gen_ai.provider.name → genai-prices' provider id.
PRICE_PROVIDERS: Final = {
    "aws.bedrock": "aws",
    "azure.ai.inference": "azure",
    "azure.ai.openai": "azure",
    "gcp.gemini": "google",
    "gcp.gen_ai": "google",
    "gcp.vertex_ai": "google",
    "mistral_ai": "mistral",
    "moonshot_ai": "moonshotai",
    "x_ai": "x-ai",
}
