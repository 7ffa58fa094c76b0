{{- /*
Every name that the chart gives. Rules:
1. A name depends on the release alone, so that an upgrade or a rollback finds the same objects and no job is touched.
2. Accounts have fixed names: the service knows the callers of its API by them. Their namespaces tell releases apart.
3. Objects of the cluster carry the release's name, which must therefore be unique in the cluster.
*/}}

{{- define "gq.service" -}}{{ .Release.Name }}-gq-service{{- end }}
{{- define "gq.serviceConfig" -}}{{ .Release.Name }}-gq-service{{- end }}
{{- define "gq.hubConfig" -}}{{ .Release.Name }}-gq-hub{{- end }}
{{- define "gq.state" -}}{{ .Release.Name }}-gq-state{{- end }}
{{- define "gq.agent" -}}{{ .Release.Name }}-gq-agent{{- end }}
{{- define "gq.agentPriority" -}}{{ .Release.Name }}-gq-agent{{- end }}
{{- define "gq.checkpoints" -}}{{ .Release.Name }}-gq-checkpoints{{- end }}
{{- define "gq.reservation" -}}{{ .Release.Name }}-gq-reservation{{- end }}
{{- define "gq.placeholder" -}}{{ .Release.Name }}-gq-placeholder{{- end }}
{{- define "gq.training" -}}{{ .Release.Name }}-gq-training{{- end }}
{{- define "gq.accountPolicy" -}}{{ .Release.Name }}-gq-account{{- end }}
{{- define "gq.devicePolicy" -}}{{ .Release.Name }}-gq-devices{{- end }}

{{- define "gq.nodesNamespace" -}}{{ .Values.nodes.namespace | default (printf "%s-gq-nodes" .Release.Name) }}{{- end }}
{{- define "gq.trainingNamespace" -}}{{ .Values.training.namespace | default (printf "%s-gq-train" .Release.Name) }}{{- end }}

{{- define "gq.serviceAccount" -}}gq-service{{- end }}
{{- define "gq.agentAccount" -}}gq-agent{{- end }}
{{- define "gq.runnerAccount" -}}gq-runner{{- end }}
{{- define "gq.reservationAccount" -}}gq-reservation{{- end }}

{{- /* The Lease of the one replica that decides. */}}
{{- define "gq.lease" -}}{{ .Release.Name }}-gq-service{{- end }}

{{- define "gq.prefix" -}}{{ .Values.hub.baseUrl | trimSuffix "/" }}/services/jupyter-gq/{{- end }}
{{- define "gq.serviceUrl" -}}http://{{ include "gq.service" . }}.{{ .Release.Namespace }}.svc:8089{{ include "gq.prefix" . }}{{- end }}
{{- /* Where notebooks dial the service. */}}
{{- define "gq.notebookUrl" -}}
{{- with .Values.hub.notebookUrl }}{{ . | trimSuffix "/" }}{{ include "gq.prefix" $ }}{{ else }}{{ include "gq.serviceUrl" . }}{{ end }}
{{- end }}
{{- /* It runs privileged on the GPU nodes, so there is no default that somebody else could publish. */}}
{{- define "gq.image" -}}
{{- required "image.name is empty. Name the image that you built from docker/service.Dockerfile, such as registry.example.org/jupyter-gq/service." .Values.image.name }}
{{- with .Values.image.digest }}@{{ . }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}
