{{/* Names and labels of objects. */}}

{{- define "tiermesh.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "tiermesh.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains (include "tiermesh.name" .) .Release.Name -}}
{{- .Release.Name -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "tiermesh.name" .) -}}
{{- end -}}
{{- end -}}

{{/* Prefix and suffix around a cluster's name that make the DNS name of its headless Service. */}}
{{- define "tiermesh.dnsPrefix" -}}
{{- printf "%s-" (include "tiermesh.fullname" .) -}}
{{- end -}}

{{- define "tiermesh.dnsSuffix" -}}
{{- printf ".%s.svc.%s" .Release.Namespace .Values.clusterDomain -}}
{{- end -}}

{{/* Takes (dict "root" $ "component" "router"). A selector never changes in the life of a release. */}}
{{- define "tiermesh.selector" -}}
app.kubernetes.io/name: {{ include "tiermesh.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/*
Labels of pods: no chart version, which would restart them all with every release of the chart. Takes what
tiermesh.selector takes, and "spec", the component's values, for labels of its pods alone.
*/}}
{{- define "tiermesh.podLabels" -}}
{{ include "tiermesh.selector" . }}
app.kubernetes.io/part-of: tiermesh
{{- with merge (dict) ((.spec | default dict).podLabels | default dict) .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "tiermesh.labels" -}}
{{ include "tiermesh.podLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{/* Takes (dict "root" $ "name" "router" "override" ""). */}}
{{- define "tiermesh.image" -}}
{{- if .override -}}
{{- .override -}}
{{- else if hasKey .root.Values.image.digests .name -}}
{{- printf "%s/%s@%s" .root.Values.image.registry .name (get .root.Values.image.digests .name) -}}
{{- else -}}
{{- printf "%s/%s:%s" .root.Values.image.registry .name (default .root.Chart.AppVersion .root.Values.image.tag) -}}
{{- end -}}
{{- end -}}
