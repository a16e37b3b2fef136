"""What the programs around a seat read from their files: every key, as their sources name it. Knows no file of ours.

None of these programs publishes a schema that can be installed. Described here is what a seat's files touch of the
structures that the programs decode them into, as their repositories had them around the versions that the compose file
pins. An unknown key is refused, as the programs do themselves; only Grafana would pass over it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Duration = Annotated[str, Field(pattern=r"^(\d+(\.\d+)?(ns|us|ms|s|m|h))+$")]
"""As Go writes one."""

Address = Annotated[str, Field(pattern=r"^[\w.-]+:\d+$")]
"""Host and port."""


class Keys(BaseModel):
    """A mapping with no keys but these, each of its own type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Listens(Keys):
    """OpenTelemetry Collector, config/configgrpc and config/confighttp: the server's part."""

    endpoint: Address


class Protocols(Keys):
    """OpenTelemetry Collector, receiver/otlpreceiver: one that is not named is off."""

    grpc: Listens | None = None
    http: Listens | None = None


class OtlpReceiver(Keys):
    """OpenTelemetry Collector, receiver/otlpreceiver."""

    protocols: Protocols


class MemoryLimiter(Keys):
    """OpenTelemetry Collector, internal/memorylimiter: interval and limit have no defaults that it would start with."""

    check_interval: Duration
    limit_mib: Annotated[int, Field(gt=0)]
    spike_limit_mib: int | None = None
    """A fifth of the limit where it is not set."""
    limit_percentage: int | None = None
    spike_limit_percentage: int | None = None
    min_gc_interval_when_soft_limited: Duration | None = None
    min_gc_interval_when_hard_limited: Duration | None = None


class Batch(Keys):
    """OpenTelemetry Collector, processor/batchprocessor: 200 ms or 8192 items by default."""

    timeout: Duration | None = None
    send_batch_size: int | None = None
    send_batch_max_size: int | None = None
    metadata_keys: list[str] | None = None
    metadata_cardinality_limit: int | None = None


class ClientTls(Keys):
    """OpenTelemetry Collector, config/configtls: what a client without certificates says."""

    insecure: bool


class OtlpExporter(Keys):
    """OpenTelemetry Collector, exporter/otlpexporter: gRPC; it queues and tries again by default."""

    endpoint: Address
    tls: ClientTls
    timeout: Duration | None = None


class ResourceLabels(Keys):
    """OpenTelemetry Collector Contrib, pkg/resourcetotelemetry."""

    enabled: bool


class PrometheusExporter(Keys):
    """OpenTelemetry Collector Contrib, exporter/prometheusexporter 0.128."""

    endpoint: Address
    namespace: str = ""
    const_labels: dict[str, str] | None = None
    send_timestamps: bool = False
    metric_expiration: Duration = "5m"
    resource_to_telemetry_conversion: ResourceLabels | None = None
    """Only for labels beside 'job' and 'instance', which every series has anyway."""
    enable_open_metrics: bool = False
    add_metric_suffixes: bool = True
    """Units and '_total', as a seat writes them itself."""


class Receivers(Keys):
    """Those of the collector that a seat speaks to."""

    otlp: OtlpReceiver


class Processors(Keys):
    """What is between them and the exporters."""

    memory_limiter: MemoryLimiter
    batch: Batch


class Exporters(Keys):
    """A name is a kind, and after a slash what tells one of a kind from the others."""

    tempo: Annotated[OtlpExporter, Field(alias="otlp/tempo")]
    prometheus: PrometheusExporter


class Pipeline(Keys):
    """OpenTelemetry Collector, service/pipelines."""

    receivers: list[str]
    processors: list[str]
    exporters: list[str]


class Pipelines(Keys):
    """Each is named after what it carries."""

    traces: Pipeline
    metrics: Pipeline


class Service(Keys):
    """OpenTelemetry Collector, service."""

    pipelines: Pipelines
    extensions: list[str] | None = None


class Collector(Keys):
    """OpenTelemetry Collector Contrib 0.128: the whole file."""

    receivers: Receivers
    processors: Processors
    exporters: Exporters
    service: Service


class TempoServer(Keys):
    """Grafana Tempo, from dskit's server: the address of its API."""

    http_listen_port: int
    http_listen_address: str = ""
    grpc_listen_port: int = 9095
    log_level: Literal["debug", "info", "warn", "error"] = "info"


class TempoReceivers(Keys):
    """Grafana Tempo, modules/distributor: the collector's receivers; by default they listen to this machine only."""

    otlp: OtlpReceiver


class Distributor(Keys):
    """Grafana Tempo, modules/distributor."""

    receivers: TempoReceivers


class Folder(Keys):
    """Grafana Tempo, tempodb/backend/local and tempodb/wal."""

    path: str


