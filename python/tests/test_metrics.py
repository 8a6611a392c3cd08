"""Metrics of `ncclscope serve`, read by those who will read them: Prometheus's own parsers, OpenTelemetry's
own message types, and promtool and Prometheus themselves if they are installed (`apt install prometheus`).
"""

from __future__ import annotations

import functools
import gzip
import json
import re
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from conftest import BIN, ROOT, job, run
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics_parser

EXAMPLES = ROOT / "examples" / "prometheus"
JOBS = ["ddp_late_host", "slow_link", "killed_228", "mix_228"]

# Both have no types.
openmetrics: Callable[[str], Any] = openmetrics_parser.text_string_to_metric_families
text_format: Callable[[str], Any] = parser.text_string_to_metric_families

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def serve(served: Callable[..., str]) -> Callable[..., str]:
    """Serves the metrics of a capture, and returns the address."""

    def serving(capture: Path, *arguments: str) -> str:
        address = served("serve", capture, "--listen", "127.0.0.1:0", *arguments)
        return address.removesuffix("/metrics")

    return serving


def fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


def series(families: Any) -> Series:
    """The value of each series by name and labels, without what changes from look to look."""
    values: Series = {}
    for family in families:
        for sample in family.samples:
            if sample.name != "ncclscope_serve_cpu_ratio":
                key = (sample.name, tuple(sorted(sample.labels.items())))
                assert key not in values, key
                values[key] = sample.value
    return values


@pytest.mark.parametrize("names", ["own", "inspector"])
@pytest.mark.parametrize("name", JOBS)
def test_openmetrics_and_text_have_the_same_series(
    name: str, names: str, serve: Callable[..., str], tmp_path: Path
) -> None:
    page = fetched(serve(job(name), "--names", names, "--span", "1h") + "/metrics")
    served = series(openmetrics(page))
    file = tmp_path / "job.prom"
    options = ["--names", names, "--span", "1h", "--textfile", str(file), "--once"]
    run("ncclscope", "serve", job(name), *options)
    written = series(text_format(file.read_text()))
    # Only the spelling of bounds may differ, and here it does not.
    assert served == written
    assert served


class Collector:
    """Receives OTLP over HTTP."""

    def __init__(self) -> None:
        self.received: list[ExportMetricsServiceRequest] = []
        received = self.received

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # noqa: N802
                assert self.path == "/v1/metrics"
                assert self.headers["content-type"] == "application/x-protobuf"
                body = self.rfile.read(int(self.headers["content-length"]))
                received.append(ExportMetricsServiceRequest.FromString(gzip.decompress(body)))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        Thread(target=self.server.serve_forever, daemon=True).start()


def points(request: ExportMetricsServiceRequest) -> Series:
    """The series that Prometheus makes of a request."""
    values: Series = {}

    def labels(point: Any) -> dict[str, str]:
        return {pair.key: pair.value.string_value for pair in point.attributes}

    def put(name: str, of: dict[str, str], value: float) -> None:
        if name != "ncclscope_serve_cpu_ratio":
            values[name, tuple(sorted(of.items()))] = value

    (resource,) = request.resource_metrics
    (scope,) = resource.scope_metrics
    for metric in scope.metrics:
        for point in metric.gauge.data_points:
            put(metric.name, labels(point), getattr(point, point.WhichOneof("value")))
        for point in metric.sum.data_points:
            assert metric.sum.is_monotonic and metric.sum.aggregation_temporality == 2
            assert 0 < point.start_time_unix_nano < point.time_unix_nano
            put(metric.name + "_total", labels(point), getattr(point, point.WhichOneof("value")))
        for point in metric.histogram.data_points:
            assert metric.histogram.aggregation_temporality == 2
            assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
            assert sum(point.bucket_counts) == point.count
            put(metric.name + "_count", labels(point), point.count)
            put(metric.name + "_sum", labels(point), point.sum)
            below = 0
            for bound, count in zip([*point.explicit_bounds, float("inf")], point.bucket_counts, strict=True):
                below += count
                bounds = {"le": "+Inf" if bound == float("inf") else str(bound)}
                put(metric.name + "_bucket", labels(point) | bounds, below)
    return values


@pytest.mark.parametrize("name", JOBS)
def test_opentelemetry_reads_the_same_series(name: str, serve: Callable[..., str]) -> None:
    collector = Collector()
    run("ncclscope", "serve", job(name), "--once", "--otlp", collector.address)
    (request,) = collector.received
    resource = {p.key: p.value.string_value for p in request.resource_metrics[0].resource.attributes}
    assert resource["service.name"] == "ncclscope" and resource["service.instance.id"] == name
    served = series(openmetrics(fetched(serve(job(name)) + "/metrics")))
    assert points(request) == served


