{{/* Names are fixed, and so one cluster has one installation: the admission policies know the service accounts. */}}

{{- define "nodemend.labels" -}}
app.kubernetes.io/name: nodemend
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* Call with the component's name. */}}
{{- define "nodemend.selector" -}}
app.kubernetes.io/name: nodemend
app.kubernetes.io/component: {{ . }}
{{- end }}

{{/* Call with (dict "root" . "image" .Values.image.worker). */}}
{{- define "nodemend.image" -}}
{{- $all := .root.Values.image -}}
{{- if $all.registry }}{{ trimSuffix "/" $all.registry }}/{{ end }}{{ .image.repository }}
{{- if .image.digest }}@{{ .image.digest }}{{ else }}:{{ $all.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{/* The manifests of a file that is derived elsewhere, in this release's namespace and with its labels.
     Call with (dict "root" . "file" "rbac/worker.yaml" "annotations" (dict)): annotations of the service account. */}}
{{- define "nodemend.derived" -}}
{{- $root := .root -}}
{{- $namespace := $root.Release.Namespace -}}
{{- $annotations := .annotations -}}
{{- $text := required (printf "The chart lacks files/%s: it was packaged without what is derived." .file) ($root.Files.Get (printf "files/%s" .file)) -}}
{{- $text = $text | replace "system:serviceaccount:nodemend:" (printf "system:serviceaccount:%s:" $namespace) -}}
{{- range splitList "\n---\n" $text }}
{{- $object := fromYaml . }}
{{- if $object.kind }}
{{- if eq ($object.metadata.namespace | default "") "nodemend" }}
{{- $_ := set $object.metadata "namespace" $namespace }}
{{- end }}
{{- range $object.subjects }}
{{- $_ := set . "namespace" $namespace }}
{{- end }}
{{- $_ := set $object.metadata "labels" (include "nodemend.labels" $root | fromYaml) }}
{{- if and (eq $object.kind "ServiceAccount") $annotations }}
{{- $_ := set $object.metadata "annotations" $annotations }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end }}

{{/* How a process reaches Temporal. */}}
{{- define "nodemend.temporalEnv" -}}
- {name: TEMPORAL_ADDRESS, value: {{ .Values.temporal.address | quote }}}
- {name: TEMPORAL_NAMESPACE, value: {{ .Values.temporal.namespace | quote }}}
{{- with .Values.temporal.tls }}
{{- if or .enabled .secret }}
- {name: TEMPORAL_TLS, value: "true"}
{{- end }}
{{- with .serverName }}
- {name: TEMPORAL_TLS_SERVER_NAME, value: {{ . | quote }}}
{{- end }}
{{- if .secret }}
- {name: TEMPORAL_TLS_CLIENT_CERT_PATH, value: /etc/nodemend/temporal/tls.crt}
- {name: TEMPORAL_TLS_CLIENT_KEY_PATH, value: /etc/nodemend/temporal/tls.key}
{{- if .ca }}
- {name: TEMPORAL_TLS_SERVER_CA_CERT_PATH, value: /etc/nodemend/temporal/ca.crt}
{{- end }}
{{- end }}
{{- end }}
{{- if include "nodemend.apiKeySecret" . }}
- name: TEMPORAL_API_KEY
  valueFrom: {secretKeyRef: {name: {{ include "nodemend.apiKeySecret" . | quote }}, key: {{ .Values.temporal.apiKey.key | quote }}}}
{{- end }}
{{- with .Values.payloads }}
{{- if .keysSecret }}
- {name: NODEMEND_PAYLOAD_KEYS, value: /etc/nodemend/payload-keys}
{{- end }}
{{- with .key }}
- {name: NODEMEND_PAYLOAD_KEY, value: {{ . | quote }}}
{{- end }}
{{- end }}
{{- end }}

{{/* How a person's shell reaches Temporal as the pods do: lines for NOTES.txt, beside address and namespace. */}}
{{- define "nodemend.temporalExports" -}}
{{- $read := printf "kubectl get secret -n %s %%s -o go-template='{{index .data %%q | base64decode}}'" .Release.Namespace }}
{{- with .Values.temporal.tls }}
{{- if or .enabled .secret }}
export TEMPORAL_TLS=true{{ with .serverName }} TEMPORAL_TLS_SERVER_NAME={{ . }}{{ end }}
{{- end }}
{{- if .secret }}
export TEMPORAL_TLS_CLIENT_CERT_DATA="$({{ printf $read .secret "tls.crt" }})"
export TEMPORAL_TLS_CLIENT_KEY_DATA="$({{ printf $read .secret "tls.key" }})"
{{- if .ca }}
export TEMPORAL_TLS_SERVER_CA_CERT_DATA="$({{ printf $read .secret "ca.crt" }})"
{{- end }}
{{- end }}
{{- end }}
{{- with include "nodemend.apiKeySecret" . }}
export TEMPORAL_API_KEY="$({{ printf $read . $.Values.temporal.apiKey.key }})"
{{- end }}
{{- with .Values.payloads.keysSecret }}
export NODEMEND_PAYLOAD_KEYS=FOLDER   # with the keys of Secret {{ . }}, each in a file by its name
{{- end }}
{{- end }}

{{/* Where what it needs for that is mounted, and from which Secrets. */}}
{{- define "nodemend.temporalMounts" -}}
{{- if .Values.temporal.tls.secret }}
- {name: temporal, mountPath: /etc/nodemend/temporal, readOnly: true}
{{- end }}
{{- if .Values.payloads.keysSecret }}
- {name: payload-keys, mountPath: /etc/nodemend/payload-keys, readOnly: true}
{{- end }}
{{- end }}

{{/* Call with (dict "root" . "mode" "0440"). */}}
{{- define "nodemend.temporalVolumes" -}}
{{- if .root.Values.temporal.tls.secret }}
- name: temporal
  secret: {secretName: {{ .root.Values.temporal.tls.secret | quote }}, defaultMode: {{ .mode }}}
{{- end }}
{{- if .root.Values.payloads.keysSecret }}
- name: payload-keys
  secret: {secretName: {{ .root.Values.payloads.keysSecret | quote }}, defaultMode: {{ .mode }}}
{{- end }}
{{- end }}

{{- define "nodemend.apiKeySecret" -}}
{{- with .Values.temporal.apiKey }}{{ .secret | default (ternary "nodemend-temporal" "" .externalSecret.enabled) }}{{ end }}
{{- end }}

{{- define "nodemend.temporalPort" -}}
{{ regexFind "[0-9]+$" .Values.temporal.address }}
{{- end }}

{{/* Whether there is a pager: people are paged, or CloudWatch is told how things stand. */}}
{{- define "nodemend.pages" -}}
{{- if or .Values.pager.enabled .Values.cloudwatch.enabled }}true{{ end }}
{{- end }}

{{/* Call with an http(s) address. One that is none is refused in checks.yaml, with its name: urlParse would fail first. */}}
{{- define "nodemend.urlPort" -}}
{{- $host := regexReplaceAll "^https?://([^/]*).*$" . "${1}" -}}
{{ regexFind "[0-9]+$" (regexFind ":[0-9]+$" $host) | default (ternary "443" "80" (hasPrefix "https:" .)) }}
{{- end }}

{{/* What every container of ours that needs no device is held to. */}}
{{- define "nodemend.heldContainer" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "nodemend.heldPod" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* Replicas on different nodes and in different zones, where there are such. Call with the component's name. */}}
{{- define "nodemend.spread" -}}
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
- maxSkew: 1
  topologyKey: {{ . }}
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels: {{- include "nodemend.selector" $ | nindent 6 }}
{{- end }}
{{- end }}