class TraceStorage(Keys):
    """Grafana Tempo, tempodb."""

    backend: Literal["local", "gcs", "s3", "azure"]
    local: Folder
    wal: Folder


class Storage(Keys):
    """Grafana Tempo, modules/storage."""

    trace: TraceStorage


class Compaction(Keys):
    """Grafana Tempo, tempodb: two weeks of traces are kept by default."""

    block_retention: Duration = "336h"
    compacted_block_retention: Duration = "1h"
    compaction_window: Duration = "1h"
    max_block_bytes: int | None = None
    max_compaction_objects: int | None = None


class Compactor(Keys):
    """Grafana Tempo, modules/compactor."""

    compaction: Compaction


class UsageReport(Keys):
    """Grafana Tempo, pkg/usagestats: reports by default."""

    reporting_enabled: bool


class Tempo(Keys):
    """Grafana Tempo 2.8: the whole file."""

    server: TempoServer
    distributor: Distributor
    storage: Storage
    compactor: Compactor
    usage_report: UsageReport


class DataSource(Keys):
    """Grafana, pkg/services/provisioning/datasources: one."""

    name: str
    type: str
    uid: str
    url: Annotated[str, Field(pattern=r"^http://[\w-]+:\d+$")]
    access: Literal["proxy", "direct"] = "proxy"
    isDefault: bool = False
    editable: bool = False
    version: int | None = None
    orgId: int = 1
    jsonData: dict[str, Any] | None = None


class DataSources(Keys):
    """Grafana 12.0: the whole file."""

    apiVersion: Literal[1]
    datasources: list[DataSource]


class DashboardFolder(Keys):
    """Grafana, pkg/services/provisioning/dashboards: options of the kind 'file'."""

    path: str
    foldersFromFilesStructure: bool = False


class DashboardProvider(Keys):
    """Grafana, pkg/services/provisioning/dashboards: one."""

    name: str
    type: Literal["file"]
    options: DashboardFolder
    orgId: int = 1
    folder: str = ""
    folderUid: str = ""
    disableDeletion: bool = False
    editable: bool = False
    updateIntervalSeconds: int = 10
    allowUiUpdates: bool = False


class DashboardProviders(Keys):
    """Grafana 12.0: the whole file."""

    apiVersion: Literal[1]
    providers: list[DashboardProvider]


class Name(Keys):
    """Kubernetes: what this object is called; or, in KEDA, the Deployment that it scales."""

    name: str


class ScalingPolicy(Keys):
    """Kubernetes, autoscaling/v2: how much may change in a period."""

    type: Literal["Pods", "Percent"]
    value: Annotated[int, Field(gt=0)]
    periodSeconds: Annotated[int, Field(gt=0, le=1800)]


class ScalingRules(Keys):
    """Kubernetes, autoscaling/v2: one direction."""

    stabilizationWindowSeconds: Annotated[int, Field(ge=0, le=3600)] | None = None
    selectPolicy: Literal["Min", "Max", "Disabled"] | None = None
    policies: list[ScalingPolicy] | None = None


class Behavior(Keys):
    """Kubernetes, autoscaling/v2."""

    scaleUp: ScalingRules | None = None
    scaleDown: ScalingRules | None = None


class HpaConfig(Keys):
    """KEDA, apis/keda/v1alpha1."""

    name: str | None = None
    behavior: Behavior | None = None


class Advanced(Keys):
    """KEDA, apis/keda/v1alpha1."""

    horizontalPodAutoscalerConfig: HpaConfig | None = None
    restoreToOriginalReplicaCount: bool = False


class PrometheusTrigger(Keys):
    """KEDA, pkg/scalers/prometheus_scaler.go: all values are strings. What is no number counts as 0 by default."""

    serverAddress: str
    query: str
    threshold: Annotated[str, Field(pattern=r"^\d+(\.\d+)?$")]
    activationThreshold: Annotated[str, Field(pattern=r"^\d+(\.\d+)?$")] = "0"
    ignoreNullValues: Literal["true", "false"] = "true"
    namespace: str = ""
    authModes: str = ""


class Trigger(Keys):
    """KEDA, apis/keda/v1alpha1."""

    type: Literal["prometheus"]
    name: str | None = None
    metricType: Literal["AverageValue", "Value"] = "AverageValue"
    metadata: PrometheusTrigger


class ScaledObjectSpec(Keys):
    """KEDA, apis/keda/v1alpha1."""

    scaleTargetRef: Name
    pollingInterval: int = 30
    cooldownPeriod: int = 300
    idleReplicaCount: int | None = None
    minReplicaCount: int = 0
    maxReplicaCount: int = 100
    advanced: Advanced | None = None
    triggers: list[Trigger]


class ScaledObject(Keys):
    """KEDA 2: the whole object."""

    apiVersion: Literal["keda.sh/v1alpha1"]
    kind: Literal["ScaledObject"]
    metadata: Name
    spec: ScaledObjectSpec
