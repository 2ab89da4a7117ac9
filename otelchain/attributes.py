"""Every attribute name that is set on a span, with the document it comes from.

Three families, and no name is spelled anywhere else:

- ``gen_ai.*``, ``error.type``, ``exception.*``, ``user.id``: OpenTelemetry semantic conventions
  (the GenAI ones live in open-telemetry/semantic-conventions-genai; newest spellings are written).
- ``langgraph.*``: what LangGraph puts into a run's metadata, under its own names.
- ``otelchain.*``: what LangChain knows and no convention names.
"""

from typing import Final

# --- OpenTelemetry GenAI: docs/gen-ai/gen-ai-spans.md ---------------------------------------
GEN_AI_OPERATION_NAME: Final = "gen_ai.operation.name"
GEN_AI_PROVIDER_NAME: Final = "gen_ai.provider.name"
GEN_AI_CONVERSATION_ID: Final = "gen_ai.conversation.id"
GEN_AI_REQUEST_MODEL: Final = "gen_ai.request.model"
GEN_AI_REQUEST_TEMPERATURE: Final = "gen_ai.request.temperature"
GEN_AI_REQUEST_TOP_P: Final = "gen_ai.request.top_p"
GEN_AI_REQUEST_TOP_K: Final = "gen_ai.request.top_k"
GEN_AI_REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
GEN_AI_REQUEST_SEED: Final = "gen_ai.request.seed"
GEN_AI_REQUEST_FREQUENCY_PENALTY: Final = "gen_ai.request.frequency_penalty"
GEN_AI_REQUEST_PRESENCE_PENALTY: Final = "gen_ai.request.presence_penalty"
GEN_AI_REQUEST_CHOICE_COUNT: Final = "gen_ai.request.choice.count"
GEN_AI_REQUEST_STREAM: Final = "gen_ai.request.stream"
GEN_AI_REQUEST_REASONING_LEVEL: Final = "gen_ai.request.reasoning.level"
GEN_AI_REQUEST_PREVIOUS_RESPONSE_ID: Final = "gen_ai.request.previous_response.id"
GEN_AI_REQUEST_ENCODING_FORMATS: Final = "gen_ai.request.encoding_formats"
GEN_AI_OUTPUT_TYPE: Final = "gen_ai.output.type"  # text, json, image, speech
GEN_AI_REQUEST_STOP_SEQUENCES: Final = "gen_ai.request.stop_sequences"  # content: redacted
GEN_AI_RESPONSE_ID: Final = "gen_ai.response.id"
GEN_AI_RESPONSE_MODEL: Final = "gen_ai.response.model"
GEN_AI_RESPONSE_FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"  # seconds
GEN_AI_USAGE_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"  # cached tokens included
GEN_AI_USAGE_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
GEN_AI_USAGE_CACHE_READ: Final = "gen_ai.usage.cache_read.input_tokens"
GEN_AI_USAGE_CACHE_WRITE: Final = "gen_ai.usage.cache_write.input_tokens"
GEN_AI_USAGE_REASONING: Final = "gen_ai.usage.reasoning.output_tokens"
GEN_AI_USAGE_AUDIO_INPUT: Final = "gen_ai.usage.audio.input_tokens"
GEN_AI_USAGE_AUDIO_OUTPUT: Final = "gen_ai.usage.audio.output_tokens"
GEN_AI_USAGE_IMAGE_INPUT: Final = "gen_ai.usage.image.input_tokens"
GEN_AI_USAGE_IMAGE_OUTPUT: Final = "gen_ai.usage.image.output_tokens"
GEN_AI_USAGE_TEXT_INPUT: Final = "gen_ai.usage.text.input_tokens"
GEN_AI_USAGE_TEXT_OUTPUT: Final = "gen_ai.usage.text.output_tokens"
GEN_AI_EMBEDDINGS_DIMENSION_COUNT: Final = "gen_ai.embeddings.dimension.count"
GEN_AI_INPUT_MESSAGES: Final = "gen_ai.input.messages"  # content, JSON text
GEN_AI_OUTPUT_MESSAGES: Final = "gen_ai.output.messages"  # content, JSON text
GEN_AI_TOOL_DEFINITIONS: Final = "gen_ai.tool.definitions"  # content, JSON text
GEN_AI_TOOL_NAME: Final = "gen_ai.tool.name"
GEN_AI_TOOL_TYPE: Final = "gen_ai.tool.type"
GEN_AI_TOOL_DESCRIPTION: Final = "gen_ai.tool.description"  # content
GEN_AI_TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
GEN_AI_TOOL_CALL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"  # content, JSON text
GEN_AI_TOOL_CALL_RESULT: Final = "gen_ai.tool.call.result"  # content, JSON text
GEN_AI_RETRIEVAL_QUERY_TEXT: Final = "gen_ai.retrieval.query.text"  # content
GEN_AI_RETRIEVAL_DOCUMENTS: Final = "gen_ai.retrieval.documents"  # JSON text
GEN_AI_RETRIEVAL_TOP_K: Final = "gen_ai.retrieval.top_k"
GEN_AI_DATA_SOURCE_ID: Final = "gen_ai.data_source.id"
GEN_AI_PROMPT_NAME: Final = "gen_ai.prompt.name"
GEN_AI_PROMPT_VERSION: Final = "gen_ai.prompt.version"
GEN_AI_AGENT_NAME: Final = "gen_ai.agent.name"
GEN_AI_WORKFLOW_NAME: Final = "gen_ai.workflow.name"

