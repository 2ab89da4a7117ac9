"""The redactor that a setting of handler or collector names: a preset, or a policy file."""

from pathlib import Path

from otelchain.redaction.hash_keys import KEY_VARIABLE, key_from_variable
from otelchain.redaction.policy_rule import one_of
from otelchain.redaction.presets import DEFAULT_PRESET, PRESETS
from otelchain.redaction.redactor import Redactor


def load(source: str) -> Redactor:
    """Make the redactor that a setting names.

    Args:
        source: The path of a policy file, the name of a preset, or nothing for the default.

    Raises:
        RedactionPolicyError: There is no such file or preset, or the policy cannot be used.
    """
    if not source:
        source = DEFAULT_PRESET
    if source in PRESETS:
        return load_preset(source)
    if not any(mark in source for mark in "/\\.") and not Path(source).exists():
        one_of("preset or file", source, PRESETS)
    return Redactor.from_file(source)


def load_preset(name: str) -> Redactor:
    """Make the redactor of a preset, with the key of the environment if there is one.

    Raises:
        RedactionPolicyError: There is no such preset.
    """
    return Redactor(preset=name, hash_key=key_from_variable(KEY_VARIABLE, ""))
