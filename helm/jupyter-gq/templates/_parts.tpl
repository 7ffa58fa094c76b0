{{- /* Labels of an object; call with (list . "gq-service"). */}}
{{- define "gq.labels" -}}
{{- $top := index . 0 -}}
{{ include "gq.selector" . }}
app.kubernetes.io/version: {{ $top.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $top.Release.Service }}
helm.sh/chart: {{ $top.Chart.Name }}-{{ $top.Chart.Version | replace "+" "_" }}
jupyter-gq.org/installation: {{ $top.Release.Name | quote }}
{{- end }}

{{- /* Labels by which pods are selected. These labels never change. */}}
{{- define "gq.selector" -}}
{{- $top := index . 0 -}}
app.kubernetes.io/name: jupyter-gq
app.kubernetes.io/component: {{ index . 1 }}
app.kubernetes.io/instance: {{ $top.Release.Name | quote }}
{{- end }}

{{- /* Placement of the pods of a component; call with the component's values. */}}
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
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "gq.pullPolicy" -}}
{{- with .Values.image.pullPolicy -}}
imagePullPolicy: {{ . }}
{{- end }}
{{- end }}

{{- /* Security context of a container without any privileges. */}}
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

{{- /* Egress to name servers: pods of the cluster, and addresses that are not pods. */}}
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
          kubernetes.io/metadata.name: {{ .Release.Namespace | quote }}
      podSelector:
        matchLabels:
          {{- include "gq.selector" (list . "gq-service") | nindent 10 }}
  ports:
    - port: 8089
{{- end }}

{{- /*
Annotations of an object that outlives the release. Argo CD heeds the first one only when the whole application is deleted,
and finds no earlier revision (gq.made), so that the second one keeps it from deleting an object that has left the values.
*/}}
{{- define "gq.keep" -}}
helm.sh/resource-policy: keep
argocd.argoproj.io/sync-options: Prune=false
{{- end }}

{{- /*
The object as JSON if an earlier revision of this release created it, else empty. Call with (list . kind namespace name).

An object that must never be deleted stays in the release even if the values no longer ask for it. If it left the release,
Helm would keep the object, but a rollback to a revision that had it would fail, because Helm would look for it in vain.
*/}}
{{- define "gq.made" -}}
{{- $top := index . 0 -}}
{{- $found := lookup "v1" (index . 1) (index . 2) (index . 3) -}}
{{- if $found -}}
{{- $marks := $found.metadata.annotations | default dict -}}
{{- if and (eq (get $marks "meta.helm.sh/release-name") $top.Release.Name) (eq (get $marks "meta.helm.sh/release-namespace") $top.Release.Namespace) -}}
{{- toJson $found -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
A claim that outlives the release. Call with a dict: top, wanted (whether the values ask for it), namespace, name,
component, mode, size, storageClassName.
*/}}
{{- define "gq.claim" -}}
{{- $made := include "gq.made" (list .top "PersistentVolumeClaim" .namespace .name) }}
{{- if or .wanted $made }}
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {{ .name }}
  namespace: {{ .namespace | quote }}
  labels:
    {{- include "gq.labels" (list .top .component) | nindent 4 }}
  annotations:
    {{- include "gq.keep" .top | nindent 4 }}
spec:
  {{- if .wanted }}
  accessModes: [{{ .mode }}]
  {{- with .storageClassName }}
  storageClassName: {{ . | quote }}
  {{- end }}
  resources:
    requests:
      storage: {{ .size | quote }}
  {{- else }}
  {{- toYaml (fromJson $made).spec | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}

{{- /* Seconds that a pod of the service continues to work when it is told to end. 0 with SQLite: no second pod starts before the first has ended. */}}
{{- define "gq.handover" -}}
{{- ternary 0 (int .Values.service.handover) (eq .Values.database.kind "sqlite") -}}
{{- end }}
