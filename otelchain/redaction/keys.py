"""Names whose value is a secret, whoever chose the spelling.

A name is split into words (``openaiApiKey``, ``X-Api-Key``, ``OPENAI_API_KEY``), and the words
decide. Not secret, although they contain such a word:

- numbers about tokens: ``max_tokens``, ``token_count``, ``time_per_output_token``;
- tokens of a vocabulary: ``bos_token``, ``pad_token``, ``token_ids``;
- places in a list: ``next_page_token``, ``continuation_token`` (opaque, needed to debug paging,
  worthless without the credential);
- facts about a secret: ``token_type``, ``password_policy``, ``api_key_env``, ``secret_name``;
- ``session_id`` and ``key`` alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

IsSensitive = Callable[[str], bool]


def _listed(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _phrases(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(phrase.split()) for phrase in text.split(","))


# One of these words anywhere in the name.
_WORDS = _listed(
    "password passwords passwd passphrase passcode pwd secret secrets credential credentials creds "
    "authorization cookie cookies jwt otp cvv cvc cvv2 ssn apikey apikeys authtoken accesstoken "
    "refreshtoken sessiontoken privatekey secretkey accesskey accountkey sharedaccesskey "
    "clientsecret connectionstring"
)
# These words in this order.
_PHRASES = _phrases(
    "api key, api keys, access key, secret key, private key, signing key, encryption key, "
    "account key, master key, ssh key, auth key, session key, deploy key, license key, "
    "subscription key, connection string, social security, passport number, card number, "
    "card pin, db pass, database pass, user pass, smtp pass, mysql pass, redis pass, root pass, "
    "admin pass, access tokens, auth tokens, refresh tokens, api tokens, recovery codes, "
    "backup codes"
)
_WHOLE_NAMES = frozenset({"auth", "pass", "pin", "x auth"})
# Chinese and Japanese have no word boundaries: anywhere in the name.
_CJK = ("密码", "密碼", "口令", "密钥", "密鑰", "令牌", "パスワード", "身份证号")

_NOT_CREDENTIAL_TOKENS = _listed(
    "bos eos pad unk sep cls mask stop first last new per output input page next previous "
    "continuation pagination cursor special max min prompt completion start end single current "
    "sync total image"
)
_FACTS = _listed(
    "count counts type types limit limits length len size usage name names url uri endpoint "
    "expires expiry expiration expired ttl in at on policy required enabled disabled format method "
    "scheme version index budget price cost costs details rate env var arn ref reference consent "
    "strength ids status error errors position function handler class provider manager store "
    "backend callback module probability logprob logprobs"
)
_ID_KEEPS_SECRET = frozenset({"secret", "password"})  # Vault's secret_id is one

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+[0-9]*|[0-9]+|[^\x00-\x7f]+")


def words(name: str) -> tuple[str, ...]:
    """Split a name at separators and capitals.

    >>> words("X-Api-Key"), words("openaiAPIKey"), words("client.secret2")
    (('x', 'api', 'key'), ('openai', 'api', 'key'), ('client', 'secret2'))
    """
    return tuple(word.lower() for word in _WORD.findall(name))


def sensitive_names(extra: Iterable[str], *, default: bool = False) -> IsSensitive:
    """Make the test for names: the default list, the user's own names, or both.

    >>> is_sensitive = sensitive_names(["customer"], default=True)
    >>> [is_sensitive(name) for name in ("OPENAI_API_KEY", "customerName", "max_tokens")]
    [True, True, False]
    """
    own = [words(name) or (name.lower(),) for name in extra]

    @lru_cache(maxsize=4096)
    def is_sensitive(name: str) -> bool:
        parts = words(name)
        if any(_contains(parts, phrase) for phrase in own):
            return True
        return default and _is_secret(parts)

    return is_sensitive


def exact_names(names: Iterable[str]) -> IsSensitive:
    """Make the test for these names in any spelling, and no longer ones.

    >>> is_kept = exact_names(["session_token"])
    >>> is_kept("sessionToken"), is_kept("session_token_secret")
    (True, False)
    """
    known = {words(name) or (name.lower(),) for name in names}
    return lambda name: words(name) in known


# Some part of every name that the lists above call secret.
_STEMS = (
    "pass", "pwd", "secret", "cred", "auth", "cookie", "jwt", "otp", "cvv", "cvc", "ssn", "key",
    "pin", "connection", "social", "card", "recovery", "backup", *_CJK,
)  # fmt: skip


def names_pattern(own: Iterable[str]) -> str:
    r"""Return a pattern for JSON text in which some name may be sensitive; it errs on that side.

    Written out in JSON a name may hold anything around its words, and escapes: a name with an
    escaped letter (``\u0070assword``) counts as sensitive too.

    Args:
        own: Names that matter besides those of the default list.
    """
    firsts = [(words(name) or (name.lower(),))[0] for name in own]
    stems = "|".join(re.escape(stem) for stem in (*_STEMS, *firsts))
    text = r'(?:[^"\\]|\\.)*'
    # Not "input_tokens", which stands in the answer of every model.
    last_word = r'token(?:[^"\\A-Za-z]|\\.)*'
    tokens = r'(?:(?:access|refresh|session)token|(?:access|refresh|api)[^"A-Za-z]*tokens)'
    return rf'(?i)"{text}(?:(?:{stems}|\\u|{tokens}){text}|{last_word})"\s*:'


def _is_secret(parts: tuple[str, ...]) -> bool:
    if not parts or any(mark in part for part in parts for mark in _CJK):
        return bool(parts)
    if " ".join(parts) in _WHOLE_NAMES:
        return True
    return not _is_a_fact(parts) and (
        any(_is_secret_word(part) for part in parts)
        or any(_contains(parts, phrase) for phrase in _PHRASES)
        or _is_credential_token(parts)
    )


def _is_a_fact(parts: tuple[str, ...]) -> bool:
    if parts[-1] == "id":
        return len(parts) < 2 or parts[-2] not in _ID_KEEPS_SECRET
    return parts[-1] in _FACTS or parts[0] in ("has", "is", "needs", "requires")


def _is_secret_word(part: str) -> bool:
    stem = part.rstrip("0123456789")
    return part in _WORDS or stem in _WORDS or stem.endswith(("password", "passwd", "secret"))


def _is_credential_token(parts: tuple[str, ...]) -> bool:
    """``token`` comes last, and what is before it does not make it a piece of text."""
    if parts[-1] != "token":
        return False
    return not _NOT_CREDENTIAL_TOKENS.intersection(parts[:-1])


def _contains(parts: tuple[str, ...], phrase: tuple[str, ...]) -> bool:
    size = len(phrase)
    return any(parts[at : at + size] == phrase for at in range(len(parts) - size + 1))
