{{/* Envoy: its first configuration, its container, its probes. */}}

{{/* Takes (dict "root" $ "role" "sidecar" "component" "router"). */}}
{{- define "tiermesh.envoyBootstrap" -}}
- name: envoy-bootstrap
  image: {{ include "tiermesh.image" (dict "root" .root "name" "mesh" "override" .root.Values.controlPlane.image) }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  command:
    - bash
    - -c
    - exec python -m tiermesh.mesh bootstrap --config /etc/tiermesh/tiermesh.yaml --role {{ .role }} --service {{ .component }} --node-id "$POD_NAME" --out /etc/envoy/
  env:
    {{- include "tiermesh.env" .root | nindent 4 }}
  resources:
    requests: {cpu: 50m, memory: 96Mi}
    limits: {memory: 256Mi}
  securityContext:
    {{- include "tiermesh.containerSecurity" .root | nindent 4 }}
  volumeMounts:
    {{- include "tiermesh.mounts" .root | nindent 4 }}
    {{- include "tiermesh.tlsMounts" . | nindent 4 }}
    - name: envoy
      mountPath: /etc/envoy
{{- end -}}

{{/* Takes (dict "root" $ "component" "router" "concurrency" 1). */}}
{{- define "tiermesh.envoyCommand" -}}
image: {{ include "tiermesh.image" (dict "root" .root "name" "mesh" "override" .root.Values.envoy.image) }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
command: [envoy]
args:
  - --config-path
  - /etc/envoy/envoy.yaml
  - --log-level
  - {{ .root.Values.envoy.logLevel | quote }}
  - --concurrency
  - {{ .concurrency | quote }}
  - --drain-time-s
  - {{ ceil (toString .root.Values.config.drain_s | float64) | int | max 1 | quote }}
  # Callers hear of a drain with their next answer, not some time during it.
  - --drain-strategy
  - immediate
  - --disable-hot-restart
securityContext:
  {{- include "tiermesh.containerSecurity" .root | nindent 2 }}
volumeMounts:
  - name: envoy
    mountPath: /etc/envoy
    readOnly: true
  {{- include "tiermesh.tlsMounts" . | nindent 2 }}
{{- end -}}

{{/*
A sidecar proper: an init container that stays. It starts before the service and stops after it, so the service can
finish its calls. No preStop: Kubernetes would run it when the pod begins to stop, while the service still needs the
listener. The listener is on loopback, out of the kubelet's reach, so it is probed from inside.
Takes (dict "root" $ "component" "router").
*/}}
{{- define "tiermesh.sidecar" -}}
- name: envoy
  restartPolicy: Always
  {{- include "tiermesh.envoyCommand" (merge (dict "concurrency" .root.Values.envoy.sidecar.concurrency) .) | nindent 2 }}
  {{- with .root }}
  ports:
    - name: mesh
      containerPort: {{ .Values.ports.mesh }}
  resources:
    {{- toYaml .Values.envoy.sidecar.resources | nindent 4 }}
  readinessProbe:
    exec:
      command:
        {{- include "tiermesh.probeListener" .Values.ports.mesh | nindent 8 }}
    periodSeconds: 5
    timeoutSeconds: 3
  livenessProbe:
    {{- include "tiermesh.envoyLiveness" . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* Envoy opens a listener only with its routes at hand; its /ready says yes without any. Takes a port. */}}
{{- define "tiermesh.probeListener" -}}
- bash
- -c
- exec 3<>/dev/tcp/127.0.0.1/{{ . }}
{{- end -}}

{{- define "tiermesh.envoyLiveness" -}}
exec:
  command:
    - bash
    - -c
    - >-
      exec 3<>/dev/tcp/127.0.0.1/{{ .Values.ports.admin }}
      && printf 'GET /server_info HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
      && read -r -t 3 status <&3 && [[ $status == *' 200 '* ]]
periodSeconds: 10
timeoutSeconds: 5
failureThreshold: 6
{{- end -}}

{{/* Envoy leaves at once when told to stop, so it is told to drain first. Takes root. */}}
{{- define "tiermesh.envoyDrain" -}}
exec:
  command:
    - bash
    - -c
    - >-
      exec 3<>/dev/tcp/127.0.0.1/{{ .Values.ports.admin }}
      && printf 'POST /drain_listeners?graceful&skip_exit HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n' >&3;
      sleep {{ add (int .Values.removalSeconds) (int (ceil (toString .Values.config.drain_s | float64))) }}
{{- end -}}
