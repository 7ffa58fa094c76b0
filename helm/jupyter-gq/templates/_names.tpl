{{- /*
All names that the chart gives. Rules:
1. A name depends on the release alone. An upgrade or a rollback then finds the same objects and disturbs no job.
2. Service accounts have fixed names, by which the service recognizes callers of its API. Namespaces tell releases apart.
3. Cluster-wide objects carry the name of the release, which must therefore be unique in the cluster.
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

{{- /* The Lease of the replica that leads. */}}
{{- define "gq.lease" -}}{{ .Release.Name }}-gq-service{{- end }}

{{- define "gq.prefix" -}}{{ .Values.hub.baseUrl | trimSuffix "/" }}/services/jupyter-gq/{{- end }}
{{- define "gq.serviceUrl" -}}http://{{ include "gq.service" . }}.{{ .Release.Namespace }}.svc:8089{{ include "gq.prefix" . }}{{- end }}
{{- /* URL at which notebooks reach the service. */}}
{{- define "gq.notebookUrl" -}}
{{- with .Values.hub.notebookUrl }}{{ . | trimSuffix "/" }}{{ include "gq.prefix" $ }}{{ else }}{{ include "gq.serviceUrl" . }}{{ end }}
{{- end }}
{{- /* The image runs privileged on the GPU nodes, so there is no default name that somebody else could publish. */}}
{{- define "gq.image" -}}
{{- required "image.name is empty. Name the image that you built from docker/service.Dockerfile, such as registry.example.org/jupyter-gq/service." .Values.image.name }}
{{- with .Values.image.digest }}@{{ . }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}
