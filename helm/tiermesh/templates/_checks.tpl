{{/* What a schema cannot say. Each message names the key and what to do. */}}
{{- define "tiermesh.checks" -}}
{{- range $what, $items := dict "tiers" .Values.tiers "tenants" .Values.tenants -}}
{{- $seen := dict -}}
{{- range $items -}}
{{- if hasKey $seen .name -}}
{{- fail (printf "%s: the name %q is used twice; names must be unique" $what .name) -}}
{{- end -}}
{{- $_ := set $seen .name true -}}
{{- end -}}
{{- end -}}
{{- range .Values.tiers -}}
{{- $engine := mergeOverwrite (deepCopy $.Values.engine) (omit . "name" "config") -}}
{{- $gpus := int (include "tiermesh.gpuCount" (dict "tier" . "engine" $engine)) -}}
{{- $parallel := int (default 1 .config.tensor_parallel) -}}
{{- if and (eq .config.backend "vllm") (gt $gpus 0) (lt $gpus $parallel) -}}
{{- fail (printf "tiers: %s: gpu.count (%d) must be at least config.tensor_parallel (%d)" .name $gpus $parallel) -}}
{{- end -}}
{{- if and $engine.autoscaling.enabled (not $engine.autoscaling.metrics) (eq .config.backend "vllm") -}}
{{- fail (printf "tiers: %s: autoscaling.metrics: name what a vllm tier scales by, such as a Pods metric of its queue; CPU says nothing of it" .name) -}}
{{- end -}}
{{- if and $engine.models.existingClaim $engine.models.cacheClaim -}}
{{- fail (printf "tiers: %s: models: give existingClaim or cacheClaim, not both" .name) -}}
{{- end -}}
{{- if and .config.answer_tokens .config.context_tokens (ne .config.backend "rules") (ge (int .config.answer_tokens) (int .config.context_tokens)) -}}
{{- fail (printf "tiers: %s: config.answer_tokens (%d) must be below config.context_tokens (%d)" .name (int .config.answer_tokens) (int .config.context_tokens)) -}}
{{- end -}}
{{- $service := printf "%sengine-%s" (include "tiermesh.dnsPrefix" $) .name -}}
{{- if gt (len $service) 63 -}}
{{- fail (printf "fullnameOverride: the Service name %s is longer than the 63 characters that DNS allows; choose a shorter prefix" $service) -}}
{{- end -}}
{{- end -}}
{{- if ne (len .Values.ports) (len (values .Values.ports | uniq)) -}}
{{- fail "ports: must all differ; some of them meet in one pod" -}}
{{- end -}}
{{- $certManager := .Values.tls.certManager -}}
{{- if and $certManager.enabled (not $certManager.issuerRef.name) -}}
{{- fail "tls.certManager.issuerRef.name: name the Issuer or ClusterIssuer that is to issue certificates; docs/operations/kubernetes.md shows one" -}}
{{- end -}}
{{- if and $certManager.enabled (not (include "tiermesh.mutualTls" .)) -}}
{{- fail "tls.certManager.enabled: has certificates issued that nothing uses; switch on tls.mesh or tls.controlPlane too" -}}
{{- end -}}
{{- if and .Values.ingress.tls.enabled (not .Values.ingress.tls.secret) -}}
{{- fail "ingress.tls.secret: name the Secret with tls.crt and tls.key of the public name" -}}
{{- end -}}
{{- $deadlines := .Values.config.deadlines | default dict -}}
{{- if and $deadlines.default_ms $deadlines.max_ms (gt (int $deadlines.default_ms) (int $deadlines.max_ms)) -}}
{{- fail (printf "config.deadlines: default_ms (%d) must not exceed max_ms (%d)" (int $deadlines.default_ms) (int $deadlines.max_ms)) -}}
{{- end -}}
{{- if include "tiermesh.cacheEnabled" . -}}
{{- $existing := .Values.redis.existing -}}
{{- if and .Values.redis.enabled (or $existing.url $existing.secret.name) -}}
{{- fail "redis.existing: is not used while redis.enabled is true; set redis.enabled: false" -}}
{{- end -}}
{{- if and (not .Values.redis.enabled) (not $existing.url) (not $existing.secret.name) -}}
{{- fail "redis.existing: give url or secret.name when redis.enabled is false, or switch the cache off with config.cache.enabled: false" -}}
{{- end -}}
{{- if and $existing.url $existing.secret.name -}}
{{- fail "redis.existing: give url or secret.name, not both" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* "true" or nothing. */}}
{{- define "tiermesh.cacheEnabled" -}}
{{- if ne (toString .Values.config.cache.enabled) "false" -}}true{{- end -}}
{{- end -}}

{{/* "true" or nothing. */}}
{{- define "tiermesh.outcomesEnabled" -}}
{{- if eq (toString (.Values.config.outcomes | default dict).enabled) "true" -}}true{{- end -}}
{{- end -}}

{{/* Takes (dict "tier" tier "engine" merged). */}}
{{- define "tiermesh.gpuCount" -}}
{{- if not (kindIs "invalid" .engine.gpu.count) -}}
{{- int .engine.gpu.count -}}
{{- else if eq .tier.config.backend "vllm" -}}
{{- int (default 1 .tier.config.tensor_parallel) -}}
{{- else -}}
0
{{- end -}}
{{- end -}}
