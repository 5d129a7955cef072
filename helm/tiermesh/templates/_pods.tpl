{{/* Parts that the pods of all components share. */}}

{{/* Takes (dict "root" $), and "user" and "group" for images that were made for others than ours. */}}
{{- define "tiermesh.podSpec" -}}
{{- $user := default 65532 .user -}}
{{- $group := default 65532 .group -}}
{{- with .root -}}
serviceAccountName: {{ include "tiermesh.fullname" . }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: {{ $user }}
  runAsGroup: {{ $group }}
  fsGroup: {{ $group }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
# Every name used here is complete; without this each lookup asks for three wrong ones first.
dnsConfig:
  options:
    - name: ndots
      value: "2"
{{- end -}}
{{- end -}}

{{- define "tiermesh.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Takes (dict "root" $ "component" "router" "spec" values). */}}
{{- define "tiermesh.scheduling" -}}
{{- with .spec.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .spec.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .spec.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .spec.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .root.Values.topologySpread.enabled }}
topologySpreadConstraints:
  {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "tiermesh.selector" $ | nindent 8 }}
    {{- if ne $.component "redis" }}
    # Pods of the revision that goes do not count: else a rollout leaves its last replicas side by side.
    matchLabelKeys: [pod-template-hash]
    {{- end }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Environment of every Python process. */}}
{{- define "tiermesh.env" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: NODE_NAME
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
# Merged into the resource of every span.
- name: OTEL_RESOURCE_ATTRIBUTES
  value: k8s.pod.name=$(POD_NAME),k8s.namespace.name=$(POD_NAMESPACE),k8s.node.name=$(NODE_NAME)
# The root file system is read-only.
- name: HOME
  value: /var/lib/tiermesh
{{- end -}}

{{- define "tiermesh.mounts" -}}
- name: config
  mountPath: /etc/tiermesh
  readOnly: true
- name: state
  mountPath: /var/lib/tiermesh
- name: tmp
  mountPath: /tmp
{{- end -}}

{{/*
The folder, not single files of it: only then does Kubernetes carry a change into a running pod. Takes (dict "root" $),
and "tmp" for the size of /tmp.
*/}}
{{- define "tiermesh.volumes" -}}
- name: config
  configMap:
    name: {{ include "tiermesh.fullname" .root }}
# Bounded, so that what goes wrong in one pod does not fill its node.
- name: state
  emptyDir:
    sizeLimit: 1Gi
- name: tmp
  emptyDir:
    sizeLimit: {{ .tmp | default "1Gi" }}
{{- end -}}

{{/* Seconds from the first sign of going to the kill: removal, drain, and some to spare for closing. */}}
{{- define "tiermesh.gracePeriod" -}}
{{- add (int .Values.removalSeconds) (int (ceil (toString .Values.config.drain_s | float64))) 10 -}}
{{- end -}}
