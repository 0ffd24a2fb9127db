{{- define "patchbay.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "patchbay.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "patchbay.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "patchbay.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "patchbay.selectorLabels" -}}
app.kubernetes.io/name: {{ include "patchbay.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "patchbay.labels" -}}
{{ include "patchbay.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "patchbay.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "patchbay.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "patchbay.secretName" -}}
{{- default (include "patchbay.fullname" .) .Values.existingSecret -}}
{{- end -}}

{{- /* checkSecurity refuses configurations that would not start, or leave /v1 open. */ -}}
{{- define "patchbay.checkSecurity" -}}
{{- $security := .Values.config.security | default dict -}}
{{- if index $security "allow-open" -}}
{{- else if not $security.enabled -}}
{{- fail "config.security.enabled is not true, so the gateway would not start. Turn it on; or set config.security.allow-open to true if nobody else reaches the gateway." -}}
{{- else if and (not $security.keys) (not .Values.allowNoKeys) -}}
{{- fail "config.security.keys has no key, so everybody who reaches the gateway could use /v1. Keep the key of values.yaml, add yours, or set allowNoKeys to true." -}}
{{- end -}}
{{- end -}}

{{- /* generates is "yes" where the chart makes the credentials that the configuration names. */ -}}
{{- define "patchbay.generates" -}}
{{- $config := toYaml .Values.config -}}
{{- if and .Values.generateCredentials (or (contains "${ADMIN_TOKEN_SHA256}" $config) (contains "${API_KEY_SHA256}" $config)) -}}yes{{- end -}}
{{- end -}}
