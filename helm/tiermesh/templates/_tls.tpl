{{/*
TLS: which Secrets are mounted where, and the section of tiermesh.yaml that names their files. Each component has a Secret
and finds it under the same path. `component` is the name in certificates: a cluster, `ingress`, or `mesh` for the
control plane.
*/}}

{{/* "true" or nothing: whether components need certificates. */}}
{{- define "tiermesh.mutualTls" -}}
{{- if or .Values.tls.mesh .Values.tls.controlPlane -}}true{{- end -}}
{{- end -}}

{{/* The section; empty where everything is off. */}}
{{- define "tiermesh.config.tls" -}}
{{- $mutual := include "tiermesh.mutualTls" . -}}
{{- if or $mutual .Values.ingress.tls.enabled -}}
mesh: {{ .Values.tls.mesh }}
control_plane: {{ .Values.tls.controlPlane }}
envoy_folder: /etc/envoy/
{{- if $mutual }}
certificate: /etc/tiermesh-tls/tls.crt
private_key: /etc/tiermesh-tls/tls.key
trusted_ca: /etc/tiermesh-tls/ca.crt
{{- with .Values.tls.identity }}
identity: {{ . | quote }}
{{- end }}
{{- end }}
{{- if .Values.ingress.tls.enabled }}
ingress:
  enabled: true
  certificate: /etc/tiermesh-ingress-tls/tls.crt
  private_key: /etc/tiermesh-ingress-tls/tls.key
  minimum_version: {{ .Values.ingress.tls.minimumVersion | quote }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* Takes (dict "root" $ "component" "router"). */}}
{{- define "tiermesh.tlsSecret" -}}
{{- include "tiermesh.dnsPrefix" .root }}{{ .component }}-tls
{{- end -}}

{{/* Takes (dict "root" $ "component" "router"). The folder, not single files of it: only then does a new certificate arrive. */}}
{{- define "tiermesh.tlsMounts" -}}
{{- if include "tiermesh.mutualTls" .root }}
- name: tls
  mountPath: /etc/tiermesh-tls
  readOnly: true
{{- end }}
{{- if and (eq .component "ingress") .root.Values.ingress.tls.enabled }}
- name: ingress-tls
  mountPath: /etc/tiermesh-ingress-tls
  readOnly: true
{{- end }}
{{- end -}}

{{/* Takes (dict "root" $ "component" "router"). */}}
{{- define "tiermesh.tlsVolumes" -}}
{{- if include "tiermesh.mutualTls" .root }}
- name: tls
  secret:
    secretName: {{ include "tiermesh.tlsSecret" . }}
    defaultMode: 0440
{{- end }}
{{- if and (eq .component "ingress") .root.Values.ingress.tls.enabled }}
- name: ingress-tls
  secret:
    secretName: {{ .root.Values.ingress.tls.secret }}
    defaultMode: 0440
{{- end }}
{{- end -}}

{{/*
A kubelet has no certificate: where a server takes mutual TLS alone, it answers health checks, and nothing else, on a port
of its own. Takes (dict "root" $ "component" "router"); "true" or nothing.
*/}}
{{- define "tiermesh.probedApart" -}}
{{- if ternary .root.Values.tls.controlPlane .root.Values.tls.mesh (eq .component "mesh") -}}true{{- end -}}
{{- end -}}

{{/* Takes (dict "root" $ "component" "router" "port" 8081), the port of the server itself. */}}
{{- define "tiermesh.probePort" -}}
{{- if include "tiermesh.probedApart" . }}{{ .root.Values.ports.probe }}{{ else }}{{ .port }}{{ end -}}
{{- end -}}
