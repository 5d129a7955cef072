{{/*
The services of the mesh as a list, so that Deployments, Services, budgets, scalers and policies all speak of the same
ones. `cluster` is the name that Envoy, gRPC authorities and DNS share.
*/}}
{{- define "tiermesh.workloads" -}}
{{- $list := list
  (dict "cluster" "router" "module" "tiermesh.router" "image" "router" "spec" .Values.router)
  (dict "cluster" "classifier" "module" "tiermesh.classifier" "image" "classifier" "spec" .Values.classifier) -}}
{{- if include "tiermesh.cacheEnabled" . -}}
{{- $semantic := eq (toString .Values.config.cache.semantic_enabled) "true" -}}
{{- $cache := omit .Values.cache "semanticResources" -}}
{{- if $semantic -}}
{{- $_ := set $cache "resources" .Values.cache.semanticResources -}}
{{- end -}}
{{- $list = append $list (dict "cluster" "cache" "module" "tiermesh.cache" "image" ($semantic | ternary "cache-semantic" "cache") "spec" $cache) -}}
{{- end -}}
{{- if include "tiermesh.outcomesEnabled" . -}}
{{- /* One process writes the file, and a new one may open it only once the old one has closed it. */ -}}
{{- $one := dict "replicas" 1 "autoscaling" (dict "enabled" false) "strategy" (dict "type" "Recreate") -}}
{{- $list = append $list (dict
  "cluster" "outcomes" "module" "tiermesh.outcomes" "image" "outcomes" "keeps" true
  "spec" (mergeOverwrite $one (omit .Values.outcomes "persistence"))) -}}
{{- end -}}
{{- range .Values.tiers -}}
{{- $engine := mergeOverwrite (deepCopy $.Values.engine) (omit . "name" "config") -}}
{{- if eq .config.backend "vllm" -}}
{{- $_ := set $engine "resources" (mergeOverwrite (deepCopy $.Values.engine.vllmResources) (.resources | default dict)) -}}
{{- end -}}
{{- $list = append $list (dict
  "cluster" (printf "engine-%s" .name)
  "module" "tiermesh.engine"
  "image" (eq .config.backend "vllm" | ternary "engine-vllm" "engine")
  "spec" $engine
  "gpus" (int (include "tiermesh.gpuCount" (dict "tier" . "engine" $engine)))
  "tier" (pick . "name" "config")) -}}
{{- end -}}
{{- range $list -}}
{{- $_ := set . "sidecar" (or $.Values.envoy.sidecar.everywhere (eq .cluster "router")) -}}
{{- end -}}
{{- toYaml $list -}}
{{- end -}}
