"""The files of deploy/ against the code: what they run, where it listens, what they probe.

No container runtime is needed: the files are parsed, their command lines go through the collector's
own option parser, and their probes are run against a real collector.
"""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from otelchain.cli import cli
from otelchain.demo.sidecar import running_collector
from otelchain_collector.answering_process import Limits
from otelchain_collector.command import collector_command
from otelchain_collector.memory_limit import memory_plan
from otelchain_collector.settings import parse_bytes
from otelchain_collector.sql_processes import PROCESSES

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
DATA_FOLDER = "/data"


def parsed_collector_options(arguments: Sequence[str]) -> dict[str, Any]:
    """Parse as the command does, without running it; an unknown option raises."""
    return collector_command.make_context("collector", list(arguments)).params


def default(option: str) -> str:
    (found,) = [each for each in collector_command.params if each.name == option]
    return str(found.default)


def variables() -> set[str]:
    return {
        str(each.envvar)
        for each in collector_command.params
        if isinstance(each, click.Option) and each.envvar
    }


def dockerfile() -> list[tuple[str, str]]:
    """Instructions and their arguments; comments dropped, continued lines joined."""
    lines = (DEPLOY / "Dockerfile").read_text("utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    joined = re.sub(r"\s*\\\n\s*", " ", text)
    pairs = [line.strip().partition(" ") for line in joined.splitlines() if line.strip()]
    return [(instruction.upper(), arguments.strip()) for instruction, _, arguments in pairs]


def instruction(name: str) -> str:
    """Return the arguments of the instruction that occurs once in the last stage."""
    stages = dockerfile()
    last = max(index for index, (each, _) in enumerate(stages) if each == "FROM")
    (arguments,) = [arguments for each, arguments in stages[last:] if each == name]
    return arguments


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    return loaded


def stateful_set() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "kubernetes.yaml").read_text("utf-8"))
    return loaded


def pod() -> dict[str, Any]:
    spec: dict[str, Any] = stateful_set()["spec"]["template"]["spec"]
    return spec


def unit() -> dict[str, list[str]]:
    """Settings of the systemd unit by ``Section.Name``; a name may be given several times."""
    settings: dict[str, list[str]] = {}
    section = ""
    for line in (DEPLOY / "otelchain-collector.service").read_text("utf-8").splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            name, _, value = line.partition("=")
            settings.setdefault(f"{section}.{name}", []).append(value)
    return settings


def unit_command() -> list[str]:
    (command,) = unit()["Service.ExecStart"]
    return shlex.split(command)


COMMAND_LINES = {
    "Dockerfile": list,
    "compose.yaml": lambda: compose()["services"]["collector"]["command"],
    "kubernetes.yaml": lambda: pod()["initContainers"][0]["args"],
    "systemd": lambda: unit_command()[2:],
}
PROBES = {
    "Dockerfile": lambda: json.loads(instruction("HEALTHCHECK").partition("CMD ")[2]),
    "kubernetes startup": lambda: pod()["initContainers"][0]["startupProbe"]["exec"]["command"],
    "kubernetes liveness": lambda: pod()["initContainers"][0]["livenessProbe"]["exec"]["command"],
}


@pytest.mark.parametrize("file", COMMAND_LINES)
def test_the_collector_takes_its_options_and_listens_on_the_default_loopback_ports(
    file: str,
) -> None:
    options = parsed_collector_options(COMMAND_LINES[file]())

    assert options["grpc"] == default("grpc") == "127.0.0.1:4317"
    assert options["http"] == default("http") == "127.0.0.1:4318"
    assert not options["allow_remote"]


@pytest.mark.parametrize("file", ["Dockerfile", "systemd"])
def test_what_is_started_is_the_collector_command(file: str) -> None:
    started = json.loads(instruction("ENTRYPOINT")) if file == "Dockerfile" else unit_command()[:2]

    assert Path(started[0]).name == "otelchain"
    assert cli.get_command(click.Context(cli), started[1]) is collector_command


@pytest.mark.parametrize("probe", PROBES)
def test_a_probe_passes_for_a_running_collector_and_fails_without_one(
    probe: str, tmp_path: Path
) -> None:
    interpreter, *arguments = PROBES[probe]()
    assert interpreter == "python"
    assert "4318" in arguments[-1]

    with running_collector(tmp_path / "traces.duckdb") as endpoint:
        port = endpoint.rpartition(":")[2]
        command = [sys.executable, *(each.replace("4318", port) for each in arguments)]
        running = subprocess.run(command, capture_output=True, check=False)
    stopped = subprocess.run(command, capture_output=True, check=False)

    assert running.returncode == 0, running.stderr
    assert stopped.returncode == 1


