{{- /* Labels of an object; call with (list . "gq-service"). */}}
{{- define "gq.labels" -}}
{{- $top := index . 0 -}}
{{ include "gq.selector" . }}
app.kubernetes.io/version: {{ $top.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $top.Release.Service }}
helm.sh/chart: {{ $top.Chart.Name }}-{{ $top.Chart.Version | replace "+" "_" }}
jupyter-gq.org/installation: {{ $top.Release.Name }}
{{- end }}

{{- /* Labels by which pods are found; they never change. */}}
{{- define "gq.selector" -}}
{{- $top := index . 0 -}}
app.kubernetes.io/name: jupyter-gq
app.kubernetes.io/component: {{ index . 1 }}
app.kubernetes.io/instance: {{ $top.Release.Name }}
{{- end }}

{{- /* Where pods of a component run; call with the component's values. */}}
{{- define "gq.place" -}}
{{- with .nodeSelector -}}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "gq.pullSecrets" -}}
{{- with .Values.imagePullSecrets -}}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "gq.pullPolicy" -}}
{{- with .Values.image.pullPolicy -}}
imagePullPolicy: {{ . }}
{{- end }}
{{- end }}

{{- /* A container that may do nothing but run. */}}
{{- define "gq.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "gq.podSecurity" -}}
runAsNonRoot: true
runAsUser: 1000
runAsGroup: 1000
fsGroup: 1000
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- /* Name servers: pods of the cluster, and those addresses that are none. */}}
{{- define "gq.egressDns" -}}
- to:
    - namespaceSelector: {}
    {{- range .Values.networkPolicies.dns }}
    - ipBlock:
        cidr: {{ . | quote }}
    {{- end }}
  ports:
    - port: 53
      protocol: UDP
    - port: 53
      protocol: TCP
{{- end }}

{{- define "gq.egressService" -}}
- to:
    - namespaceSelector:
        matchLabels:
          kubernetes.io/metadata.name: {{ .Release.Namespace }}
      podSelector:
        matchLabels:
          {{- include "gq.selector" (list . "gq-service") | nindent 10 }}
  ports:
    - port: 8089
{{- end }}
