{{/* The container of router, classifier, cache and engines. Takes (dict "root" $ "workload" one of tiermesh.workloads). */}}
{{- define "tiermesh.serviceContainer" -}}
{{- $root := .root -}}
{{- with .workload -}}
{{- $tls := dict "root" $root "component" .cluster "port" $root.Values.ports.service -}}
image: {{ include "tiermesh.image" (dict "root" $root "name" .image "override" .spec.image) }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
command:
  - python
  - -m
  - {{ .module }}
  - --config=/etc/tiermesh/tiermesh.yaml
  - --state=/var/lib/tiermesh
  - --listen=0.0.0.0:{{ $root.Values.ports.service }}
  {{- if include "tiermesh.probedApart" $tls }}
  - --probe-listen=0.0.0.0:{{ $root.Values.ports.probe }}
  {{- end }}
  {{- with .tier }}
  - --tier={{ .name }}
  {{- end }}
env:
  {{- include "tiermesh.env" $root | nindent 2 }}
  {{- if eq .cluster "cache" }}
  {{- include "tiermesh.redisEnv" $root | nindent 2 }}
  {{- end }}
  {{- if .tier }}
  {{- include "tiermesh.modelEnv" . | nindent 2 }}
  {{- end }}
  {{- if ne .image "engine-vllm" }}
  # One request is one thread's work here. NumPy would start a thread for each core of the node.
  - name: OPENBLAS_NUM_THREADS
    value: "1"
  {{- end }}
  {{- with .spec.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
ports:
  - name: grpc
    containerPort: {{ $root.Values.ports.service }}
  {{- if include "tiermesh.probedApart" $tls }}
  - name: probe
    containerPort: {{ $root.Values.ports.probe }}
  {{- end }}
resources:
  {{- $resources := deepCopy .spec.resources }}
  {{- if .gpus }}
  {{- $card := dict .spec.gpu.resourceName (int .gpus) }}
  {{- $_ := set $resources "limits" (merge $card ($resources.limits | default dict)) }}
  {{- end }}
  {{- toYaml $resources | nindent 2 }}
securityContext:
  {{- include "tiermesh.containerSecurity" $root | nindent 2 }}
# SERVING comes after the warm-up, so a slow load is a long start and no failure.
startupProbe:
  grpc: {port: {{ include "tiermesh.probePort" $tls }}}
  periodSeconds: 5
  timeoutSeconds: 3
  failureThreshold: {{ hasKey . "tier" | ternary (div (add 4 (int (default 0 .spec.startupSeconds))) 5) 24 }}
readinessProbe:
  grpc: {port: {{ include "tiermesh.probePort" $tls }}}
  periodSeconds: 5
  timeoutSeconds: 3
  failureThreshold: 2
livenessProbe:
  grpc: {port: {{ include "tiermesh.probePort" $tls }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
lifecycle:
  preStop:
    exec:
      # Callers find out first that this replica goes; then it drains.
      command: [sleep, {{ $root.Values.removalSeconds | quote }}]
volumeMounts:
  {{- include "tiermesh.mounts" $root | nindent 2 }}
  {{- include "tiermesh.tlsMounts" $tls | nindent 2 }}
  {{- if .tier }}
  {{- include "tiermesh.modelMounts" . | nindent 2 }}
  {{- end }}
  {{- if .keeps }}
  - name: outcomes
    mountPath: /var/lib/tiermesh/outcomes
  {{- end }}
{{- end -}}
{{- end -}}

{{/* Where the cache finds Redis. Takes root. */}}
{{- define "tiermesh.redisEnv" -}}
{{- $redis := .Values.redis -}}
{{- if not $redis.enabled -}}
- name: REDIS_URL
  {{- if $redis.existing.url }}
  value: {{ $redis.existing.url | quote }}
  {{- else }}
  valueFrom:
    secretKeyRef:
      {{- toYaml $redis.existing.secret | nindent 6 }}
  {{- end }}
{{- else -}}
{{- $host := printf "%sredis%s:6379/0" (include "tiermesh.dnsPrefix" .) (include "tiermesh.dnsSuffix" .) -}}
{{- with $redis.password.name -}}
- name: REDIS_PASSWORD
  valueFrom:
    secretKeyRef:
      {{- toYaml $redis.password | nindent 6 }}
- name: REDIS_URL
  value: redis://:$(REDIS_PASSWORD)@{{ $host }}
{{- else -}}
- name: REDIS_URL
  value: redis://{{ $host }}
{{- end -}}
{{- end -}}
{{- end -}}