def test_opentelemetry_has_a_unit_for_each_metric_with_one() -> None:
    collector = Collector()
    run("ncclscope", "serve", job("slow_link"), "--once", "--otlp", collector.address)
    units = {
        metric.name: metric.unit
        for metric in collector.received[0].resource_metrics[0].scope_metrics[0].metrics
    }
    # UCUM's spelling. Whoever makes metrics of Prometheus of them appends the unit if the name lacks it.
    spelled = {"seconds": "s", "bytes": "By", "ratio": "1", "watts": "W", "hertz": "Hz"}
    for name, unit in units.items():
        expected = "" if name.endswith("steps_per_second") else spelled.get(name.split("_")[-1], "")
        expected = "By/s" if name.endswith("bytes_per_second") else expected
        assert unit == expected, name


PROMTOOL = shutil.which("promtool")
PROMETHEUS = shutil.which("prometheus")


@pytest.mark.skipif(PROMTOOL is None, reason="needs promtool (apt install prometheus)")
def test_promtool_accepts_metrics_and_rules_and_the_alerts_fire(tmp_path: Path) -> None:
    assert PROMTOOL is not None
    for name in JOBS:
        file = tmp_path / f"{name}.prom"
        run("ncclscope", "serve", job(name), "--textfile", file, "--once")
        checked = subprocess.run([PROMTOOL, "check", "metrics"], input=file.read_bytes(), capture_output=True)
        assert (checked.returncode, checked.stderr) == (0, b"")
    for what in (["check", "rules", "ncclscope.rules.yml"], ["test", "rules", "ncclscope.rules.test.yml"]):
        subprocess.run([PROMTOOL, *what], cwd=EXAMPLES, check=True, capture_output=True)


@pytest.mark.skipif(PROMETHEUS is None, reason="needs Prometheus (apt install prometheus)")
def test_prometheus_scrapes_a_job_and_answers_every_panel(serve: Callable[..., str], tmp_path: Path) -> None:
    assert PROMETHEUS is not None
    address = serve(job("ddp_late_host"), "--every", "500ms").removeprefix("http://")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    rules = EXAMPLES / "ncclscope.rules.yml"
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "scrape_configs": [{"job_name": "ncclscope", "static_configs": [{"targets": [address]}]}],
        "rule_files": [str(rules)],
    }
    file = tmp_path / "prometheus.yml"
    file.write_text(json.dumps(config))
    options = [f"--config.file={file}", f"--storage.tsdb.path={tmp_path / 'data'}"]
    command = [PROMETHEUS, *options, f"--web.listen-address=127.0.0.1:{port}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def query(expression: str) -> list[Any]:
        asked = urllib.parse.urlencode({"query": expression})
        answer = json.loads(fetched(f"http://127.0.0.1:{port}/api/v1/query?{asked}"))
        assert answer["status"] == "success", expression
        return list(answer["data"]["result"])

    def until(what: Callable[[], bool]) -> None:
        begin = time.monotonic()
        while True:
            try:
                if what():
                    return
            except OSError:
                pass
            assert time.monotonic() - begin < 120
            time.sleep(0.5)

    try:
        until(lambda: bool(query("ncclscope_straggler_cost_ratio")))
        assert query("up")[0]["value"][1] == "1"
        # A range of two scrapes at least, so that rates have a value.
        until(lambda: bool(query("rate(ncclscope_calls_total[1m])")))
        dashboard = json.loads((EXAMPLES / "grafana-dashboard.json").read_text())
        asked = 0
        for panel in dashboard["panels"]:
            for target in panel.get("targets", []):
                expression = target["expr"].replace("$instance", ".*")
                asked += 1
                # The job was not sampled, has ended, and is too old to know what recording cost.
                unknown = ("gpu_power", "inflight_oldest", "recording_cost")
                if not any(word in expression for word in unknown):
                    until(functools.partial(lambda asked_for: bool(query(asked_for)), expression))
        assert asked > 10
        page = fetched(f"http://{address}/metrics")
        # Without what changes from look to look, Prometheus has what was served.
        served = {k: v for k, v in series(openmetrics(page)).items() if k[0] == "ncclscope_calls_total"}
        stored = {}
        for of in query("ncclscope_calls_total"):
            labels = {k: v for k, v in of["metric"].items() if k not in ("__name__", "instance", "job")}
            # Labels without a value are no labels to Prometheus.
            stored[tuple(sorted(labels.items()))] = float(of["value"][1])
        expected = {tuple(pair for pair in labels if pair[1]): n for (_, labels), n in served.items()}
        assert expected == stored

        def loaded() -> list[Any]:
            answer = json.loads(fetched(f"http://127.0.0.1:{port}/api/v1/rules"))
            return list(answer["data"]["groups"][0]["rules"])

        until(lambda: all(rule["health"] == "ok" for rule in loaded()))
        assert len(loaded()) == rules.read_text().count("- alert:")
        until(lambda: "NcclStraggler" in fetched(f"http://127.0.0.1:{port}/api/v1/alerts"))
    finally:
        process.kill()
        process.wait()