def test_the_image_copies_only_what_exists_and_is_not_ignored() -> None:
    allowed = {
        line.removeprefix("!")
        for line in (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
        if line.startswith("!")
    }
    copied = [
        source
        for name, arguments in dockerfile()
        if name == "COPY" and not arguments.startswith("--from")
        for source in arguments.split()[:-1]
    ]

    assert set(copied) == allowed
    assert all((ROOT / source).exists() for source in copied)


def test_the_image_installs_the_collector_extra_with_pinned_versions() -> None:
    (install,) = [text for name, text in dockerfile() if name == "RUN" and "pip install" in text]

    assert (
        "--constraint constraints.txt --build-constraint constraints.txt '.[collector]'" in install
    )


def test_the_image_runs_as_a_numeric_user_that_is_not_root() -> None:
    user, _, group = instruction("USER").partition(":")

    assert int(user) > 0
    assert int(group) > 0


def test_the_image_keeps_its_database_on_the_volume() -> None:
    environment = dict(shlex.split(instruction("ENV"))[i].split("=", 1) for i in range(4))

    assert instruction("VOLUME") == DATA_FOLDER
    assert Path(environment["OTELCHAIN_DATABASE"]).parent == Path(DATA_FOLDER)
    assert {name for name in environment if name.startswith("OTELCHAIN_")} <= variables()


def test_the_image_names_its_ports_and_the_signal_that_ends_it() -> None:
    assert instruction("EXPOSE").split() == ["4317", "4318"]
    assert instruction("STOPSIGNAL") == "SIGTERM"


def test_the_images_python_is_one_that_the_package_supports() -> None:
    (argument,) = [text for name, text in dockerfile() if name == "ARG"]
    version = argument.removeprefix("PYTHON_VERSION=")

    declared = (ROOT / "pyproject.toml").read_text("utf-8")
    assert f'"Programming Language :: Python :: {version}"' in declared


def test_compose_builds_the_image_and_mounts_a_declared_volume() -> None:
    collector = compose()["services"]["collector"]

    context = (DEPLOY / collector["build"]["context"]).resolve()
    assert context == ROOT
    assert (context / collector["build"]["dockerfile"]).is_file()
    (mount,) = collector["volumes"]
    volume, _, folder = mount.partition(":")
    assert volume in compose()["volumes"]
    assert folder == DATA_FOLDER


def test_compose_lets_only_the_application_reach_the_collector() -> None:
    services = compose()["services"]

    assert services["app"]["network_mode"] == "service:network"
    assert services["collector"]["network_mode"] == "service:network"
    published = [port for each in services.values() for port in each.get("ports", [])]
    assert not [port for port in published if "4317" in port or "4318" in port]


def test_compose_waits_for_the_collector_before_it_starts_the_application() -> None:
    waits_for = compose()["services"]["app"]["depends_on"]

    assert waits_for == {"collector": {"condition": "service_healthy"}}


def application_environment(file: str) -> dict[str, str]:
    if file == "compose.yaml":
        environment: dict[str, str] = compose()["services"]["app"]["environment"]
        return environment
    return {each["name"]: each["value"] for each in pod()["containers"][0]["env"]}


@pytest.mark.parametrize("file", ["compose.yaml", "kubernetes.yaml"])
def test_the_application_sends_to_the_collectors_http_address(file: str) -> None:
    environment = application_environment(file)

    assert environment["OTEL_EXPORTER_OTLP_ENDPOINT"] == f"http://{default('http')}"
    assert environment["OTEL_SERVICE_NAME"]


def test_the_kubernetes_collector_is_a_sidecar_without_a_say_in_readiness() -> None:
    (collector,) = pod()["initContainers"]

    assert collector["restartPolicy"] == "Always"
    assert "readinessProbe" not in collector


def test_the_kubernetes_collector_is_confined_and_runs_as_the_images_user() -> None:
    context = pod()["initContainers"][0]["securityContext"]

    user, _, group = instruction("USER").partition(":")
    assert (context["runAsUser"], context["runAsGroup"]) == (int(user), int(group))
    assert pod()["securityContext"]["fsGroup"] == int(group)
    assert context["runAsNonRoot"]
    assert context["readOnlyRootFilesystem"]
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}