# --- OpenTelemetry general: error, exception and user attributes ------------------------------
ERROR_TYPE: Final = "error.type"
EXCEPTION_EVENT: Final = "exception"
EXCEPTION_TYPE: Final = "exception.type"
EXCEPTION_MESSAGE: Final = "exception.message"  # content
EXCEPTION_STACKTRACE: Final = "exception.stacktrace"  # content
USER_ID: Final = "user.id"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"

# --- LangGraph: langgraph/pregel/_algo.py (run metadata) ---------------------------------------
LANGGRAPH_NODE: Final = "langgraph.node"
LANGGRAPH_STEP: Final = "langgraph.step"
LANGGRAPH_PATH: Final = "langgraph.path"  # JSON text
LANGGRAPH_TRIGGERS: Final = "langgraph.triggers"  # string[]
LANGGRAPH_CHECKPOINT_NS: Final = "langgraph.checkpoint_ns"
LANGGRAPH_CHECKPOINT_ID: Final = "langgraph.checkpoint_id"
LANGGRAPH_THREAD_ID: Final = "langgraph.thread_id"  # of a top-level graph run

# --- otelchain -----------------------------------------------------------------------------------
RUN_ID: Final = "otelchain.run.id"
RUN_PARENT_ID: Final = "otelchain.run.parent_id"
RUN_TYPE: Final = "otelchain.run.type"  # chain, llm, chat_model, tool, retriever, prompt, parser
RUN_NAME: Final = "otelchain.run.name"
RUN_STATUS: Final = "otelchain.run.status"  # otelchain.facts.Status
RUN_END_REASON: Final = "otelchain.run.end_reason"  # why a run was ended that never reported an end
RUN_PARENT_UNKNOWN: Final = "otelchain.run.parent_unknown"  # parent run id was never seen started
TAGS: Final = "otelchain.tags"  # string[], redacted
METADATA: Final = "otelchain.metadata"  # JSON text, redacted
INPUT: Final = "otelchain.input"  # content, JSON text
OUTPUT: Final = "otelchain.output"  # content, JSON text
INPUT_KIND: Final = "otelchain.input.kind"  # type name of the input: dict, Command, NoneType, …
TRUNCATED_SUFFIX: Final = ".truncated"  # true beside a content attribute that was cut
# Beside a list or object that was cut; a text that was cut says both where it was cut.
ORIGINAL_BYTES_SUFFIX: Final = ".original_bytes"  # of the whole as JSON, before redaction
ORIGINAL_SHA256_SUFFIX: Final = ".original_sha256"  # of the same bytes
REFERENCE_SUFFIX: Final = ".reference"  # where the whole is kept, redacted; otelchain.payload_store
ESTIMATED_BYTES_SUFFIX: Final = ".estimated_bytes"  # where writing it whole would take too long
RETRY_ATTEMPT: Final = (
    "otelchain.retry.attempt"  # 2 = second try; from the tag retry:attempt:N, or a graph's task
)
FALLBACK_USED: Final = "otelchain.fallback.used"  # bool, on runs of RunnableWithFallbacks
FALLBACK_INDEX: Final = "otelchain.fallback.index"  # of the alternative that answered, 0 = first
FALLBACK_NAME: Final = "otelchain.fallback.name"  # its name
# A compiled graph: langgraph/graph/state.py, StateGraph, and pregel/main.py, Pregel
GRAPH_NODES: Final = "otelchain.graph.nodes"  # string[], the first 128
GRAPH_NODE_COUNT: Final = "otelchain.graph.node_count"
GRAPH_EDGES: Final = "otelchain.graph.edges"  # JSON text: [source, target, kind], the first 256
GRAPH_EDGE_COUNT: Final = "otelchain.graph.edge_count"
GRAPH_SHA256: Final = "otelchain.graph.sha256"  # of all names and edges, redacted
# What a node, tool or branch returned: langgraph/types.py, Command and Send
COMMAND_GOTO: Final = "otelchain.command.goto"  # string[], node names
COMMAND_GRAPH: Final = "otelchain.command.graph"  # __parent__
DOCUMENT_COUNT: Final = "otelchain.retrieval.document_count"
RETRIEVAL_SEARCH_TYPE: Final = "otelchain.retrieval.search_type"  # similarity, mmr, …
EMBEDDINGS_INPUT_COUNT: Final = "otelchain.embeddings.input_count"
RERANK_INPUT_DOCUMENTS: Final = "otelchain.rerank.input_documents"  # JSON text, no texts in it
RERANK_INPUT_COUNT: Final = "otelchain.rerank.input_count"
RERANK_TOP_N: Final = "otelchain.rerank.top_n"
COST_INPUT_USD: Final = "otelchain.cost.input_usd"
COST_OUTPUT_USD: Final = "otelchain.cost.output_usd"
COST_TOTAL_USD: Final = "otelchain.cost.total_usd"
PROMPT_TEMPLATE: Final = (
    "otelchain.prompt.template"  # content, JSON text; the variables are the input
)
INTERRUPT_IDS: Final = "otelchain.interrupt.ids"  # string[]
INTERRUPT_VALUE: Final = "otelchain.interrupt.value"  # content, JSON text
INTERRUPT_KIND: Final = "otelchain.interrupt.kind"  # pending, interrupt_before, interrupt_after
INTERRUPT_CHECKPOINT_ID: Final = "otelchain.interrupt.checkpoint_id"
INTERRUPT_CHECKPOINT_NS: Final = "otelchain.interrupt.checkpoint_ns"
RESUMED: Final = "otelchain.run.resumed"  # true on the root run that a Command or None resumed
RESUME_CHECKPOINT_ID: Final = "otelchain.resume.checkpoint_id"
RESUME_CHECKPOINT_NS: Final = "otelchain.resume.checkpoint_ns"
LINK_KIND: Final = "otelchain.link.kind"  # on a span link; see INTERRUPTED_RUN
INTERRUPTED_RUN: Final = "interrupted_run"  # value of LINK_KIND: the run that this one resumes
EVENT_DATA: Final = "otelchain.event.data"  # content, JSON text
REDACTION_RULE: Final = "otelchain.redaction.rule"  # of a metric's point
RETRY_EVENT: Final = "otelchain.retry"
TEXT_EVENT: Final = "otelchain.text"
AGENT_ACTION_EVENT: Final = "otelchain.agent.action"
AGENT_FINISH_EVENT: Final = "otelchain.agent.finish"
# deepagents' RubricMiddleware: deepagents/middleware/rubric.py, RubricEvaluation and RubricState
RUBRIC_GRADING_RUN_ID: Final = "otelchain.rubric.grading_run_id"
RUBRIC_ITERATION: Final = "otelchain.rubric.iteration"  # from 0
RUBRIC_RESULT: Final = "otelchain.rubric.result"  # the grader's word: satisfied, needs_revision, …
RUBRIC_STATUS: Final = "otelchain.rubric.status"  # the loop's word after this evaluation
RUBRIC_UNVERIFIED: Final = "otelchain.rubric.unverified"  # bool
RUBRIC_CRITERIA_TOTAL: Final = "otelchain.rubric.criteria_total"
RUBRIC_CRITERIA_PASSED: Final = "otelchain.rubric.criteria_passed"
RUBRIC_SHA256: Final = "otelchain.rubric.sha256"  # of the rubric's text, on before_agent
RUBRIC_CRITERIA: Final = "otelchain.rubric.criteria"  # content, JSON text: name, passed, gap
RUBRIC_EXPLANATION: Final = "otelchain.rubric.explanation"  # content
