{{- /*
All names that the chart gives. Rules:
1. A name depends on the release alone. An upgrade or a rollback then finds the same objects and disturbs no job.
2. Service accounts have fixed names, by which the service recognizes callers of its API. Namespaces tell releases apart.
3. Cluster-wide objects carry the name of the release, which must therefore be unique in the cluster.
4. Helm takes longer names of releases, and such with dots, than a Service or a namespace may have: they are refused here.
*/}}

{{- define "gq.release" -}}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?$" .Release.Name) }}
{{- fail (printf "The release is called %s, and no Service or namespace can have a name that begins so. Choose a name of at most 52 small letters, digits and hyphens, such as jupyter-gq." .Release.Name) }}
{{- end -}}
{{ .Release.Name }}
{{- end }}

{{- define "gq.service" -}}{{ include "gq.release" . }}-gq-service{{- end }}
{{- define "gq.serviceConfig" -}}{{ include "gq.release" . }}-gq-service{{- end }}
{{- define "gq.hubConfig" -}}{{ include "gq.release" . }}-gq-hub{{- end }}
{{- define "gq.state" -}}{{ include "gq.release" . }}-gq-state{{- end }}
{{- define "gq.agent" -}}{{ include "gq.release" . }}-gq-agent{{- end }}
{{- define "gq.agentPriority" -}}{{ include "gq.release" . }}-gq-agent{{- end }}
{{- define "gq.checkpoints" -}}{{ include "gq.release" . }}-gq-checkpoints{{- end }}
{{- define "gq.reservation" -}}{{ include "gq.release" . }}-gq-reservation{{- end }}
{{- define "gq.placeholder" -}}{{ include "gq.release" . }}-gq-placeholder{{- end }}
{{- define "gq.training" -}}{{ include "gq.release" . }}-gq-training{{- end }}
{{- define "gq.accountPolicy" -}}{{ include "gq.release" . }}-gq-account{{- end }}
{{- define "gq.devicePolicy" -}}{{ include "gq.release" . }}-gq-devices{{- end }}

{{- define "gq.nodesNamespace" -}}{{ .Values.nodes.namespace | default (printf "%s-gq-nodes" (include "gq.release" .)) }}{{- end }}
{{- define "gq.trainingNamespace" -}}{{ .Values.training.namespace | default (printf "%s-gq-train" (include "gq.release" .)) }}{{- end }}

{{- define "gq.serviceAccount" -}}gq-service{{- end }}
{{- define "gq.agentAccount" -}}gq-agent{{- end }}
{{- define "gq.runnerAccount" -}}gq-runner{{- end }}
{{- define "gq.reservationAccount" -}}gq-reservation{{- end }}

{{- /* The Lease of the replica that leads. */}}
{{- define "gq.lease" -}}{{ include "gq.release" . }}-gq-service{{- end }}

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
