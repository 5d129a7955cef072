"""The one configuration file: its schema, how it is read, and how changes are followed."""

from tiermesh.shared.config._bandit import BanditConfig
from tiermesh.shared.config._bandit_report import REPORT_FORMAT, bandit_digest, report_digest, why_not_live
from tiermesh.shared.config._breakers import BreakersConfig
from tiermesh.shared.config._dynamic import DynamicField
from tiermesh.shared.config._lanes import LaneConfig, LanesConfig
from tiermesh.shared.config._last_good import keep_last_good, load_or_last_good
from tiermesh.shared.config._load import ConfigError, load_config, parse_config
from tiermesh.shared.config._outcomes import OutcomesConfig
from tiermesh.shared.config._routing import BalanceConfig, BandConfig, CalibrationConfig, EscalationConfig, SafetyFlag
from tiermesh.shared.config._schema import (
    CacheConfig,
    ClassifierConfig,
    DeadlineConfig,
    DiscoveryConfig,
    HealthConfig,
    LimitsConfig,
    LoggingConfig,
    MetricsConfig,
    NetworkConfig,
    RouterConfig,
    ServiceConfig,
    TenantConfig,
    TierConfig,
    TiermeshConfig,
    TracingConfig,
)
from tiermesh.shared.config._tls import IngressTlsConfig, TlsConfig
from tiermesh.shared.config._watch import watch_config, watch_folders

__all__ = [
    "REPORT_FORMAT",
    "BalanceConfig",
    "BandConfig",
    "BanditConfig",
    "BreakersConfig",
    "CacheConfig",
    "CalibrationConfig",
    "ClassifierConfig",
    "ConfigError",
    "DeadlineConfig",
    "DiscoveryConfig",
    "DynamicField",
    "EscalationConfig",
    "HealthConfig",
    "IngressTlsConfig",
    "LaneConfig",
    "LanesConfig",
    "LimitsConfig",
    "LoggingConfig",
    "MetricsConfig",
    "NetworkConfig",
    "OutcomesConfig",
    "RouterConfig",
    "SafetyFlag",
    "ServiceConfig",
    "TenantConfig",
    "TierConfig",
    "TiermeshConfig",
    "TlsConfig",
    "TracingConfig",
    "bandit_digest",
    "keep_last_good",
    "load_config",
    "load_or_last_good",
    "parse_config",
    "report_digest",
    "watch_config",
    "watch_folders",
    "why_not_live",
]
