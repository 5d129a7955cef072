{{/* tiermesh.yaml, as every process reads it, and what of it makes a process start anew. */}}

{{/* Replicas are left out: in dns mode the control plane finds them by name, so scaling changes no file. */}}
{{- define "tiermesh.config" -}}
{{- $tenants := list -}}
{{- range .Values.tenants -}}
{{- $tenant := omit . "keysFrom" "secret" -}}
{{- if eq .keysFrom "env" -}}
{{- $tenants = append $tenants (merge (dict "key_env" (include "tiermesh.keyEnv" .)) $tenant) -}}
{{- else -}}
{{- $tenants = append $tenants (merge (dict "key_file" (printf "/etc/tiermesh-keys/%s" .name)) $tenant) -}}
{{- end -}}
{{- end -}}
{{- $tiers := list -}}
{{- range .Values.tiers -}}
{{- $tiers = append $tiers (merge (dict "name" .name) .config) -}}
{{- end -}}
{{- $config := deepCopy .Values.config -}}
{{- if not $config.tracing.otlp_endpoint -}}
{{- $_ := unset $config.tracing "otlp_endpoint" -}}
{{- end -}}
{{- if not $config.metrics.otlp_endpoint -}}
{{- $_ := unset $config.metrics "otlp_endpoint" -}}
{{- end -}}
{{- if .Values.driftReference -}}
{{- $_ := set $config "outcomes" (merge (dict "drift_reference" "drift-reference.json") $config.outcomes) -}}
{{- end -}}
{{- if .Values.banditReport -}}
{{- $_ := set $config "bandit" (merge (dict "report" "bandit-report.json") ($config.bandit | default dict)) -}}
{{- end -}}
{{- with include "tiermesh.config.tls" . -}}
{{- $_ := set $config "tls" (fromYaml .) -}}
{{- end -}}
{{- $own := dict
  "network" (include "tiermesh.config.network" . | fromYaml)
  "discovery" (include "tiermesh.config.discovery" . | fromYaml)
  "tenants" $tenants
  "tiers" $tiers
  "rules" "rules.yaml" -}}
{{- toYaml (merge $own $config) -}}
{{- end -}}

{{/* The ingress listens on every address of its pod. Sidecars listen on loopback whatever `bind` says. */}}
{{- define "tiermesh.config.network" -}}
bind: 0.0.0.0
ingress_port: {{ .Values.ports.ingress }}
admin_port: {{ .Values.ports.admin }}
xds_port: {{ .Values.ports.xds }}
mesh_port: {{ .Values.ports.mesh }}
{{- end -}}

{{- define "tiermesh.config.discovery" -}}
mode: dns
dns_prefix: {{ include "tiermesh.dnsPrefix" . | quote }}
dns_suffix: {{ include "tiermesh.dnsSuffix" . | quote }}
service_port: {{ .Values.ports.service }}
{{- end -}}

{{/* A JSON file given as text or as values. Takes the value. */}}
{{- define "tiermesh.json" -}}
{{- if kindIs "string" . -}}
{{- . -}}
{{- else -}}
{{- toJson . -}}
{{- end -}}
{{- end -}}

{{- define "tiermesh.rules" -}}
{{- if kindIs "string" .Values.rules -}}
{{- .Values.rules -}}
{{- else if .Values.rules -}}
{{- toYaml .Values.rules -}}
{{- else -}}
{{- .Files.Get "files/rules.yaml" -}}
{{- end -}}
{{- end -}}

{{/* Name of the variable with a tenant's keys. */}}
{{- define "tiermesh.keyEnv" -}}
{{- printf "TIERMESH_KEYS_%s" (.name | upper | replace "-" "_") -}}
{{- end -}}

{{/*
The running processes follow the files, so a change of them restarts nothing by itself. What is read once, at the start,
is in this sum: by every process, and by one component alone. Takes (dict "root" $ "component" "cache").
*/}}
{{- define "tiermesh.startupChecksum" -}}
{{- $config := .root.Values.config -}}
{{- $read := dict
  "network" (include "tiermesh.config.network" .root | fromYaml)
  "discovery" (include "tiermesh.config.discovery" .root | fromYaml)
  "tls" (include "tiermesh.config.tls" .root | fromYaml)
  "tracing" $config.tracing
  "metrics" $config.metrics
  "logging" $config.logging
  "longest" (($config.deadlines | default dict).max_ms | toString)
  "drain_s" $config.drain_s -}}
{{- if has .component (list "classifier" "cache" "outcomes") -}}
{{- $_ := set $read .component (get $config .component) -}}
{{- end -}}
{{- if eq .component "outcomes" -}}
{{- $_ := set $read "driftReference" .root.Values.driftReference -}}
{{- else if eq .component "router" -}}
{{- $_ := set $read "burst" (($config.escalation | default dict).burst | toString) -}}
{{- $_ := set $read "queue" (($config.outcomes | default dict).queue | toString) -}}
{{- else if hasPrefix "engine-" .component -}}
{{- range .root.Values.tenants -}}
{{- if .weight -}}
{{- $_ := set $read (printf "weight of %s" .name) .weight -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $read | sha256sum -}}
{{- end -}}

{{/* A tier's keys that its engine loads a model by. The others only steer the router, which follows the file. */}}
{{- define "tiermesh.tierChecksum" -}}
{{- $steering := list "max_complexity" "task_types" "excluded_task_types" "languages" "price_in" "price_out" -}}
{{- $loaded := dict -}}
{{- range $key, $value := .config -}}
{{- if not (has $key $steering) -}}
{{- $_ := set $loaded $key $value -}}
{{- end -}}
{{- end -}}
{{- toYaml $loaded | sha256sum -}}
{{- end -}}
