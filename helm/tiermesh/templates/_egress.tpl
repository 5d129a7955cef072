{{/* Whom pods may call: the other side of who may be called, and what lies outside of the release. */}}

{{/* Takes (dict "root" $ "rules" list), the rules of network-policies.yaml: to, port, from. */}}
{{- define "tiermesh.egressPolicies" -}}
{{- $root := .root -}}
{{- $rules := .rules -}}
{{- $egress := $root.Values.networkPolicy.egress }}
---
# Redis calls nobody.
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "tiermesh.dnsPrefix" $root }}from-all
  labels:
    {{- include "tiermesh.labels" (dict "root" $root "component" "network-policy") | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      app.kubernetes.io/name: {{ include "tiermesh.name" $root }}
      app.kubernetes.io/instance: {{ $root.Release.Name }}
    matchExpressions:
      - {key: app.kubernetes.io/component, operator: NotIn, values: [redis]}
  policyTypes: [Egress]
  egress:
    # Name servers, wherever they are: some clusters have them on the nodes.
    - ports:
        {{- range $egress.dnsPorts }}
        - {port: {{ . }}, protocol: UDP}
        - {port: {{ . }}, protocol: TCP}
        {{- end }}
    {{- with include "tiermesh.collectorPorts" $root | fromYamlArray }}
    # Collectors of spans and metrics.
    - ports:
        {{- range . }}
        - {port: {{ . }}, protocol: TCP}
        {{- end }}
    {{- end }}
    {{- with $egress.extra }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- $components := list "ingress" "test" }}
{{- range include "tiermesh.workloads" $root | fromYamlArray }}
{{- $components = append $components .cluster }}
{{- end }}
{{- range $component := $components }}
{{- $outside := include "tiermesh.outsidePorts" (dict "root" $root "component" $component) | fromYamlArray }}
{{- $called := list }}
{{- range $rules }}{{ if has $component .from }}{{ $called = append $called . }}{{ end }}{{ end }}
{{- if or $called $outside }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "tiermesh.dnsPrefix" $root }}from-{{ $component }}
  labels:
    {{- include "tiermesh.labels" (dict "root" $root "component" $component) | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- include "tiermesh.selector" (dict "root" $root "component" $component) | nindent 6 }}
  policyTypes: [Egress]
  egress:
    {{- range $called }}
    - ports:
        - {port: {{ .port }}, protocol: TCP}
      to:
        - podSelector:
            matchLabels:
              {{- include "tiermesh.selector" (dict "root" $root "component" .to) | nindent 14 }}
    {{- end }}
    {{- with $outside }}
    - ports:
        {{- range . }}
        - {port: {{ . }}, protocol: TCP}
        {{- end }}
    {{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Ports of the collectors that the configuration names, as a list. Takes root. */}}
{{- define "tiermesh.collectorPorts" -}}
{{- $ports := list -}}
{{- range list .Values.config.tracing.otlp_endpoint .Values.config.metrics.otlp_endpoint -}}
{{- if . -}}
{{- $usual := hasPrefix "https://" . | ternary "443" "4317" -}}
{{- $ports = append $ports (int (regexFind ":[0-9]+(/.*)?$" . | regexFind "[0-9]+" | default $usual)) -}}
{{- end -}}
{{- end -}}
{{- toYaml ($ports | uniq) -}}
{{- end -}}

{{/* Ports outside of the release that a component calls, as a list: a Redis that exists, the model hub. */}}
{{- define "tiermesh.outsidePorts" -}}
{{- $root := .root -}}
{{- $component := .component -}}
{{- $ports := list -}}
{{- if and (eq $component "cache") (not $root.Values.redis.enabled) -}}
{{- range $root.Values.networkPolicy.egress.redisPorts }}{{ $ports = append $ports (int .) }}{{ end -}}
{{- range regexFindAll ":[0-9]+" $root.Values.redis.existing.url -1 -}}
{{- $ports = append $ports (int (trimPrefix ":" .)) -}}
{{- end -}}
{{- end -}}
{{- range include "tiermesh.workloads" $root | fromYamlArray -}}
{{- if and (eq .cluster $component) (eq .image "engine-vllm") (not .spec.models.existingClaim) -}}
{{- $ports = append $ports 443 -}}
{{- end -}}
{{- end -}}
{{- toYaml ($ports | uniq) -}}
{{- end -}}
