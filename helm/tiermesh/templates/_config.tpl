{{/* tiermesh.yaml, as every process reads it, and what of it makes a process start anew. */}}

{{/* Replicas are left out: in dns mode the control plane finds them by name, so scaling changes no file. */}}
{{- define "tiermesh.config" -}}
{{- $tenants := list -}}
{{- range .Values.tenants -}}
{{- if eq .keysFrom "env" -}}
{{- $tenants = append $tenants (dict "name" .name "key_env" (include "tiermesh.keyEnv" .)) -}}
{{- else -}}
{{- $tenants = append $tenants (dict "name" .name "key_file" (printf "/etc/tiermesh-keys/%s" .name)) -}}
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

{{- define "tiermesh.driftReference" -}}
{{- if kindIs "string" .Values.driftReference -}}
{{- .Values.driftReference -}}
{{- else -}}
{{- toJson .Values.driftReference -}}
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
The running processes follow the files, so a change of them restarts nothing by itself. These sections are read once,
at the start. Takes (dict "root" $ "sections" (list "cache")), the sections that one component alone reads at its start.
*/}}
{{- define "tiermesh.startupChecksum" -}}
{{- $values := .root.Values -}}
{{- $read := dict
  "network" (include "tiermesh.config.network" .root | fromYaml)
  "discovery" (include "tiermesh.config.discovery" .root | fromYaml)
  "tracing" $values.config.tracing
  "logging" $values.config.logging
  "longest" (($values.config.deadlines | default dict).max_ms | toString)
  "drain_s" $values.config.drain_s -}}
{{- range .sections -}}
{{- $_ := set $read . (get $values.config .) -}}
{{- if eq . "outcomes" -}}
{{- $_ := set $read "driftReference" $values.driftReference -}}
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