def test_every_kubernetes_mount_has_its_volume_and_holds_the_database() -> None:
    (collector,) = pod()["initContainers"]
    mounts = {each["name"]: each["mountPath"] for each in collector["volumeMounts"]}
    claims = [each["metadata"]["name"] for each in stateful_set()["spec"]["volumeClaimTemplates"]]

    assert set(mounts) == {*claims, *(each["name"] for each in pod()["volumes"])}
    environment = {each["name"]: each["value"] for each in collector["env"]}
    assert set(environment) <= variables()
    assert Path(environment["OTELCHAIN_DATABASE"]).parent == Path(mounts["traces"])


def test_the_kubernetes_labels_select_the_pod() -> None:
    spec = stateful_set()["spec"]

    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]


def test_the_systemd_unit_keeps_its_database_in_its_own_folder() -> None:
    (folder,) = unit()["Service.StateDirectory"]

    database = parsed_collector_options(unit_command()[2:])["database"]
    assert Path(database).parent == Path("/var/lib") / folder
    assert unit()["Service.DynamicUser"] == ["yes"]
    assert unit()["Service.ProtectSystem"] == ["strict"]


def test_the_systemd_unit_does_not_restart_what_a_restart_cannot_cure() -> None:
    assert unit()["Service.Restart"] == ["on-failure"]
    # The exit code of a taken port, a locked file or a newer schema.
    assert unit()["Service.RestartPreventExitStatus"] == ["2"]


@pytest.mark.parametrize("grace_seconds", ["compose", "kubernetes", "systemd"])
def test_the_collector_has_longer_to_stop_than_an_exporter_waits(grace_seconds: str) -> None:
    # An OpenTelemetry SDK gives an export ten seconds (OTEL_EXPORTER_OTLP_TIMEOUT).
    given = {
        "compose": compose()["services"]["collector"]["stop_grace_period"].removesuffix("s"),
        "kubernetes": pod()["terminationGracePeriodSeconds"],
        "systemd": unit()["Service.TimeoutStopSec"][0],
    }

    assert int(given[grace_seconds]) > 10


def test_no_file_holds_a_secret() -> None:
    for path in DEPLOY.iterdir():
        assert not re.search(
            r"(?i)(password|secret|token|api_?key)\s*[=:]", path.read_text("utf-8")
        )


def test_the_readme_explains_every_file() -> None:
    readme = (DEPLOY / "README.md").read_text("utf-8")

    for path in DEPLOY.iterdir():
        assert path.name == "README.md" or f"`{path.name}`" in readme


def test_the_command_for_several_machines_takes_its_options_and_needs_a_token() -> None:
    readme = (DEPLOY / "README.md").read_text("utf-8")
    (command,) = re.findall(r"docker run (?:.*\\\n)*.*", readme)
    arguments = shlex.split(command.replace("\\\n", " "))

    options = parsed_collector_options(arguments[arguments.index("otelchain-collector") + 1 :])

    assert not options["allow_remote"]
    assert options["token_file"] is not None
    assert options["tls_certificate"] is not None
    assert options["tls_key"] is not None
    assert options["allow_hosts"]


def test_the_systemd_units_lines_for_other_machines_name_the_collectors_variables() -> None:
    text = (DEPLOY / "otelchain-collector.service").read_text("utf-8")
    (environment,) = re.findall(r"^#Environment=(.*)$", text, re.MULTILINE)
    credentials = re.findall(r"^#LoadCredential=([^:]+):", text, re.MULTILINE)

    pairs = [each.split("=", 1) for each in environment.split()]
    assert {name for name, _ in pairs} <= variables()
    assert [path.removeprefix("%d/") for _, path in pairs] == credentials


@pytest.mark.parametrize("file", ["compose.yaml", "kubernetes.yaml"])
def test_duckdb_the_queue_and_questions_fit_into_the_containers_memory(
    file: str, tmp_path: Path
) -> None:
    given = {
        "compose.yaml": compose()["services"]["collector"]["mem_limit"].replace("m", "MiB"),
        "kubernetes.yaml": pod()["initContainers"][0]["resources"]["limits"]["memory"] + "B",
    }
    limit_bytes = parse_bytes(given[file])

    group = tmp_path / "sys/fs/cgroup"
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    group.mkdir(parents=True)
    (group / "memory.max").write_text(f"{limit_bytes}\n")

    plan = memory_plan(None, None, 64 * 1024**2, tmp_path)

    # What it takes by itself, DuckDB, the rows of a full queue, and the processes that answer SQL.
    questions_bytes = PROCESSES * Limits.of(plan.duckdb.limit_bytes).data_bytes
    needed_bytes = 200 * 1024**2 + plan.duckdb.limit_bytes + 3 * plan.queue.limit_bytes
    assert needed_bytes + questions_bytes <= limit_bytes
