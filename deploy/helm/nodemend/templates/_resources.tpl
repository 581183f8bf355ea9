{{/* Requests and limits from measured use; docs/benchmarks.md has the figures, and tests/deploying holds that the
     limits lie above them. No limit of CPU: a throttled detector loses kernel records. */}}

{{- define "nodemend.detectorResources" -}}
requests: {cpu: 10m, memory: 32Mi}
limits: {memory: 256Mi}
{{- end }}

{{- define "nodemend.watchClusterResources" -}}
requests: {cpu: 50m, memory: 128Mi}
limits: {memory: 384Mi}
{{- end }}

{{- define "nodemend.workerResources" -}}
requests: {cpu: 200m, memory: 256Mi}
limits: {memory: 1Gi}
{{- end }}
