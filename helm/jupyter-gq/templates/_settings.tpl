{{- /*
Values become settings in Python. See docs/decisions/0029-ship-a-companion-chart.md. Rules:
1. A value that is not set (null or empty) is not written: what the mounted file says holds.
2. The words are those of the settings; `overQuotaWeight` here is `over_quota_weight` there.
3. JSON is Python but for three names, which the file defines first.
*/}}

{{- /* One section; call with (dict "section" "IdlePolicy" "values" .Values.idle). */}}
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
