{{- /*
Values become settings in Python. See docs/decisions/0029-ship-a-companion-chart.md. Rules:
1. A value that is not set (null or empty) is not written, so the setting of the mounted file applies.
2. A value has the name of its setting: `overQuotaWeight` becomes `over_quota_weight`.
3. JSON is valid Python except for true, false and null, which the written file defines first.
*/}}

{{- /* The settings of a section; call with (dict "section" "IdlePolicy" "values" .Values.idle). */}}
{{- define "gq.section" -}}
{{- $section := .section -}}
{{- range $key, $value := .values }}
{{- if not (or (kindIs "invalid" $value) (and (kindIs "map" $value) (empty $value)) (and (kindIs "string" $value) (empty $value))) }}
c.{{ $section }}.{{ snakecase $key }} = {{ toPrettyJson $value }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Dicts by name (queues, pools) with the keys of the settings, as JSON. */}}
{{- define "gq.entries" -}}
{{- $entries := dict -}}
{{- range $name, $entry := . -}}
{{- $written := dict -}}
{{- range $key, $value := $entry -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $_ := set $written (snakecase $key) $value -}}
{{- end -}}
{{- end -}}
{{- $_ := set $entries $name $written -}}
{{- end -}}
{{- toPrettyJson $entries -}}
{{- end }}
