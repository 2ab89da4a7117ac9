"""Keys and tokens that say themselves who issued them.

Sources: the issuers' documentation of their prefixes (GitHub "token formats", GitLab "token
prefixes", Slack "token types", Stripe "API keys", AWS IAM "unique identifiers", …) and, where
an issuer documents none, the shape of its keys in the public rule sets of secret scanners.
"""

from __future__ import annotations

from otelchain.redaction.checksums import has_random_run, looks_generated
from otelchain.redaction.rules import Find, Rule, checked, last_group, whole

_TOKEN = r"[A-Za-z0-9_\-]"  # noqa: S105 (a character class)
_ALNUM = "[A-Za-z0-9]"


def _key(name: str, pattern: str, find: Find = whole, first: str = "") -> Rule:
    return Rule(name, "api_key", pattern, find, first)


def _is_mixed(value: str) -> bool:
    return looks_generated(value) and value.lower() != value != value.upper()


PROVIDER_KEY_RULES: tuple[Rule, ...] = (
    # Model providers
    _key("anthropic_key", rf"\bsk-ant-{_TOKEN}{{20,}}"),
    _key("openrouter_key", r"\bsk-or-(?:v[0-9]-)?[0-9a-f]{32,}"),
    _key("langfuse_key", r"\bsk-lf-[0-9a-f\-]{32,}"),
    _key("openai_key", rf"\bsk-(?:proj|svcacct|admin|None)-{_TOKEN}{{20,}}"),
    # OpenAI before 2024, DeepSeek, Moonshot, DashScope and others that took the prefix over
    _key("sk_key", rf"\bsk-{_ALNUM}{_TOKEN}{{18,}}", checked(has_random_run)),
    _key("google_key", rf"\bAIza{_TOKEN}{{35}}"),
    _key("google_oauth_token", rf"\bya29\.{_TOKEN}{{20,}}"),
    _key("google_oauth_secret", rf"\bGOCSPX-{_TOKEN}{{20,}}"),
    _key("huggingface_token", rf"\b(?:hf|api_org)_{_ALNUM}{{30,}}"),
    _key("groq_key", rf"\bgsk_{_ALNUM}{{32,}}"),
    _key("xai_key", rf"\bxai-{_ALNUM}{{60,}}"),
    _key("replicate_token", rf"\br8_{_ALNUM}{{30,}}"),
    _key("perplexity_key", rf"\bpplx-{_ALNUM}{{32,}}"),
    _key("fireworks_key", rf"\bfw_{_ALNUM}{{20,}}", checked(has_random_run)),
    _key("nvidia_key", rf"\bnvapi-{_TOKEN}{{40,}}"),
    _key("cerebras_key", r"\bcsk-[a-z0-9]{40,}"),
    _key("tavily_key", rf"\btvly-(?:dev-|prod-)?{_ALNUM}{{20,}}"),
    _key("pinecone_key", rf"\bpcsk_{_ALNUM}+_{_ALNUM}{{40,}}"),
    _key("jina_key", rf"\bjina_{_TOKEN}{{40,}}"),
    _key("voyage_key", rf"\bpa-{_TOKEN}{{40,}}", checked(has_random_run)),
    _key("together_key", rf"\btgp_v1_{_TOKEN}{{30,}}"),
    _key("llamacloud_key", rf"\bllx-{_ALNUM}{{40,}}"),
    _key("runpod_key", r"\brpa_[A-Z0-9]{36,}"),
    _key("e2b_key", r"\be2b_[0-9a-f]{40}\b"),
    _key("mem0_key", rf"\bm0-{_ALNUM}{{36,}}"),
    _key("modal_token", rf"\ba[ks]-{_ALNUM}{{22}}\b", checked(has_random_run)),
    _key("helicone_key", rf"\bsk-helicone-{_TOKEN}{{20,}}"),
    _key("browserbase_key", rf"\bbb_live_{_TOKEN}{{20,}}"),
    _key("firecrawl_key", r"\bfc-[0-9a-f]{32}\b"),
    _key("elevenlabs_key", r"\bsk_[0-9a-f]{48}\b"),
    # Tracing and evaluation
    _key("langsmith_key", r"\b(?:lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}|ls__[0-9a-f]{32})"),
    _key("wandb_key", rf"\bwandb_v1_{_TOKEN}{{40,}}"),
    _key("sentry_token", r"\bsntry[su]_[A-Za-z0-9+/=_]{40,}"),
    _key("grafana_token", r"\bgl(?:c_[A-Za-z0-9+/]{32,}={0,2}|sa_[A-Za-z0-9]{32}_[0-9a-f]{8})"),
    _key("posthog_key", rf"\bph[cx]_{_ALNUM}{{40,}}"),
    _key("dynatrace_token", r"\bdt0[a-z][0-9]{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    _key("newrelic_key", r"\bNR(?:AK|II|RA|JS)-[A-Za-z0-9\-]{19,}"),
    # Clouds
    _key("aws_access_key_id", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    _key(
        "aws_secret_key",
        # a secret has no prefix: 40 Base64 characters close behind the id it belongs to
        r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b[^A-Za-z0-9+/](?s:.{0,60}?)\b([A-Za-z0-9+/]{40})\b",
        last_group,
        r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    ),
    _key("aws_bedrock_key", r"\b(?:ABSK|bedrock-api-key-)[A-Za-z0-9+/]{60,}={0,2}"),
    _key("digitalocean_token", r"\bdo[opr]_v1_[0-9a-f]{64}"),
    _key("azure_client_secret", r"\b[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.\-]{31,34}"),
    # Azure's keys since 2024 carry a mark at a fixed place: OpenAI, DevOps, Search, Functions
    _key("azure_key", rf"\b{_ALNUM}{{48,54}}JQQJ99{_ALNUM}{{20,}}"),
    _key("azure_key", rf"\b{_ALNUM}{{42}}AzSe{_ALNUM}{{6}}\b"),
    _key("azure_key", rf"\b{_TOKEN}{{44}}AzFu{_TOKEN}{{5}}[AQgw]=="),
    _key("azure_storage_key", r"\b[A-Za-z0-9+/]{86}=="),
    _key("alibaba_key_id", rf"\bLTAI{_ALNUM}{{12,}}\b", checked(has_random_run)),
    _key("tencent_secret_id", rf"\bAKID{_ALNUM}{{32}}\b"),
    _key("databricks_token", r"\bdapi[0-9a-f]{32}(?:-[0-9])?"),
    _key("cloudflare_key", r"\bv1\.0-[0-9a-f]{24}-[0-9a-f]{146}"),
    _key("openshift_token", rf"\bsha256~{_TOKEN}{{43}}"),
    _key("netlify_token", rf"\bnf[a-z]_{_ALNUM}{{36,}}"),
    _key(
        "vercel_token",
        rf"\bvc[piark]_{_ALNUM}{{24,}}|\bvercel_blob_rw_{_ALNUM}{{16,}}_{_ALNUM}{{20,}}",
    ),
    _key("neon_key", rf"\bnapi_{_ALNUM}{{60,}}"),
    _key("pulumi_token", r"\bpul-[0-9a-f]{40}"),
    _key("prefect_key", rf"\bpn[ub]_{_ALNUM}{{36}}"),
    _key("infracost_key", rf"\bico-{_ALNUM}{{32}}"),
    _key("tailscale_key", rf"\btskey-[a-z]+-{_ALNUM}+-{_ALNUM}{{20,}}"),
    _key("doppler_token", rf"\bdp\.(?:pt|st(?:\.[a-z0-9_\-]+)?|ct|sa|scim|audit)\.{_ALNUM}{{40,}}"),
    _key("okta_token", rf"\b00{_TOKEN}{{40}}\b", checked(_is_mixed)),
    _key(
        "onepassword_key",
        r"\bA3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}\b",
    ),
    _key("onepassword_token", r"\bops_eyJ[A-Za-z0-9+/]{200,}={0,3}"),
    _key("heroku_key", rf"\bHRKU-{_TOKEN}{{36,}}"),
    _key("fly_token", r"\bfm[12][a-z]?_[A-Za-z0-9+/]{60,}={0,3}"),
    _key("vault_token", rf"\bhv[sbr]\.{_TOKEN}{{24,}}"),
    _key("supabase_key", rf"\bsb(?:p_[0-9a-f]{{40}}|_secret_{_TOKEN}{{20,}})"),
    _key("planetscale_token", rf"\bpscale_(?:tkn|oauth|pw)_{_TOKEN}{{32,}}"),
    # Code and packages
    _key("github_token", rf"\bgh[pousr]_{_ALNUM}{{36,}}"),
    _key("github_token", r"\bgithub_pat_[A-Za-z0-9_]{40,}"),
    _key("gitlab_token", rf"\bgl(?:pat|ptt|dt|rt|cbt|soat|agent|oas|imt|ft|ffct)-{_TOKEN}{{20,}}"),
    _key("bitbucket_token", r"\bAT(?:ATT|CTT|BB)[A-Za-z0-9_\-=]{24,}", checked(has_random_run)),
    _key("npm_token", rf"\bnpm_{_ALNUM}{{36,}}"),
    _key("pypi_token", rf"\bpypi-{_TOKEN}{{50,}}"),
    _key("rubygems_key", r"\brubygems_[0-9a-f]{48}"),
    _key("docker_token", rf"\bdckr_(?:pat|oat)_{_TOKEN}{{20,}}"),
    _key("terraform_token", rf"\b{_ALNUM}{{14}}\.atlasv1\.{_TOKEN}{{60,}}"),
    _key("artifactory_key", rf"\b(?:AKCp{_ALNUM}{{69}}|cmVmd{_ALNUM}{{59}})\b"),
    _key("sonar_token", r"\bsq[pua]_[0-9a-f]{40}"),
    _key("sourcegraph_token", r"\bsgp_(?:[0-9a-fA-F]{16}_|local_)?[0-9a-f]{40}"),
    _key("buildkite_token", r"\bbk[a-z]{2}_[0-9a-f]{40}"),
    _key("circleci_token", rf"\bCCIPAT_{_ALNUM}{{22}}_[0-9a-f]{{40}}"),
    _key("harness_token", rf"\b[ps]at\.{_TOKEN}{{22}}\.[0-9a-f]{{24}}\.{_ALNUM}{{20}}"),
    _key("clojars_token", r"\bCLOJARS_[0-9a-z]{60}"),
    _key("octopus_key", r"\bAPI-[A-Z0-9]{26}\b", checked(has_random_run)),
    _key("readme_key", r"\brdme_[a-z0-9]{70}"),
    _key("postman_key", r"\bPMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    _key("linear_key", rf"\blin_(?:api|oauth)_{_ALNUM}{{32,}}"),
    _key("notion_token", rf"\b(?:ntn_{_ALNUM}{{40,}}|secret_{_ALNUM}{{43}}\b)"),
    _key("figma_token", rf"\bfig[a-z]{{1,3}}_{_TOKEN}{{36,}}"),
    _key("airtable_token", rf"\bpat{_ALNUM}{{14}}\.[0-9a-f]{{64}}"),
    _key("asana_token", r"\b[12]/[0-9]{10,20}(?:/[0-9]{10,20})?:[0-9a-f]{32}"),
    _key("clickup_token", r"\bpk_[0-9]{4,10}_[A-Z0-9]{32}"),
    _key("dropbox_token", rf"\bsl\.{_TOKEN}{{100,}}"),
    _key("typeform_token", r"\btfp_[A-Za-z0-9_.\-]{40,}"),
    _key("contentful_token", rf"\bCFPAT-{_TOKEN}{{43}}"),
    _key("adobe_secret", r"\bp8e-[A-Za-z0-9_\-]{32}"),
    # Messages and money
    _key("discord_token", rf"\b[MNO]{_TOKEN}{{23,27}}\.{_TOKEN}{{6}}\.{_TOKEN}{{27,38}}\b"),
    _key("mapbox_token", rf"\bsk\.eyJ{_TOKEN}{{20,}}\.{_TOKEN}{{20,}}"),
    _key("facebook_token", rf"\bEAA[A-Z]{_ALNUM}{{80,}}"),
    _key("hubspot_token", r"\bpat-[a-z]{2}[0-9]-[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"),
    _key("resend_key", rf"\bre_{_ALNUM}{{8}}_{_ALNUM}{{20,}}"),
    _key("brevo_key", rf"\bxkeysib-[0-9a-f]{{64}}-{_ALNUM}{{16}}"),
    _key("shippo_token", r"\bshippo_(?:live|test)_[0-9a-f]{40}"),
    _key("easypost_key", rf"\bEZ[AT]K{_ALNUM}{{54}}"),
    _key("duffel_token", rf"\bduffel_(?:live|test)_{_TOKEN}{{40,}}"),
    _key("flutterwave_key", r"\bFLWSECK(?:_TEST)?-[0-9a-zA-Z]{12,}-X"),
    _key(
        "plaid_token",
        r"\baccess-(?:sandbox|development|production)-[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}",
    ),
    _key("teams_webhook", r"webhook\.office\.com/webhookb2/([A-Za-z0-9@/\-]{40,})", last_group),
    _key("slack_token", r"\bxox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9\-]{10,}"),
    _key("slack_app_token", r"\bxapp-[0-9]-[A-Za-z0-9\-]{20,}"),
    _key(
        "slack_webhook",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_\-]{20,})",
        last_group,
    ),
    _key(
        "discord_webhook",
        r"discord(?:app)?\.com/api/webhooks/([0-9]+/[A-Za-z0-9_\-]{40,})",
        last_group,
    ),
    _key("telegram_token", rf"\b[0-9]{{8,10}}:AA{_TOKEN}{{33}}"),
    _key("stripe_key", rf"\b(?:sk|rk)_(?:live|test)_{_ALNUM}{{16,}}"),
    _key("stripe_webhook_secret", r"\bwhsec_[A-Za-z0-9+/=]{24,}"),
    _key("square_token", rf"\b(?:EAAA{_TOKEN}{{56,}}|sq0(?:atp|csp)-{_TOKEN}{{22,}})"),
    _key("shopify_token", r"\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    _key("twilio_key", r"\bSK[0-9a-f]{32}\b"),
    _key("sendgrid_key", rf"\bSG\.{_TOKEN}{{16,}}\.{_TOKEN}{{16,}}"),
    _key("mailgun_key", r"\bkey-[0-9a-f]{32}\b"),
    _key("mailchimp_key", r"\b[0-9a-f]{32}-us[0-9]{1,2}\b"),
    _key("age_key", r"\bAGE-SECRET-KEY-1[A-Z0-9]{58}"),
)
