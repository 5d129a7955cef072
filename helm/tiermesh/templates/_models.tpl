{{/* What only the vllm backend needs: models, their cache, shared memory. Each takes a workload with a tier. */}}

{{- define "tiermesh.modelEnv" -}}
{{- if eq .tier.config.backend "vllm" -}}
# Downloads of the hub.
- name: HF_HOME
  value: /var/cache/tiermesh/huggingface
# Compiled kernels, kept with the models so that the next start is quicker.
- name: XDG_CACHE_HOME
  value: /var/cache/tiermesh
- name: VLLM_CACHE_ROOT
  value: /var/cache/tiermesh/vllm
- name: TRITON_CACHE_DIR
  value: /var/cache/tiermesh/triton
- name: TORCHINDUCTOR_CACHE_DIR
  value: /var/cache/tiermesh/inductor
- name: VLLM_NO_USAGE_STATS
  value: "1"
{{- with .spec.models.hubToken.name }}
- name: HF_TOKEN
  valueFrom:
    secretKeyRef:
      {{- toYaml $.spec.models.hubToken | nindent 6 }}
{{- end }}
{{- end -}}
{{- end -}}

{{- define "tiermesh.modelMounts" -}}
{{- if eq .tier.config.backend "vllm" -}}
- name: cache
  mountPath: /var/cache/tiermesh
- name: shm
  mountPath: /dev/shm
{{- if .spec.models.existingClaim }}
- name: models
  mountPath: /models
  readOnly: true
{{- end }}
{{- end -}}
{{- end -}}

{{- define "tiermesh.modelVolumes" -}}
{{- if eq .tier.config.backend "vllm" -}}
- name: cache
  {{- if .spec.models.cacheClaim }}
  persistentVolumeClaim:
    claimName: {{ .spec.models.cacheClaim }}
  {{- else }}
  emptyDir:
    sizeLimit: {{ .spec.models.cacheSize }}
  {{- end }}
- name: shm
  emptyDir:
    medium: Memory
    sizeLimit: {{ .spec.shm }}
{{- if .spec.models.existingClaim }}
- name: models
  persistentVolumeClaim:
    claimName: {{ .spec.models.existingClaim }}
    readOnly: true
{{- end }}
{{- end -}}
{{- end -}}
